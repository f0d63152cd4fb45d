#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of the Triton plug-in that need no Triton."""

import importlib
import logging
import math
import pathlib
import subprocess
import sys
import types

import harness

sys.path.insert(0, str(harness.SOURCE / "python"))
from cubinary.triton import device, environment, explain, files, host, ptxas, record  # noqa: E402


class DeviceClasses(harness.Case):
    def test_rounding(self):
        text = device.class_from_attributes(9, 0, 132, (50 << 20) + 4096, 6144, (140 << 30) + 1)
        self.assertEqual(text, "sm90-s132-l50M-b6144-m144G")
        self.assertEqual(device.facts("sm120-s188-l128M-b512-m96G"), (12, 0, 188, 128, 512, 96))
        self.assertIsNone(device.facts("NVIDIA H200"))

    def test_nearest_is_of_the_same_capability(self):
        classes = ["sm90-s78-l50M-b6144-m96G", "sm90-s132-l50M-b5120-m80G", "sm120-s188-l128M-b512-m96G"]
        self.assertEqual(device.nearest("sm90-s132-l50M-b6144-m144G", classes), classes[1])
        self.assertEqual(device.nearest(classes[0], classes), classes[0])
        self.assertIsNone(device.nearest("sm89-s128-l72M-b384-m24G", classes))
        self.assertIsNone(device.nearest("", classes))
        self.assertEqual(device.distance(classes[0], "sm90-s78-l50M-b6144-m192G"), 1.0)
        self.assertEqual(device.distance(classes[0], "nothing"), math.inf)


class Versions(harness.Case):
    def with_triton(self, version):
        self.addCleanup(sys.modules.pop, "triton", None)
        sys.modules["triton"] = types.SimpleNamespace(__version__=version)
        environment.triton_version.cache_clear()
        self.addCleanup(environment.triton_version.cache_clear)

    def test_too_old_is_refused(self):
        for version in ("3.3.1", "3.2.0", "2.1.0"):
            self.with_triton(version)
            with self.assertRaisesRegex(
                ImportError, f"Triton {version} cannot be served.*Use Triton 3.4 or newer"
            ):
                environment.triton_version()

    def test_newer_than_tested_warns_once(self):
        self.with_triton("3.10.0+git1")
        with self.assertLogs("cubinary.triton", logging.WARNING) as logs:
            self.assertEqual(environment.triton_version(), "3.10.0+git1")
            environment.triton_version()
        self.assertEqual(len(logs.output), 1)
        self.with_triton("3.6.0")
        with self.assertNoLogs("cubinary.triton"):
            self.assertEqual(environment.triton_version(), "3.6.0")

    def test_version_tuples(self):
        self.assertEqual(
            [environment.version_tuple(text) for text in ("2.36", "3.7.0rc1", "", "x")],
            [(2, 36), (3, 7, 0), (), ()],
        )


class Explain(harness.Case):
    def entry(self, **parts):
        return {
            "name": "add",
            "triton": "3.6.0",
            "python_abi": "cp312",
            "machine": "x86_64",
            "key_parts": {"arch": "90", "ptxas": "12.8.93", "source.line": "12", "option.num_warps": "4"}
            | parts,
        }

    def test_each_part_is_told(self):
        for part, value, said in (
            ("arch", "120", "arch is 90 here and 120"),
            ("ptxas", "13.0.1", "ptxas is 12.8.93 here and 13.0.1"),
            ("source.line", "14", "source line is 12 here and 14"),
            ("option.num_warps", "8", "option num_warps is 4 here and 8"),
            ("env.DISABLE_PTXAS_OPT", "1", "environment variable DISABLE_PTXAS_OPT is unset here and 1"),
        ):
            self.assertIn(
                f"differs: {said} in the release.",
                explain.sentence(self.entry(), {"K": self.entry(**{part: value})}),
            )
        newer = self.entry() | {"triton": "3.7.0"}
        self.assertIn("Triton version is 3.7.0 here and 3.6.0", explain.sentence(newer, {"K": self.entry()}))

    def test_nearest_is_the_one_that_differs_least_in_what_matters(self):
        entries = {
            "OTHER": self.entry() | {"name": "mul"},
            "ARCH": self.entry(arch="80"),
            "WARPS": self.entry(**{"option.num_warps": "8", "option.num_stages": "5"}),
        }
        self.assertEqual(explain.nearest(self.entry(), entries)[0], "WARPS")
        self.assertIn(
            "no kernel of this name; the nearest is 'mul'",
            explain.sentence(self.entry() | {"name": "mull"}, {"O": entries["OTHER"]}),
        )
        self.assertIn("no kernel at all", explain.sentence(self.entry(), {}))

    def test_sums_of_other_parts_stay_silent(self):
        differ = explain.differences(self.entry(source="b", **{"source.line": "14"}), self.entry(source="a"))
        self.assertEqual([part for part, _, _ in differ], ["source.line"])
        self.assertEqual(
            [part for part, _, _ in explain.differences(self.entry(source="b"), self.entry(source="a"))],
            ["source"],
        )


