# SPDX-License-Identifier: Apache-2.0
"""Tuning from the command line with a measuring process that has no device, compiling as the search asks."""

import json
import os
import shutil
import signal
import subprocess
import time

import harness

MANIFEST = """manifest = 1
name = "twice"
summary = "y = 2 x"
source = "twice.cu"
entry = "twice<{T}, {V}>"
targets = ["sm_90", "sm_120"]
types.T = ["f32"]
[axes]
n = { tune = [1048576, 4194304], bucket = "log2" }
[tunables]
V = { values = [0, 1, 2, 3, 4, 5, 6, 7], default = 1 }
[launch]
grid = ["ceil_div(n, 256)"]
block = [256]
args = [
  { name = "y", out = "T", len = "n" },
  { name = "x", in = "T", len = "n", fill = "uniform(1, 2)" },
  { name = "n", scalar = "i64", is = "n" },
]
[check]
reference = { entry = "twice_ref<{T}>", grid = ["ceil_div(n, 256)"], block = [256] }
tolerance = { f32 = [1e-5, 1e-6] }
[measure]
bytes = "2 * n * sizeof(T)"
"""
SOURCE = """
template <typename T, int V>
__global__ void twice(T* y, const T* x, long long n) {
  static_assert(V != 3, "three is out");
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
template <typename T>
__global__ void twice_ref(T* y, const T* x, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""
# V of 2 and more take a compiler far longer than a test.
SLOW_SOURCE = SOURCE.replace('static_assert(V != 3, "three is out");', "").replace("if (i < n) y[i] = 2 * x[i];", """
  T a = i < n ? x[i] : T(0), z = 0;
  if constexpr (V > 1) {
    %s
  }
  if (i < n) y[i] = 2 * a + T(1e-30) * z;""" % "".join(f"z = sinf(z + {k} * a);\n" for k in range(4000)), 1)


class CompileWhileMeasuring(harness.Case):
    def setUp(self):
        super().setUp()
        self.folder = self.tmp / "twice"
        self.folder.mkdir()
        (self.folder / "kernel.toml").write_text(MANIFEST)
        (self.folder / "twice.cu").write_text(SOURCE)
        self.store = self.tmp / "s.db"

    def tune(self, *options, where=None, **keywords):
        return self.cubinary("tune", *options, *(where or ("--store", self.store)), "--budget", "5m",
                             "--measure-with", harness.test_program("fake_tune_worker"), **keywords)

    def serve(self, scope="read,publish,tune"):
        """Starts a server whose store has another kernel only; gives how to name it to a command."""
        other = self.tmp / "other"
        other.mkdir()
        (other / "kernel.toml").write_text(MANIFEST.replace('"twice"', '"other"').replace("0, 1, 2, 3, 4, 5, 6, 7", "1"))
        (other / "twice.cu").write_text(SOURCE)
        self.cubinary("build", other, "--store", self.store, "--target", "sm_120")
        token = self.tmp / "token"
        token.write_text(self.cubinary("token", "create", "--name", "t", "--scope", scope, "--store",
                                       self.store).stdout)
        server = self.background(harness.binary(), "serve", "--store", self.store, "--listen", "127.0.0.1:0")
        return "--server", server.line(r"http://[\d.]+:\d+").group(0), "--token-file", token

    def test_from_sources_to_a_release_without_a_build(self):
        # V = 6 takes 20 us on this device that is none, each step from it 5 more; V = 3 does not compile.
        lines = self.tune(self.folder, "--json", "--jobs", "2").json_lines()
        summary = lines[-1]
        self.assertEqual((summary["tuned"], summary["complete"], summary["failed"]), (2, 2, 0))
        self.assertEqual((summary["compiled"], summary["compile_failed"]), (9, 1))
        self.assertEqual(summary["measured"], 14)
        notes = [line["text"] for line in lines if line["event"] == "note"]
        self.assertEqual(len(notes), 1, notes)
        self.assertIn("V=3: does not compile: ", notes[0])
        for line in lines:
            if line["event"] == "tuned":
                self.assertEqual(line["finalists"][0]["config"], {"V": 6})
                self.assertGreater(line["untuned_us"], 40)

        # Nothing is left to do for anyone: neither a tuner nor a build compiles or measures any of it again.
        known = self.tune(self.folder).stdout
        self.assertIn("0 of 2 jobs tuned, 2 known before; 0 configs measured", known)
        self.assertNotIn("compiled", known)
        built = self.cubinary("build", self.folder, "--store", self.store, "--target", "sm_90", "--keep-going").stdout
        self.assertIn("8 ok, 1 failed, 9 unchanged", built)
        winners = self.cubinary("audit", "winners", "--store", self.store, "--json").json()["winners"]
        self.assertEqual([winner["config"] for winner in winners], [{"V": 6}] * 2)
        made = self.cubinary("release", "create", "r1", "--store", self.store)
        self.assertIn("twice sm_90: ", made.stdout)

        # Another source: what was measured says nothing of it.
        (self.folder / "twice.cu").write_text(SOURCE.replace("2 * x[i];", "x[i] + x[i];"))
        again = self.tune(self.folder, "--json").json_lines()[-1]
        self.assertEqual((again["tuned"], again["measured"], again["compiled"]), (2, 14, 9))

    def test_through_a_server_what_the_search_asks_for_is_compiled_here(self):
        # The server knows nothing of the kernel and has no compiler; this machine has the sources and one.
        where = self.serve()
        lines = self.tune(self.folder, "--json", "--jobs", "2", where=where).json_lines()
        summary = lines[-1]
        self.assertEqual((summary["tuned"], summary["complete"], summary["failed"]), (2, 2, 0))
        self.assertEqual((summary["compiled"], summary["compile_failed"], summary["measured"]), (9, 1, 14))
        winners = self.cubinary("audit", "winners", *where, "--json").json()["winners"]
        self.assertEqual([(winner["config"], winner["target"]) for winner in winners], [({"V": 6}, "sm_90")] * 2)

        # Nothing is left for another tuner, with and without sources, nor for a build; a release has the winners.
        for folders in ([self.folder], []):
            known = self.tune(*folders, "--json", where=where).json_lines()[-1]
            self.assertEqual((known["known"], known["measured"], known["compiled"]), (2, 0, 0))
        built = self.cubinary("build", self.folder, *where, "--target", "sm_90", "--keep-going").stdout
        self.assertIn("8 ok, 1 failed, 9 unchanged", built)
        made = self.cubinary("release", "create", "r1", *where)
        self.assertIn("twice sm_90: ", made.stdout)

        # Another source comes into force as it is tuned; the old candidates are not mixed with it.
        (self.folder / "twice.cu").write_text(SOURCE.replace("2 * x[i];", "x[i] + x[i];"))
        again = self.tune(self.folder, "--json", where=where).json_lines()[-1]
        self.assertEqual((again["tuned"], again["measured"], again["compiled"]), (2, 14, 9))

    def test_a_server_may_refuse_what_was_compiled(self):
        where = self.serve(scope="read,tune")
        self.refused("tune", self.folder, *where, "--measure-with", harness.test_program("fake_tune_worker"),
                     status=1, says="publish")
        # What needs no publishing goes on: a tuner without sources measures what there is.
        self.cubinary("tune", *where, "--measure-with", harness.test_program("fake_tune_worker"), status=1)

    def test_an_interrupt_ends_it_while_compilers_are_at_work(self):
        # Each of these takes a compiler many seconds.
        (self.folder / "twice.cu").write_text(SLOW_SOURCE)
        where = self.serve()
        for at in (("--store", self.tmp / "local.db"), where):
            tuner = self.background(harness.binary(), "tune", self.folder, *at, "--json", "--jobs", "2",
                                    "--measure-with", harness.test_program("fake_tune_worker"))
            tuner.line(r'"V":0\}.*"event":"measured"')
            time.sleep(0.5)
            begin = time.monotonic()
            status = tuner.stop(signal.SIGINT)
            seconds = time.monotonic() - begin
            self.assertLess(seconds, 10, tuner.text())  # two, on a machine that has nothing else to do
            self.assertEqual(status, 1, tuner.text())
            self.assertIn("measured and kept, run again to continue", tuner.text())
            told = [json.loads(line) for line in tuner.text().splitlines() if line.startswith('{"')]
            measured = [one["config"]["V"] for one in told if one["event"] == "measured"]
            self.assertLessEqual(set(measured), {0, 1})  # compilers were at the others
            workers = subprocess.run(["pgrep", "-P", str(tuner.process.pid)], capture_output=True, check=False)
            self.assertEqual(workers.stdout, b"")
            # What was measured is there, and is not measured again.
            stats = self.cubinary("store", "stats", *at, "--json").json()
            self.assertEqual(stats["measurements"], len(measured))
            print(f"stopped after {seconds:.2f} s with {len(measured)} measured", flush=True)

    def test_a_workload_is_what_is_tuned_and_in_which_order(self):
        workload = self.tmp / "jobs"
        workload.write_text("# the application's\ntwice n=4194304  # first\n\ntwice T=f32 n=4096 target=sm_90\n"
                            "twice n=4194304\n")
        lines = self.tune(self.folder, "--json", "--workload", workload).json_lines()
        self.assertEqual((lines[-1]["jobs"], lines[-1]["tuned"]), (2, 2))
        self.assertEqual([line["shape"]["n"] for line in lines if line["event"] == "tuned"], [4194304, 4096])
        for text, says in (("twice n=many\n", "jobs:1: .*not 'n=many'"), ("# none\n", "names nothing to tune"),
                           ("twice m=1\n", "has no axis 'm'"), ("twise\n", "did you mean \"twice\""),
                           ("twice target=sm_120\n", "no candidate of the workload's twice sm_120")):
            workload.write_text(text)
            said = self.tune(self.folder, "--workload", workload, status=None).stderr
            self.assertRegex(said, says)

    def test_what_cannot_be_done_is_said(self):
        self.refused("tune", self.tmp / "none", "--store", self.store, status=1, says="no folder .*none")
        self.assertFalse(os.path.exists(self.store))
        (self.folder / "kernel.toml").write_text(MANIFEST.replace("tune = ", "tune == "))
        self.refused("tune", self.folder, "--store", self.store, status=2, says="kernel.toml:")
        self.assertFalse(os.path.exists(self.store))
        (self.folder / "kernel.toml").write_text(MANIFEST.replace('["sm_90", "sm_120"]', '["sm_120"]'))
        said = self.tune(self.folder, status=1).stderr
        self.assertIn("nothing to tune", said)
        self.assertIn("sm_120", said)


if __name__ == "__main__":
    if not os.path.exists(os.environ.get("CUBINARY_TOOLKIT", "/usr/local/cuda")) and not shutil.which("nvcc"):
        harness.skip("no CUDA toolkit to compile with")
    harness.main()
