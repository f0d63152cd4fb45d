# SPDX-License-Identifier: Apache-2.0
"""Kernels in the styles found in samples, tuners' examples and model libraries: each builds, or is refused in
one sentence that says what to do."""

import pathlib

import harness
import toolkits

STYLES = harness.SOURCE / "tests" / "builder" / "styles"
# style -> candidates a target
BUILDS = {
    "bounded_some": 2, "checked": 1, "clusters": 1, "cub": 1, "globals": 3, "groups": 1, "hidden": 1, "host_code_nvcc": 1, "long_log": 1,
    "macros": 32, "meta": 4, "named_constants": 1, "names": 16, "narrow": 1, "overloads": 1, "packed": 1, "pipeline": 1, "ptx": 1, "radix": 1, "random": 1,
    "several": 1, "structs": 1, "textures": 1, "wmma": 1,
}  # fmt: skip
REFUSED = {
    "bounded": "at most 128 threads a block (its __launch_bounds__), and the manifest's block has 256",
    "clusters_fixed": "clusters of 2x1x1 alone (__cluster_dims__), and the manifest's launch names none",
    "forgotten": "takes 4 parameters, and the manifest passes 3: y, x, n_items",
    "greedy": "32768 bytes of static shared memory",
    "hoarder": "take more as `extern __shared__`",
    "hollow": "does nothing",
    "host_code": 'backend = "nvcc"',
    "launches": "launch it from the host, as a [[step]] of its own",
    "overloads_bare": "static_cast<void(*)(double*)>",
    "umbrella": "<cub/block/block_reduce.cuh>",
    "undefined": "without -rdc",
    "wrong_width": "parameter 3 of `wrong_width` is 8 bytes long, and the manifest passes n_items, i32 of 4",
}


class Styles(harness.Case):
    def setUp(self):
        super().setUp()
        if why := toolkits.missing():
            self.skipTest(why)

    def build(self, name, *arguments, status=0):
        store = self.tmp / f"{name}.cubinary"
        result = self.cubinary("build", STYLES, "--store", store, "--json", *arguments, status=status)
        return [line for line in result.json_lines() if line.get("event") == "candidate"], result.json_lines()[-1]

    def test_each_builds_or_is_refused_in_a_sentence(self):
        """Also: one worker and many, with and without precompiled headers, give the same bytes."""
        many, summary = self.build("many", "--target", "sm_90,sm_120", "--keep-going", "--jobs", "64", status=1)
        found = {}
        for line in many:
            found.setdefault((line["kernel"], line["target"]), []).append(line)
        for kernel, count in BUILDS.items():
            for target in ("sm_90", "sm_120"):
                lines = found.pop((kernel, target))
                self.assertEqual([line["status"] for line in lines], ["ok"] * count, (kernel, target, lines[0]))
        self.assertEqual(found[("one_arch", "sm_90")][0]["status"], "ok")
        self.assertRegex(found.pop(("one_arch", "sm_120"))[0]["message"], "only_90.*__CUDA_ARCH__")
        found.pop(("one_arch", "sm_90"))
        for (kernel, target), (line,) in found.items():
            self.assertIn(REFUSED[kernel], line["message"], target)
            self.assertNotIn("\n", line["message"])
        self.assertEqual({kernel for kernel, _ in found}, set(REFUSED))
        for line in many:
            if line["kernel"] == "named_constants":
                self.assertEqual(line["symbols"][0]["symbol"], "_Z5applyIfLi128ELi4ELi1EEvPT_PKS0_i")
        self.assertEqual(len(many), summary["ok"] + summary["failed"])

        one, _ = self.build("one", "--target", "sm_90", "--keep-going", "--jobs", "1", status=1)
        artifacts = {line["key"]: line.get("artifact") for line in many if line["target"] == "sm_90"}
        self.assertEqual({line["key"]: line.get("artifact") for line in one}, artifacts)

    def test_workers_leave_no_headers_behind(self):
        temporary = self.tmp / "temporary"
        temporary.mkdir()
        self.cubinary("build", STYLES, "--store", self.tmp / "s.cubinary", "--target", "sm_90", "--kernel", "names",
                      "--jobs", "1", env={"TMPDIR": str(temporary)})  # fmt: skip
        self.assertEqual(list(pathlib.Path(temporary).iterdir()), [])


if __name__ == "__main__":
    harness.main()