class Records(harness.Case):
    def source(self, signature, constants=None, attrs=None):
        return types.SimpleNamespace(signature=signature, constants=constants or {}, attrs=attrs or {})

    def test_arguments(self):
        described = record.arguments(
            self.source(
                {
                    "x": "*fp32",
                    "n": "i32",
                    "one": "constexpr",
                    "pair": ("*i8", "i64"),
                    "d": "tensordesc<fp16[64, 32]>",
                },
                {(2,): 1},
                {(0,): [["tt.divisibility", 16]], (1,): [], (3, 1): [["tt.divisibility", 16]]},
            )
        )
        self.assertEqual(
            described,
            [
                {"type": "*fp32", "divisible": True},
                {"type": "i32", "divisible": False},
                {"constant": 1},
                {"tuple": [{"type": "*i8", "divisible": False}, {"type": "i64", "divisible": True}]},
                {"descriptor": "fp16", "block": [64, 32]},
            ],
        )
        with self.assertRaisesRegex(record.Unrecordable, "a descriptor with a layout"):
            record.arguments(self.source({"d": "tensordesc<fp16[64, 32],SwizzledLayout()>"}))

    def test_constants(self):
        for value, coded in (
            (None, None),
            (True, True),
            (3, 3),
            (1.5, 1.5),
            (float("inf"), {"float": "inf"}),
            ("a", "a"),
            ((1, "b"), {"tuple": [1, "b"]}),
            ([2], {"list": [2]}),
        ):
            self.assertEqual(record.encode(value), coded)
        with self.assertRaisesRegex(record.Unrecordable, "a constant of type builtins.object"):
            record.encode(object())

    def test_constants_come_back(self):
        mock = importlib.import_module("cubinary.triton.mock")
        for value in (None, False, 7, -0.5, float("-inf"), "x", (1, (2.0, "y")), [1, [2]]):
            back = mock.decode(record.encode(value))
            self.assertEqual((type(back), back), (type(value), value))

    def test_stand_ins_specialise_as_recorded(self):
        mock = importlib.import_module("cubinary.triton.mock")
        for kind, low, high in (("i32", 2, 2**31), ("i64", 2**31, 2**63), ("u64", 2**63, 2**64)):
            for divisible in (True, False):
                value = mock.argument({"type": kind, "divisible": divisible})
                self.assertEqual((value % 16 == 0, low <= value < high), (divisible, True), kind)
        pointer = mock.argument({"type": "*kbf16", "divisible": False})
        self.assertEqual((pointer.dtype, pointer.data_ptr() % 16), ("bfloat16", 8))


class Files(harness.Case):
    def test_a_group_is_whole_or_nothing_wherever_it_lies(self):
        files.write(str(self.tmp / "k/a.cubin"), b"1")
        files.write(str(self.tmp / "k/a.json"), "{}")
        files.write_json(
            str(self.tmp / "k/__grp__a.json"),
            {"child_paths": {"a.cubin": "/old/a.cubin", "a.json": "/old/a.json"}},
        )
        whole = files.whole_group(str(self.tmp / "k"), "a.json")
        self.assertEqual(whole, {name: str(self.tmp / "k" / name) for name in ("a.cubin", "a.json")})
        (self.tmp / "k/a.cubin").unlink()
        self.assertIsNone(files.whole_group(str(self.tmp / "k"), "a.json"))
        (self.tmp / "k/__grp__a.json").write_text('{"child_pa')
        self.assertIsNone(files.whole_group(str(self.tmp / "k"), "a.json"))
        self.assertEqual([path.name for path in (self.tmp / "k").glob("tmp*")], [])

    def test_ptxas(self):
        backend = "ptxas: x\nCuda compilation tools, release 12.8, V12.8.93\n-90"
        self.assertEqual((ptxas.release_line(backend), ptxas.text_of(backend, 90)), ("12.8.93", backend[:-3]))
        self.assertIsNone(ptxas.text_of(backend, 9))
        for name, data in (("a", b"a" * 3_000_000), ("b", b"a" * 2_999_999 + b"b")):
            (self.tmp / name).write_bytes(data)
        self.assertNotEqual(ptxas.identity(str(self.tmp / "a")), ptxas.identity(str(self.tmp / "b")))

    def test_host_modules_for_older_systems(self):
        harness.need_tools("gcc")
        source = self.tmp / "m.c"
        source.write_text('#include <dlfcn.h>\nvoid* f(void) { return dlopen("x", 1); }\n')
        with host.portable_source(str(source)) as portable:
            subprocess.run(["gcc", "-shared", "-fPIC", portable, "-o", self.tmp / "m.so"], check=True)
        floor = tuple(map(int, host.glibc_floor(str(self.tmp / "m.so")).split(".")))
        self.assertLessEqual(floor, (2, 17))
        subprocess.run(
            [
                "gcc",
                "-shared",
                "-fPIC",
                "-Wl,-z,pack-relative-relocs",
                "-x",
                "c",
                "-",
                "-o",
                self.tmp / "r.so",
            ],
            input="int a; int* p = &a;",
            text=True,
            check=True,
        )
        if b"GLIBC_ABI_DT_RELR" in (self.tmp / "r.so").read_bytes():
            self.assertEqual(host.glibc_floor(str(self.tmp / "r.so")), "2.36")


class Site(harness.Case):
    def test_a_shadowed_sitecustomize_still_runs_and_nothing_is_imported(self):
        (self.tmp / "sitecustomize.py").write_text("import builtins\nbuiltins.shadowed = True\n")
        site = harness.SOURCE / "python/cubinary/triton/site"
        done = self.run_program(
            sys.executable,
            "-c",
            "import sys; print(shadowed, 'cubinary' in sys.modules, 'triton' in sys.modules)",
            env={"PYTHONPATH": f"{site}:{self.tmp}", "TRITON_CACHE_MANAGER": "cubinary.triton:CacheManager"},
        )
        self.assertEqual(done.stdout.strip(), "True False False")

    def test_importing_the_package_needs_no_triton(self):
        root = pathlib.Path(harness.SOURCE / "python")
        self.run_program(
            sys.executable,
            "-c",
            "import cubinary.triton as t; t.install(); assert t.Missing",
            env={"PYTHONPATH": str(root)},
        )


if __name__ == "__main__":
    harness.main()
