#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole way with a real Triton and a stub driver: a program captured into a store, a signed release, a cache laid
down from it, the same program served; on demand through libcubinary; built for another target."""

import json
import os
import shutil

import harness
import layout
import tritons

PROGRAM = tritons.HERE / "programs/launch.py"


class Release(harness.Case):
    triton = None

    def setUp(self):
        super().setUp()
        self.runner = tritons.Runner(self.triton, tritons.make_stub(self.tmp / "stub"))
        self.store, self.key, self.out = self.tmp / "kernels.db", self.tmp / "release", self.tmp / "out"
        self.cubinary("keygen", self.key)

    def environment(self, **more):
        return self.runner.environment(CUBINARY_PYTHON=tritons.PYTHON, **more)

    def released(self, name):
        for command in (
            ["release", "create", name, "--store", self.store],
            ["release", "sign", name, "--key", self.key, "--store", self.store],
            ["export", self.out, "--store", self.store, "--release", name],
        ):
            self.cubinary(*command)
        return f"{self.out}:{name}"

    def serve(self, *what, **more):
        environment = {
            "TRITON_CACHE_MANAGER": tritons.PLUGIN,
            "CUBINARY_TRITON_STRICT": "1",
            "TRITON_CACHE_DIR": self.tmp / "own",
        } | more
        report, error = self.runner.launch(*what, **environment)
        self.assertIsNotNone(report, error)
        self.assertEqual((report["started"], report["written"], report["benched"]), ([], [], 0))
        return report

    def test_capture_release_hydrate_serve(self):
        self.cubinary(
            *("triton", "capture", "--store", self.store, "--"),
            *(self.triton.python, PROGRAM, "add", "scale", "tuned", "hooked"),
            env=self.environment(),
            timeout=300,
        )
        source = self.released("r1")

        # Laid down by the program, as an image would hold it: read-only, its index pinned by `triton env`.
        cache = self.tmp / "cache"
        self.cubinary("triton", "hydrate", source, "--key", f"{self.key}.pub", "--cache", cache)
        exported = self.cubinary(
            *("triton", "env", "--cache", cache, "--json"), env={"CUBINARY_PYTHON": str(tritons.PYTHON)}
        ).json()
        self.assertEqual(exported["CUBINARY_TRITON_INDEX"], layout.digest(cache / "cubinary-triton.json"))
        for path in [cache, *cache.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        exported.pop("PYTHONPATH")
        report = self.serve("add", "scale", "tuned", "hooked", **exported)
        self.assertTrue(report["tuned"]["best"].startswith("BLOCK: 128"))
        self.assertTrue(report["hooked"]["best"].startswith("BLOCK: 128"))

        # Laid down by the plug-in itself.
        library = os.environ["CUBINARY_LIB"] + "/libcubinary.so.0"
        demand = {"CUBINARY_LIBRARY": library, "CUBINARY_TRITON_SOURCE": source, "WATCH": ""}
        wrong = self.tmp / "wrong"
        self.cubinary("keygen", wrong)
        refused = self.runner.run(
            PROGRAM,
            "add",
            TRITON_CACHE_MANAGER=tritons.PLUGIN,
            CUBINARY_TRITON_STRICT="1",
            CUBINARY_TRITON_CACHE=self.tmp / "demand",
            CUBINARY_TRITON_KEY=f"{wrong}.pub",
            **demand,
        )
        self.assertEqual(refused.returncode, 1)
        self.assertIn("cubinary.errors.Error", refused.stderr)
        self.assertFalse((self.tmp / "demand/cubinary-triton.json").exists())
        self.serve(
            "add",
            "tuned",
            CUBINARY_TRITON_CACHE=self.tmp / "demand",
            CUBINARY_TRITON_KEY=f"{self.key}.pub",
            **demand,
        )

        # A miss, explained by the program as well.
        misses = self.tmp / "misses.jsonl"
        report, error = self.runner.launch(
            *("persistent",),
            **exported | {"CUBINARY_TRITON_MISSES": misses, "TRITON_CACHE_DIR": self.tmp / "own"},
        )
        self.assertIsNone(report)
        self.assertIn("It holds no kernel of this name", error)
        key = json.loads(misses.read_text().splitlines()[0])["key"]
        explained = self.cubinary(
            *("triton", "explain", misses, "--source", source, "--key", f"{self.key}.pub"), status=None
        )
        self.assertIn(key, explained.stdout)

    def test_a_cache_made_earlier_serves(self):
        """Without the plug-in nobody noted what went into the keys; Triton's own files are enough."""
        earlier = self.tmp / "earlier"
        what = ("add", "scale", "tuned")
        report, error = self.runner.launch(
            *what,
            site=False,
            TRITON_CACHE_DIR=earlier,
            TRITON_CACHE_AUTOTUNING="1",
            TRITON_LIBCUDA_PATH=self.runner.stub,
        )
        self.assertIsNotNone(report, error)
        best = report["tuned"]["best"]
        self.cubinary(
            *("triton", "capture", "--store", self.store, "--from", earlier),
            *("--device-class", "sm90-s132-l50M-b6144-m144G"),
        )
        cache = self.tmp / "cache"
        self.cubinary("triton", "hydrate", self.released("r3"), "--key", f"{self.key}.pub", "--cache", cache)
        shutil.rmtree(earlier)
        report, error = self.runner.launch(
            *what,
            TRITON_CACHE_MANAGER=tritons.PLUGIN,
            CUBINARY_TRITON_STRICT="1",
            CUBINARY_TRITON_CACHE=cache,
            TRITON_CACHE_DIR=self.tmp / "own",
        )
        self.assertIsNotNone(report, error)
        self.assertEqual((report["tuned"]["best"], report["written"], report["benched"]), (best, [], 0))
        # No record tells what `ptxas --version` prints: it is asked, and nothing else is started.
        self.assertEqual({part for part in report["started"] if "ptxas" not in part}, set())

    def test_build_for_another_target_into_a_release(self):
        capture = self.tmp / "capture"
        done = self.runner.run(
            *(PROGRAM, "add", "scale"), TRITON_CACHE_MANAGER=tritons.CAPTURE, CUBINARY_TRITON_CAPTURE=capture
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.cubinary(
            *(
                "triton",
                "build",
                "--store",
                self.store,
                "--from-record",
                capture / "records",
                "--target",
                "sm_120",
            ),
            *("--python", self.triton.python),
            env=self.environment(TRITON_CACHE_DIR=self.tmp / "own"),
            timeout=300,
        )
        source = self.released("r2")
        shutil.rmtree(capture)
        cache = self.tmp / "cache"
        self.cubinary("triton", "hydrate", source, "--key", f"{self.key}.pub", "--cache", cache)
        self.serve("add", "scale", CUBINARY_TRITON_CACHE=cache, STUB_CC="120")


if __name__ == "__main__":
    harness.need_tools("gcc")
    Release.triton = tritons.installed()[-1]
    harness.main()
