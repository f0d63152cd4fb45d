# SPDX-License-Identifier: Apache-2.0
"""Keys, releases, channels and layouts, as the person at the command line meets them."""

import hashlib
import json
import os
import stat

import harness
import made_up


class Keys(harness.Case):
    def test_a_key_pair(self):
        path = self.tmp / "k"
        made = self.cubinary("keygen", path, "--json").json()
        self.assertEqual(made["private_key"], str(path))
        self.assertRegex(made["key_id"], r"\A[0-9a-f]{64}\Z")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE((self.tmp / "k.pub").stat().st_mode), 0o644)
        self.assertIn("BEGIN PRIVATE KEY", path.read_text())
        self.assertIn("BEGIN PUBLIC KEY", (self.tmp / "k.pub").read_text())

    def test_keys_are_never_overwritten(self):
        path = self.tmp / "k"
        self.cubinary("keygen", path)
        before = path.read_bytes()
        self.refused("keygen", path, status=1, says="exists already")
        self.assertEqual(path.read_bytes(), before)
        # A private key alone must not be overwritten either, nor get a public key it does not match.
        (self.tmp / "k.pub").unlink()
        self.refused("keygen", path, status=1, says="exists already")
        self.assertEqual(path.read_bytes(), before)
        self.assertEqual(sorted(os.listdir(self.tmp)), ["k"])

    def test_a_folder_that_is_not_there(self):
        self.refused("keygen", self.tmp / "no" / "k", status=1, says="cannot write .*k")


