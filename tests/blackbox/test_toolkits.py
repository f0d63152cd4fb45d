# SPDX-License-Identifier: Apache-2.0
"""Several compilers side by side: each its own identity, what one cannot do told with the version that can."""

import os
import shutil

import harness
import toolkits

KERNELS = harness.SOURCE / "tests" / "builder" / "kernels"
GOLDEN = harness.SOURCE / "tests" / "builder" / "golden"


class Made(harness.Case):
    """Toolkits that are folders with a made-up NVRTC, which says that it is of some version."""

    def setUp(self):
        super().setUp()
        self.folder = shutil.copytree(KERNELS / "scale", self.tmp / "scale")

    def toolkit(self, version, cubin=None):
        root = self.tmp / f"cuda-{version}"
        (root / "lib64").mkdir(parents=True)
        shutil.copy(harness.test_program("libfake_nvrtc.so"), root / "lib64" / "libnvrtc.so.12")
        env = {"FAKE_NVRTC_VERSION": version}
        if cubin:
            env["FAKE_NVRTC_CUBIN"] = str(GOLDEN / cubin)
        return root, env

    def refuse(self, toolkit, target, **options):
        root, env = toolkit
        store = self.tmp / f"{root.name}.cubinary"
        return self.refused("build", self.folder, "--store", store, "--target", target, "--toolkit", root, env=env,
                            **options)

    def test_a_target_names_the_first_version_that_knows_it(self):
        # The golden cubin says which toolkit made it: 12.x, as does the library.
        for version, target, first in (("12.8", "sm_121", "12.9"), ("12.8", "sm_103", "12.9"), ("12.8", "sm_120f", "12.9"),
                                       ("12.8", "sm_110", "13.0"), ("12.9", "sm_110a", "13.0"), ("12.9", "sm_88", "13.0")):
            with self.subTest(target, version=version):
                shutil.rmtree(self.tmp / f"cuda-{version}", ignore_errors=True)
                self.refuse(self.toolkit(version, self.cubin_of(version)), target, status=3,
                            says=[f"{target} needs CUDA {first}", f"cuda-{version}", "--toolkit DIR"])

    def cubin_of(self, version):
        """The golden cubin with another version in its build string."""
        data = (GOLDEN / "cuda12-sm_120a.cubin").read_bytes()
        at = data.index(b"release 12.") + len(b"release 12.")
        made = self.tmp / f"{version}.cubin"
        made.write_bytes(data[:at] + version.split(".")[1].encode() + data[at + 1:])
        return made

    def test_a_compiler_that_is_too_old_says_which_would_do(self):
        self.refuse(self.toolkit("12.4"), "sm_90", status=3, says=["is CUDA 12.4", "12.8 or later", "--toolkit DIR"])
        self.refuse(self.toolkit("11.8"), "sm_90", status=3, says=["is CUDA 11.8", "12.8 or later"])

    def test_a_library_that_is_none(self):
        root = self.tmp / "cuda"
        (root / "lib64").mkdir(parents=True)
        (root / "lib64" / "libnvrtc.so.12").write_bytes(b"\x7fELF and no more")
        self.refused("build", self.folder, "--store", self.tmp / "s", "--toolkit", root, status=3,
                     says=["cannot load NVRTC", "--toolkit"])


class SideBySide(harness.Case):
    """Two real ones."""

    def setUp(self):
        super().setUp()
        if why := toolkits.missing():
            self.skipTest(why)
        self.other = toolkits.second()
        if self.other is None:
            self.skipTest("no second toolkit: scripts/setup --tests fetches one, CUBINARY_SECOND_TOOLKIT names another")
        shutil.copytree(KERNELS / "scale", self.tmp / "kernels" / "scale")
        self.store = self.tmp / "s.cubinary"

    def build(self, *arguments, **options):
        result = self.cubinary("build", self.tmp / "kernels", "--store", self.store, "--target", "sm_90", "--json",
                               *arguments, **options)
        lines = result.json_lines()
        return {line["key"]: line["artifact"] for line in lines if line.get("event") == "candidate"}, lines

    def test_each_has_its_own_candidates_in_one_store(self):
        ours, _ = self.build()
        theirs, _ = self.build("--toolkit", self.other)
        self.assertEqual((len(ours), len(theirs)), (8, 8))
        self.assertFalse(set(ours) & set(theirs))
        self.assertFalse(set(ours.values()) & set(theirs.values()))
        # Both stay, and going from one to the other compiles nothing.
        self.assertEqual(self.build()[0], {})
        self.assertEqual(self.build("--toolkit", self.other)[0], {})
        self.assertEqual(self.build(env={"CUBINARY_TOOLKIT": str(self.other)})[0], {})
        self.assertEqual(self.cubinary("store", "fsck", "--store", self.store).status, 0)

    def test_the_other_compiler_is_why(self):
        self.build()
        (self.tmp / "kernels" / "scale" / "scale.cuh").open("a").write("// more\n")
        _, lines = self.build("--explain", "--toolkit", self.other)
        reasons = {line["reason"] for line in lines if line.get("event") == "explained"}
        self.assertEqual(len(reasons), 1)
        self.assertRegex(reasons.pop(), "compiler changed from .* to ")

    def test_a_release_says_which_made_what(self):
        self.build("--toolkit", self.other)
        self.cubinary("release", "create", "r1", "--store", self.store)
        shown = self.cubinary("release", "show", "r1", "--store", self.store, "--json").stdout
        self.assertIn("12." if "12" in self.other.name else os.path.basename(self.other), shown)


if __name__ == "__main__":
    harness.main()
