# SPDX-License-Identifier: Apache-2.0
"""`cubinary triton explain` and `env`, by the real programs; nothing here needs Triton or a GPU."""

import json

import harness
import triton_folder
from triton_folder import H20, H200, folder_name, sha256


class Explain(triton_folder.Case):
    PARTS = {"ptxas": "12.8.93", "arch": "90", "source": "aa", "option.num_warps": "4", "options": "h1"}

    def setUp(self):
        super().setUp()
        self.capture = self.make_capture()
        self.key = self.capture.kernel("add_kernel", "add", parts=self.PARTS)
        self.capture.kernel("add_kernel", "far", parts={**self.PARTS, "source": "cc", "ptxas": "1"})
        self.capture.host("cuda_utils", "int utils;")
        self.capture.autotune("mm_kernel", "tune mm", H200)
        self.ingest(self.capture.root)

    def explain(self, **miss):
        said = {"miss": 1, "kind": "kernel", "name": "add_kernel", "key": "MISSING", "target": "sm_90",
                **self.capture.origin, **miss}
        path = self.tmp / "misses.jsonl"
        path.write_text(2 * (json.dumps(said) + "\n"))
        [answer] = self.cubinary("triton", "explain", path, "--store", self.store, "--json").json()
        people = self.cubinary("triton", "explain", path, "--store", self.store).stdout
        self.assertIn(answer["verdict"], people)
        return answer["verdict"], {d["part"]: (d["program"], d["release"]) for d in answer["differences"]}

    def test_each_part(self):
        for part, value in [("ptxas", "13.0"), ("source", "bb"), ("option.num_warps", "8")]:
            verdict, differences = self.explain(key_parts={**self.PARTS, part: value, "options": "h1"})
            self.assertEqual(differences, {part: (value, self.PARTS[part])})
            self.assertIn("2 specialisations of this kernel", verdict)
        _, differences = self.explain(triton="3.7.0", key_parts=self.PARTS)
        self.assertEqual(differences, {"triton": ("3.7.0", "3.6.0")})
        _, differences = self.explain(target="sm_120", key_parts={**self.PARTS, "arch": "120"})
        self.assertEqual(differences, {"target": ("sm_120", "sm_90")})
        _, differences = self.explain(key_parts={**self.PARTS, "env.TRITON_DEBUG": "1"})
        self.assertEqual(differences, {"env.TRITON_DEBUG": ("1", "")})
        _, differences = self.explain(key_parts={**self.PARTS, "option.num_warps": "8", "options": "h2"})
        self.assertEqual(set(differences), {"option.num_warps"}, "the options' digest only sums up")

    def test_what_is_not_there_and_what_is(self):
        verdict, _ = self.explain(name="ad_kernel", key_parts={})
        self.assertIn('no kernel of this name (did you mean "add_kernel"?)', verdict)
        verdict, _ = self.explain(key=self.key, key_parts=self.PARTS)
        self.assertIn("the release has it", verdict)

    def test_host_modules_and_autotune_results(self):
        verdict, differences = self.explain(kind="host", name="cuda_utils", source=sha256(b"int other;"))
        self.assertEqual(set(differences), {"source"})
        _, differences = self.explain(kind="host", name="cuda_utils", source=sha256(b"int utils;"),
                                      python_abi="cp313")
        self.assertEqual(differences, {"python_abi": ("cp313", "cp312")})
        _, differences = self.explain(kind="autotune", key=folder_name(sha256(b"tune mm")), device_class=H20)
        self.assertEqual(differences, {"device_class": (H20, H200)})
        verdict, _ = self.explain(kind="autotune", key="OTHER")
        self.assertIn("no autotune result under this key", verdict)

    def test_bad_misses(self):
        path = self.tmp / "misses.jsonl"
        path.write_text('{"miss":1,"kind":"kernel"}\n{"miss":2}\n')
        self.refused("triton", "explain", path, "--store", self.store, status=None, says="misses.jsonl:2")
        self.refused("triton", "explain", path, status=2, says="say what to compare with")


class Doctor(harness.Case):
    """What flash-linear-attention would do, told with Triton's own reason."""

    def doctor(self, triton):
        """Findings by name, of a machine whose Triton is `triton`, Python source."""
        fake = self.tmp / "fake"
        (fake / "triton").mkdir(parents=True, exist_ok=True)
        (fake / "triton" / "__init__.py").write_text("")
        (fake / "triton" / "runtime.py").write_text(triton)
        (fake / "fla_core-0.6.0.dist-info").mkdir(exist_ok=True)
        (fake / "fla_core-0.6.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: fla-core\nVersion: 0.6.0\n")
        env = {"PYTHONPATH": str(fake), "CUBINARY_PYTHON": str(harness.SOURCE / "python")}
        report = self.cubinary("doctor", "--triton", "--json", status=None, env=env).json()
        return next(found for found in report["findings"] if found["what"] == "flash-linear-attention")

    def test_why_it_would_fall_back_to_the_cpu(self):
        found = self.doctor("""
class driver:
    class active:
        def get_current_target():
            raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.")
""")
        self.assertEqual(found["state"], "lacking")
        self.assertIn("0.6.0 would fall back to the CPU without a word: Triton wants a C compiler", found["found"])
        self.assertIn("before `import fla`", found["remedy"])

    def test_that_it_would_not(self):
        found = self.doctor("""
import types
class driver:
    class active:
        def get_current_target():
            return types.SimpleNamespace(backend="cuda")
""")
        self.assertEqual((found["state"], found["found"]), ("ok", "0.6.0 would run on cuda"))


class Env(triton_folder.Case):
    def test_what_it_prints_is_what_a_shell_takes(self):
        cache = self.tmp / "a 'quoted' cache"
        script = f'eval "$({harness.binary()} triton env --cache "$CACHE" --python-folder /opt/p --libcuda /l)"; env'
        result = self.run_program("sh", "-c", script, env={"CACHE": str(cache), "PYTHONPATH": "/mine"})
        seen = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
        self.assertEqual(seen["TRITON_CACHE_DIR"], str(cache))
        self.assertEqual(seen["CUBINARY_TRITON_CACHE"], str(cache))
        self.assertEqual(seen["TRITON_CACHE_MANAGER"], "cubinary.triton:CacheManager")
        self.assertEqual(seen["CUBINARY_TRITON_STRICT"], "1")
        self.assertEqual(seen["TRITON_LIBCUDA_PATH"], "/l")
        self.assertEqual(seen["PYTHONPATH"], "/opt/p/cubinary/triton/site:/opt/p:/mine")
        self.assertNotIn("CUBINARY_TRITON_INDEX", seen)
        self.assertIn("is not hydrated here", result.stderr)

    def test_a_hydrated_cache_is_pinned(self):
        capture, _ = self.sample()
        self.ingest(capture.root)
        cache = self.tmp / "cache"
        self.hydrate(self.release(), cache)
        printed = self.cubinary("triton", "env", "--cache", cache, "--lenient", "--json", "--python-folder",
                                "/opt/p").json()
        self.assertEqual(printed["CUBINARY_TRITON_INDEX"],
                         sha256((cache / "cubinary-triton.json").read_bytes()))
        self.assertNotIn("CUBINARY_TRITON_STRICT", printed)


if __name__ == "__main__":
    if harness.find_tool("cc") is None:
        harness.skip("this machine lacks a C compiler to make modules with")
    harness.main()