class Releases(made_up.Case):
    def test_what_people_read(self):
        store = self.make_store()
        key, _ = self.make_key()
        made = self.cubinary("release", "create", "r1", "--store", store, "--expires", "90d")
        self.assertIn("scale sm_120: 5 entries, 0 tuned, 5 untuned (manifest default)\n", made.stdout)
        self.assertRegex(made.stdout, r"release r1: serial 1, 2 targets, .* packed, expires \d{4}-\d\d-\d\d ")
        self.assertIn("note: kernel attend has no cubin for sm_120: left out\n", made.stderr)
        self.assertIn("clients refuse it until it is signed", made.stderr)
        signed = self.cubinary("release", "sign", "r1", "--key", key, "--store", store)
        self.assertRegex(signed.stdout, r"signed r1 \(serial 1, expires \d{4}-")
        promoted = self.cubinary("release", "promote", "r1", "--as", "prod", "--store", store)
        self.assertEqual(promoted.stdout, "prod is now r1 (serial 1)\n")
        listed = self.cubinary("release", "list", "--store", store).stdout.splitlines()
        self.assertEqual(listed[0].split(), ["name", "serial", "created", "expires", "signed", "channels",
                                             "targets", "kernels", "size"])
        self.assertRegex(listed[1], r"^r1 +1  .* yes +prod +sm_90, sm_120 +2  ")
        shown = self.cubinary("release", "show", "r1", "--entries", "--store", store).stdout
        self.assertRegex(shown, r"(?m)^sm_120 +scale +5 +0 +5 +5 ")
        self.assertRegex(shown, r"(?m)^sm_90 +attend +T=f16 +d=64 +any +STAGES=2 +default 0 +- +32 ")

    def test_what_machines_read(self):
        store = self.make_store()
        key, _ = self.make_key()
        created = self.make_release(store, key=key)
        self.assertEqual(created["targets"], ["sm_90", "sm_120"])
        self.assertEqual([(k["kernel"], k["target"], k["entries"], k["tuned"], k["artifacts"])
                          for k in created["kernels"]],
                         [("attend", "sm_90", 2, 0, 2), ("scale", "sm_90", 5, 0, 5),
                          ("scale", "sm_120", 5, 0, 5)])
        listed = self.cubinary("release", "list", "--store", store, "--json").json()
        self.assertEqual([(r["name"], r["serial"], r["signed"], r["kernels"], r["index"]) for r in listed],
                         [("r1", 1, True, 2, created["index"])])
        shown = self.cubinary("release", "show", "r1", "--store", store, "--json").json()
        scale = shown["targets"][1]["kernels"][0]
        self.assertEqual(scale["name"], "scale")
        self.assertEqual(scale["entries"][0]["config"], {"VEC": 8, "WARPS": 4})
        self.assertEqual(scale["entries"][0]["origin"], "default")
        self.assertEqual(len(shown["key_ids"]), 1)
        self.make_release(store, "r2", arguments=["--kernel", "scale"])
        changes = self.cubinary("release", "diff", "r1", "r2", "--store", store, "--json").json()
        self.assertEqual([(c["kind"], c["target"], c["kernel"]) for c in changes],
                         [("removed", "sm_90", "attend")])

    def test_options_may_stand_before_the_name(self):
        store = self.make_store()
        key, _ = self.make_key()
        self.cubinary("release", "create", "--store", store, "--target", "sm_90,sm_120", "r1")
        self.cubinary("release", "create", "--store", store, "--target", "sm_90", "--target", "sm_120", "r2")
        self.cubinary("release", "sign", "--store", store, "--key", key, "r1")
        listed = self.cubinary("release", "list", "--store", store, "--json").json()
        self.assertEqual([(r["targets"], r["signed"]) for r in listed],
                         [(["sm_90", "sm_120"], True), (["sm_90", "sm_120"], False)])

    def test_reading_works_while_the_store_is_owned(self):
        # Exactly what a running server does to `release list`, `show` and `export`.
        import fcntl
        store = self.make_store()
        self.make_release(store)
        with open(str(store) + ".lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.cubinary("release", "list", "--store", store)
            self.export(store)


class Refusals(made_up.Case):
    def setUp(self):
        super().setUp()
        self.store = self.make_store()

    def release_names(self):
        return [r["name"] for r in self.cubinary("release", "list", "--store", self.store, "--json").json()]

    def test_names(self):
        self.make_release(self.store)
        for name in ["a b", ".x", "a/b", "x" * 129, "sha256-12"]:
            self.refused("release", "create", name, "--store", self.store, status=2,
                         says="cannot name a release")
        self.refused("release", "create", "r1", "--store", self.store, status=1, says="exists already")
        self.refused("release", "promote", "r1", "--as", "no good", "--store", self.store, status=2,
                     says="cannot name a channel")
        self.refused("release", "promote", "r1", "--as", "r1", "--store", self.store, status=1,
                     says="name of a release")
        self.assertEqual(self.release_names(), ["r1"])

    def test_unknown_release(self):
        self.make_release(self.store, "nightly")
        key, _ = self.make_key()
        for command in [("release", "sign", "nigthly", "--key", key), ("release", "show", "nigthly"),
                        ("release", "promote", "nigthly", "--as", "prod"),
                        ("release", "diff", "nightly", "nigthly"),
                        ("export", self.tmp / "layout", "--release", "nigthly")]:
            self.refused(*command, "--store", self.store, status=1, says='did you mean "nightly"')
        self.assertFalse((self.tmp / "layout").exists())

    def test_choices(self):
        create = ("release", "create", "r1", "--store", self.store)
        self.refused(*create, "--kernel", "skale", status=1, says='did you mean "scale"')
        self.refused(*create, "--target", "sm_100", status=1, says="cubinary build --target sm_100")
        self.refused(*create, "--target", "sm_1200", status=2, says="sm_1200")
        for expires in ["90", "d", "-1d", "0d", "99999999999999999999d", "1y"]:
            self.refused(*create, "--expires=" + expires, status=2, says="duration")
        self.assertEqual(self.release_names(), [])

    def test_failed_default(self):
        self.store.unlink()
        self.store = self.make_store("--failed-default")
        refusal = self.refused("release", "create", "r1", "--store", self.store, status=1,
                               says=["--keep-going", "kernel scale, sm_90: the default config VEC=1 WARPS=4 "
                                     "for T=f16 failed to compile: .*is undefined"])
        self.assertEqual(refusal.stderr.count("is undefined"), 2)
        self.assertEqual(self.release_names(), [])
        kept = self.cubinary("release", "create", "r1", "--keep-going", "--store", self.store)
        self.assertIn("scale sm_120: 4 entries", kept.stdout)
        self.assertEqual(kept.stderr.count("failed to compile"), 2)

    def test_keys(self):
        self.make_release(self.store)
        key, public = self.make_key()
        sign = ("release", "sign", "r1", "--store", self.store, "--key")
        key.chmod(0o640)
        self.refused(*sign, key, status=3, says="chmod")
        key.chmod(0o600)
        public.chmod(0o600)
        self.refused(*sign, public, status=2, says=str(public))
        self.refused(*sign, self.tmp / "none", status=1, says="none")
        key.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
        self.refused(*sign, key, status=2, says=str(key))
        wrong = self.tmp / "ed25519.key"
        if harness.find_tool("openssl"):
            self.run_program("openssl", "genpkey", "-algorithm", "ed25519", "-out", wrong)
            wrong.chmod(0o600)
            self.refused(*sign, wrong, status=2, says="P-256")
        self.assertFalse(self.cubinary("release", "list", "--store", self.store, "--json").json()[0]["signed"])

    def test_no_store(self):
        for command in [("release", "list"), ("release", "create", "r1"), ("release", "show", "r1"),
                        ("export", self.tmp / "layout", "--release", "r1")]:
            self.refused(*command, "--store", self.tmp / "none.db", status=1, says="none.db")
        self.assertFalse((self.tmp / "none.db").exists())
        self.assertFalse((self.tmp / "layout").exists())


class Layouts(made_up.Case):
    def test_every_blob_is_what_its_name_says(self):
        layout, _ = self.make_layout()
        index = json.loads((layout / "index.json").read_text())
        tags = {d["annotations"]["org.opencontainers.image.ref.name"]: d for d in index["manifests"]}
        hexes = {path.name for path in (layout / "blobs" / "sha256").iterdir()}
        for path in (layout / "blobs" / "sha256").iterdir():
            self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), path.name)
        self.assertEqual(set(tags), {"r1", "sha256-" + tags["r1"]["digest"].split(":")[1]})

        # Everything the index leads to is there, and nothing else.
        reached = set()

        def visit(descriptor):
            name = descriptor["digest"].split(":")[1]
            reached.add(name)
            data = (layout / "blobs" / "sha256" / name).read_bytes()
            self.assertEqual(len(data), descriptor["size"])
            if descriptor["mediaType"].startswith("application/vnd.oci.image."):
                document = json.loads(data)
                for key in ("manifests", "layers"):
                    for inner in document.get(key, []):
                        visit(inner)
                if "config" in document:
                    visit(document["config"])
            return data

        release = json.loads(visit(tags["r1"]))
        self.assertEqual(set(release), {"schemaVersion", "mediaType", "manifests"})
        for descriptor in release["manifests"]:
            self.assertLessEqual(set(descriptor), {"mediaType", "digest", "size", "annotations"})
        visit(tags["sha256-" + tags["r1"]["digest"].split(":")[1]])
        self.assertEqual(reached, hexes)

    def test_the_signature_holds_without_our_code(self):
        if not harness.find_tool("openssl"):
            self.skipTest("this machine lacks openssl")
        import base64
        layout, public = self.make_layout()
        index = json.loads((layout / "index.json").read_text())
        tags = {d["annotations"]["org.opencontainers.image.ref.name"]: d["digest"].split(":")[1]
                for d in index["manifests"]}

        def read(name):
            return (layout / "blobs" / "sha256" / name).read_bytes()

        manifest = json.loads(read(tags["sha256-" + tags["r1"]]))
        self.assertEqual(manifest["subject"]["digest"], "sha256:" + tags["r1"])
        self.assertEqual(read(manifest["config"]["digest"].split(":")[1]), b"{}")
        envelope = json.loads(read(manifest["layers"][0]["digest"].split(":")[1]))
        payload = base64.b64decode(envelope["payload"])
        kind = envelope["payloadType"].encode()
        signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
        (self.tmp / "signed").write_bytes(signed)
        (self.tmp / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
        checked = self.run_program("openssl", "dgst", "-sha256", "-verify", public, "-signature",
                                   self.tmp / "sig", self.tmp / "signed")
        self.assertIn("Verified OK", checked.stdout)
        statement = json.loads(payload)
        self.assertEqual(statement["subject"][0]["digest"]["sha256"], tags["r1"])


if __name__ == "__main__":
    harness.main()
