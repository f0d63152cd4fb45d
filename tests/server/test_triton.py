# SPDX-License-Identifier: Apache-2.0
"""Triton captures through a server: `cubinary triton capture|build|list --server`, and the API below."""

import json
import re
import shutil
import sys
import textwrap

import harness
import serving
import triton_folder


class Triton(serving.Case):
    def setUp(self):
        super().setUp()
        self.serve()
        self.server = ("--server", f"http://127.0.0.1:{self.port}")
        token = self.tmp / "token"
        token.write_text(self.told["all_token"] + "\n")
        self.writing = (*self.server, "--token-file", token)
        self.capture = triton_folder.Capture(self.tmp / "capture", triton_folder.compile_module(self.tmp))
        self.capture.kernel("add_kernel", "add")
        self.capture.kernel("mm_kernel", "mm", "sm_120")
        self.capture.host("cuda_utils", "int utils;")
        self.capture.autotune("mm_kernel", "tune mm")
        self.capture.records({"name": "m:add_kernel", "target": "sm_90"})

    def send(self, **options):
        return self.cubinary("triton", "capture", *self.writing, "--from", self.capture.root, "--json", **options)

    def changes(self):
        return self.ask("/api/v1/changes", Authorization=f"Bearer {self.told['admin_token']}").json()

    def listed(self):
        return self.cubinary("triton", "list", *self.server, "--json").json()

    def test_a_capture_sent_is_the_capture_stored(self):
        sent = self.send().json()
        other = self.tmp / "own.db"
        self.cubinary("triton", "capture", "--store", other, "--from", self.capture.root)
        for options in ((), ("--json",), ("--records",)):
            here = self.cubinary("triton", "list", "--store", other, *options).stdout
            self.assertEqual(self.cubinary("triton", "list", *self.server, *options).stdout, here, options)
        counts = {sort: sent[sort]["added"] for sort in ("kernels", "host", "autotune", "records")}
        self.assertEqual(counts, {"kernels": 2, "host": 1, "autotune": 1, "records": 1})
        # Again: nothing is sent, nothing changes, nothing is logged.
        before = self.changes()
        again = self.send().json()
        self.assertEqual({sort: again[sort]["unchanged"] for sort in counts}, counts)
        self.assertEqual(self.changes(), before)

    def test_a_release_made_there_serves(self):
        self.send()
        self.cubinary("release", "create", "t1", "--parts", "triton", *self.writing)
        self.cubinary("keygen", self.tmp / "key")
        self.cubinary("release", "sign", "t1", "--key", self.tmp / "key", *self.writing)
        cache = self.tmp / "cache"
        source = f"{self.server[1]}/cubinary:t1"
        self.run_program(harness.binary("cubinary-fetch"), "hydrate", source, "--key",
                         self.tmp / "key.pub", "--cache", cache)
        index = triton_folder.check_cache(self, cache)
        self.assertEqual(len(index["kernels"]), 2)

    def test_a_program_that_cannot_be_kept_is_not_run(self):
        ran = self.tmp / "ran"
        program = (sys.executable, "-c", f"open({str(ran)!r}, 'w')")
        env = {"CUBINARY_PYTHON": str(harness.SOURCE / "python")}
        refused = self.cubinary("triton", "capture", *self.server, "--", *program, status=1, env=env)
        self.assertIn("publish", refused.stderr)
        self.assertFalse(ran.exists())
        self.cubinary("triton", "capture", *self.writing, "--", *program, env=env)
        self.assertTrue(ran.exists())

    def test_a_capture_that_cannot_be_sent_in_the_end_is_kept(self):
        token = self.writing[-1]
        program = self.tmp / "program.py"
        program.write_text(textwrap.dedent(f"""
            import os, shutil
            shutil.copytree({str(self.capture.root)!r}, os.environ["CUBINARY_TRITON_CAPTURE"], dirs_exist_ok=True)
            open({str(token)!r}, "w").write("0" * 64)
        """))
        env = {"CUBINARY_PYTHON": str(harness.SOURCE / "python")}
        failed = self.cubinary("triton", "capture", *self.writing, "--", sys.executable, program, status=1, env=env)
        kept = re.search(r"what it captured is in (\S+) \(`cubinary triton capture --from` stores it\)", failed.stderr)
        self.assertTrue(kept, failed.stderr)
        token.write_text(self.told["all_token"])
        self.addCleanup(shutil.rmtree, kept[1])
        self.cubinary("triton", "capture", *self.writing, "--from", kept[1])
        self.assertEqual(len(self.listed()["kernels"]), 2)

    def test_build_takes_records_from_there_and_sends_what_it_made(self):
        self.send()
        python = self.tmp / "python"
        python.write_text(textwrap.dedent(f"""\
            #!{sys.executable}
            # Stands in for an interpreter with Triton: notes the records it is given and writes a capture folder.
            import pathlib, shutil, sys
            given = dict(zip(sys.argv[3::2], sys.argv[4::2]))
            shutil.copy(given["--record"], {str(self.tmp / "given")!r})
            shutil.copytree({str(self.capture.root)!r}, given["--out"], dirs_exist_ok=True)
        """))
        python.chmod(0o755)
        built = self.cubinary("triton", "build", *self.writing, "--target", "sm_120", "--python", python, "--json",
                              env={"CUBINARY_PYTHON": str(harness.SOURCE / "python")}).json()
        self.assertEqual(json.loads((self.tmp / "given").read_text()), {"name": "m:add_kernel", "target": "sm_90"})
        self.assertEqual(built["kernels"]["unchanged"], 2)

    # --- the API ---
    def put(self, document, **headers):
        return self.ask("/api/v1/triton", "POST", body=json.dumps(document).encode(), Content_Type="application/json",
                        **({"Authorization": f"Bearer {self.told['publish_token']}"} | headers))

    def test_all_or_nothing(self):
        self.send()
        entries = self.listed()
        new = json.loads(json.dumps(entries))
        new["kernels"][0]["key"] = "A" * 52
        new["kernels"][1]["files"] = {"mm_kernel.cubin": "0" * 64}
        before = self.listed()
        answer = self.put(new)
        self.assertEqual((answer.status, answer.code()), (404, "not_found"), answer)
        self.assertIn("0" * 64, answer.message())
        self.assertEqual(self.listed(), before)

    def test_what_is_no_entry_is_refused_with_its_place(self):
        self.send()
        good = self.listed()
        for change, says in (
            (lambda d: d["kernels"][0].update(key="../up"), r"kernels\[0\].key"),
            (lambda d: d["kernels"][0].update(target="sm_9x"), r"kernels\[0\].target"),
            (lambda d: d["kernels"][0].update(files={"../x": "0" * 64}), r"kernels\[0\].files"),
            (lambda d: d["host"][0].update(source="12"), r"host\[0\].source"),
            (lambda d: d["autotune"][0].update(device_class="H200"), r"autotune\[0\]"),
            (lambda d: d.update(records=["[]"]), r"records\[0\]"),
            (lambda d: d.pop("host"), "host"),
        ):
            document = json.loads(json.dumps(good))
            change(document)
            answer = self.put(document)
            self.assertEqual(answer.status, 400, answer)
            self.assertRegex(answer.message(), says)
        self.assertEqual(self.put(good, Authorization="Bearer nobody").status, 401)
        self.assertEqual(self.listed(), good)


if __name__ == "__main__":
    harness.main()
