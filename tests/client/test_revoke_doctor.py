# SPDX-License-Identifier: Apache-2.0
"""`cubinary release revoke` from the store to the client that is refused, and `cubinary doctor`."""

import harness


class Revoke(harness.Case):
    def setUp(self):
        super().setUp()
        self.store, self.key = self.tmp / "k.db", self.tmp / "key"
        self.run_program(harness.test_program("make_store"), self.store)
        self.cubinary("keygen", self.key)
        self.cubinary("release", "create", "r1", "--store", self.store)
        self.cubinary("release", "sign", "r1", "--key", self.key, "--store", self.store)

    def fetch(self, source, *words, status=0):
        return self.run_program(harness.binary("cubinary-fetch"), source, "--key", str(self.key) + ".pub",
                                "--cache", self.tmp / "cache", *words, status=status)

    def test_from_the_store_to_the_client(self):
        layout = self.tmp / "layout"
        self.cubinary("export", layout, "--store", self.store, "--release", "r1")
        self.fetch(layout)
        told = self.cubinary("release", "revoke", "r1", "--reason", "wrong for odd sizes", "--key", self.key,
                             "--store", self.store)
        self.assertIn("release r1", told.stdout)
        self.assertIn("revocation list 1: 1 digest", told.stdout)
        again = self.cubinary("release", "revoke", "sha256:" + "ab" * 32, "--key", self.key, "--store", self.store,
                              "--json").json()
        self.assertEqual(again["serial"], 2)
        self.assertEqual(len(again["revoked"]), 2)
        self.cubinary("store", "gc", "--store", self.store)
        exported = self.cubinary("export", layout, "--store", self.store, "--release", "r1")
        self.assertIn("cubinary-revocations", exported.stdout)
        self.assertIn("is revoked", self.fetch(layout, status=1).stderr)

    def test_through_a_server(self):
        token = self.tmp / "token"
        made = self.cubinary("token", "create", "--name", "ci", "--scope", "read,publish", "--store", self.store,
                             "--json").json()
        token.write_text(made["secret"])
        server = self.background(harness.binary("cubinary"), "serve", "--store", self.store, "--listen", "127.0.0.1:0")
        url = server.line(r"http://127\.0\.0\.1:\d+").group(0)
        self.fetch(url)
        self.cubinary("release", "revoke", "r1", "--reason", "wrong for odd sizes", "--key", self.key, "--server", url,
                      "--token-file", token)
        # At the next look, whatever the cache holds; and from then on without the network too.
        refused = self.fetch(url, status=1).stderr
        self.assertIn("is revoked", refused)
        self.assertIn("wrong for odd sizes", refused)
        server.stop()
        self.assertIn("is revoked", self.fetch(url, "--offline", status=1).stderr)

    def test_what_is_refused(self):
        self.refused("release", "revoke", "r2", "--key", self.key, "--store", self.store, status=1,
                     says="no release .r2.; did you mean r1|no release .r2.")
        self.refused("release", "revoke", "sha256:12", "--key", self.key, "--store", self.store, status=2,
                     says="SHA-256")
        self.refused("release", "promote", "r1", "--as", "cubinary-revocations", "--store", self.store, status=2,
                     says="cannot name a channel")
        self.refused("release", "create", "cubinary-revocations", "--store", self.store, status=2,
                     says="revocation list")


class Doctor(harness.Case):
    def setUp(self):
        super().setUp()
        self.run_program(harness.test_program("make_test_layout"), self.tmp / "layout", self.tmp / "key")
        self.fake = {"CUBINARY_LIBCUDA": str(harness.test_program("libfake_libcuda.so")), "CUBINARY_SOURCE": "",
                     "CUBINARY_KEY": "", "CUBINARY_CACHE": str(self.tmp / "cache")}

    def doctor(self, *words, status, env=None):
        return self.cubinary("doctor", "--json", *words, status=status, env={**self.fake, **(env or {})}).json()

    def states(self, report, area):
        return {f["what"]: f["state"] for f in report["findings"] if f["area"] == area}

    def test_a_machine_that_has_everything(self):
        report = self.doctor("--source", self.tmp / "layout", "--key", self.tmp / "key.pub", status=0)
        self.assertEqual(report["lacking"], 0)
        self.assertEqual(self.states(report, "device"), {"GPU 0": "ok", "GPU 1": "ok"})
        self.assertEqual(self.states(report, "source")["code for Fake GPU 0"], "ok")
        self.assertFalse((self.tmp / "cache").exists(), "a doctor leaves nothing behind")

    def test_everything_that_is_missing_in_one_run(self):
        report = self.doctor("--source", "http://127.0.0.1:1", "--key", self.tmp / "no.pub", "--triton", status=3,
                             env={"CUBINARY_LIBCUDA": "/nonexistent/libcuda.so.1", "PATH": "/nonexistent", "CC": "",
                                  "HOME": "/nonexistent", "TRITON_LIBCUDA_PATH": "/nonexistent"})
        lacking = {(f["area"], f["what"]) for f in report["findings"] if f["state"] == "lacking"}
        for wanted in [("driver", "libcuda"), ("key", str(self.tmp / "no.pub")), ("source", "http://127.0.0.1:1"),
                       ("triton", "python3"), ("triton", "C compiler"), ("triton", "libcuda path")]:
            self.assertIn(wanted, lacking)
        for finding in report["findings"]:
            if finding["state"] == "lacking" and finding["area"] != "source":
                self.assertTrue(finding["remedy"], finding)

    def test_a_fault_does_not_hide_the_next(self):
        make = harness.test_program("make_test_layout")
        self.run_program(make, self.tmp / "other", self.tmp / "other-key")
        self.run_program(make, self.tmp / "aged", self.tmp / "key", "expires=1000000000")
        # A key that cannot be read, one that did not sign, a release that expired: each on a GPU of another kind.
        for layout, key, says in (("layout", "no.pub", "No such file"), ("layout", "other-key.pub", "no pinned key made any"),
                                  ("aged", "key.pub", "expired on 2001-09-09")):  # fmt: skip
            with self.subTest(key, layout=layout):
                report = self.doctor("--source", self.tmp / layout, "--key", self.tmp / key, status=3,
                                     env={"FAKE_CUDA_CC": "75"})  # fmt: skip
                lacking = {f["what"]: f["found"] for f in report["findings"] if f["state"] == "lacking"}
                self.assertIn("code for Fake GPU 0", lacking)
                self.assertIn(says, " ".join(lacking.values()))

    def test_a_device_or_driver_the_release_is_not_for(self):
        source = ("--source", self.tmp / "layout", "--key", self.tmp / "key.pub")
        report = self.doctor(*source, status=3, env={"FAKE_CUDA_CC": "75"})
        self.assertEqual(self.states(report, "source")["code for Fake GPU 0"], "lacking")
        report = self.doctor(*source, status=3, env={"FAKE_CUDA_VERSION": "12080"})
        finding = next(f for f in report["findings"] if f["what"] == "code for Fake GPU 0")
        self.assertIn("driver 580", finding["found"])

    def test_for_people(self):
        told = self.cubinary("doctor", status=0, env=self.fake).stdout
        self.assertIn("nothing is lacking", told)
        self.assertIn("Fake GPU 0", told)


if __name__ == "__main__":
    harness.main()
