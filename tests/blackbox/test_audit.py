#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cubinary audit: what people and programs read of a store with made-up measurements."""
import csv
import io

import harness
import made_up

BIG = "sm120-s188-l128M-b512-m96G"
SMALL = "sm120-s84-l64M-b256-m16G"


class Audit(made_up.Case):
    def setUp(self):
        super().setUp()
        self.store = self.tmp / "measured.db"
        self.run_program(harness.test_program("make_store"), self.store, "--measured")

    def audit(self, *arguments, **options):
        return self.cubinary("audit", *arguments, "--store", self.store, **options)

    def test_winners(self):
        shown = self.audit("winners").stdout
        self.assertIn(f"Made-up GPU  {BIG}  driver 580.1\n\nscale  sm_120\n", shown)
        self.assertRegex(shown, r"(?m)^T=f32 +n=1024 +10\.00 +1\.0% +80% +\+50\.0% +1\.50x +tuned +VEC=4 WARPS=8$")
        self.assertRegex(shown, r"(?m)^T=f32 +n=1024 +20\.00 +1\.0% +- +- +- +measured +VEC=2 WARPS=8$")
        self.assertIn("2 winners of 1 kernel on 2 device classes", shown)
        self.assertLessEqual(max(map(len, shown.splitlines())), 120)
        rows = self.audit("winners", "--json", "--device-class", "little").json()["winners"]
        self.assertEqual([(row["time_us"], row["origin"], row["config"]) for row in rows],
                         [(20, "measured", {"VEC": 2, "WARPS": 8})])
        sheet = list(csv.DictReader(io.StringIO(self.audit("winners", "--csv").stdout)))
        self.assertEqual([(row["device_class"], row["roofline"], row["config"]) for row in sheet],
                         [(SMALL, "", "VEC=2 WARPS=8"), (BIG, "0.8", "VEC=4 WARPS=8")])

    def test_compare(self):
        shown = self.audit("compare", BIG, "little").stdout
        self.assertRegex(shown, r"(?m)^scale +1 .* 1\.30x +1\.30x +needs its own tuning$")
        self.assertIn("1 of 1 kernel needs tuning on B.\n", shown)
        self.audit("compare", BIG, SMALL, "--check", status=1)
        self.refused("audit", "compare", BIG, "H200", "--store", self.store, status=1,
                     says=f'no measurement of a device "H200".*{BIG}')
        self.refused("audit", "compare", "sm120", BIG, "--store", self.store, status=2, says="could mean")

    def test_coverage(self):
        shown = self.audit("coverage").stdout
        self.assertRegex(shown, rf"(?m)^{BIG}\nkernel .*\nscale +sm_120 +4 +1 ")
        self.assertIn("1 of 8 jobs tuned; --jobs lists the others.\n", shown)
        self.assertRegex(self.audit("coverage", "--jobs").stdout,
                         rf"(?m)^scale +sm_120 +T=f32 +n=4096 +{BIG} +nearest-shape$")
        self.audit("coverage", "--check", status=1)
        self.assertEqual(len(self.audit("coverage", "--csv").stdout.splitlines()), 9)

    def test_stale(self):
        self.assertEqual(self.audit("stale").stdout, "nothing is stale\n")
        shown = self.audit("stale", "--driver", "580.1", "--check", status=1).stdout
        self.assertRegex(shown, rf"(?m)^{SMALL}\nkernel .*\nscale +sm_120 .* 575\.2 -> 580\.1 ")
        self.assertIn("1 job to tune again.\n", shown)

    def test_resources(self):
        shown = self.audit("resources").stdout
        self.assertRegex(shown, rf"(?m)^{BIG}, sm_120\nkernel .*\nscale +T=f16 ")
        # 256 threads of 16 registers fill an SM of 48 warps six times over; the winner serves all it may.
        self.assertRegex(shown, r"(?m)^scale +T=f32 .* 256 .* 100% +threads +exact +2 +VEC=4 WARPS=8$")
        self.assertTrue(shown.endswith("nothing spills.\n"), shown)
        rows = self.audit("resources", "--json", "--device-class", "sm90-s132-l50M-b6144-m144G").json()
        self.assertEqual({row["target"] for row in rows["resources"]}, {"sm_90"})
        self.assertEqual({row["match"] for row in rows["resources"]}, {"default"})
        self.assertEqual(rows["unserved"], [])
        sheet = list(csv.DictReader(io.StringIO(self.audit("resources", "--csv").stdout)))
        self.assertEqual({row["device_class"] for row in sheet}, {BIG, SMALL})
        self.audit("resources", "--check")
        self.refused("audit", "resources", "--store", self.store, "--device-class", "H200", status=1,
                     says='no measurement of a device "H200"')
        self.refused("audit", "resources", "--store", self.make_store(), status=2, says="name one with --device-class")

    def test_a_store_nobody_measured(self):
        empty = self.make_store()
        self.assertIn("run `cubinary tune`", self.cubinary("audit", "winners", "--store", empty).stdout)
        self.assertIn("nothing to cover", self.cubinary("audit", "coverage", "--store", empty).stdout)
        self.refused("audit", "winners", "--store", empty, "--kernel", "scal", status=1, says="did you mean")
        self.cubinary("audit", "winners", "--store", empty, "--json", "--csv", status=2)


if __name__ == "__main__":
    harness.main()
