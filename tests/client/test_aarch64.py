# SPDX-License-Identifier: Apache-2.0
"""The client for Arm, cross-compiled into build/aarch64: its own tests under emulation, what it needs, and a fetch from
this machine's server."""

import json
import os
import re
import shutil
import sys

import harness

BUILD = harness.SOURCE / "build/aarch64"
LIBC = "/usr/aarch64-linux-gnu"
EMULATOR = ("qemu-aarch64-static", "-L", LIBC)
# glibc's own; libgcc and the C++ runtime are inside.
NEEDED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-aarch64.so.1"}
FLOOR = (2, 28)
MINIMAL = (harness.SOURCE / "build/deps/openssl-aarch64/recipe").exists()
SIZE_LIMIT = 6_000_000 if MINIMAL else 8_500_000  # with the distribution's OpenSSL


class Aarch64(harness.Case):
    def emulate(self, *command, **options):
        return self.run_program(*EMULATOR, *command, timeout=600, **options)

    def suite(self, name):
        done = self.emulate(BUILD / "tests" / name, "--order", "lex")
        self.assertIn("All tests passed", done.stdout)
        print(name + ": " + done.stdout.strip().splitlines()[-1])

    def test_core(self):
        self.suite("core_wire_tests")

    def test_client(self):
        self.suite("test_client")

    def test_launch(self):
        self.suite("test_launch")

    def test_what_it_needs(self):
        for path in (BUILD / "lib/libcubinary.so.0", BUILD / "bin/cubinary-fetch"):
            path = path.resolve()
            told = self.run_program("readelf", "-W", "-h", "-d", "--version-info", path).stdout
            self.assertIn("AArch64", told)
            self.assertLessEqual(set(re.findall(r"\(NEEDED\).*\[(.*?)\]", told)), NEEDED)
            floor = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", told))
            size = path.stat().st_size
            print("%s: %d bytes, glibc %d.%d" % (path.name, size, *floor))
            self.assertLessEqual(floor, FLOOR)
            self.assertLessEqual(size, SIZE_LIMIT)

    def test_the_interface_has_one_layout(self):
        """Sizes and offsets of the C interface are those of every 64-bit machine."""
        here = self.run_program(harness.test_program("abi_sizes")).stdout
        self.assertEqual(self.emulate(BUILD / "tests/abi_sizes").stdout, here)

    def test_fetch_from_a_server(self):
        store, key = self.tmp / "k.db", self.tmp / "key"
        self.run_program(harness.test_program("make_store"), store)
        self.cubinary("keygen", key)
        self.cubinary("release", "create", "r1", "--store", store)
        self.cubinary("release", "sign", "r1", "--key", key, "--store", store)
        server = self.background(harness.binary("cubinary"), "serve", "--store", store, "--listen", "127.0.0.1:0")
        url = server.line(r"http://127\.0\.0\.1:\d+").group(0)
        reports = []
        for name in ("cubinary-fetch", "cubinary-fetch-static"):
            for words in ((), ("--offline",)):
                done = self.emulate(BUILD / "bin" / name, url, "--key", str(key) + ".pub", "--cache",
                                    self.tmp / name, "--json", *words)
                reports.append(json.loads(done.stdout))
        artifacts = [sorted(a["artifact"] for a in report["artifacts"]) for report in reports]
        self.assertTrue(artifacts[0])
        self.assertEqual(artifacts, [artifacts[0]] * 4)
        self.assertEqual([report["packs_received"] > 0 for report in reports], [True, False, True, False])


if __name__ == "__main__":
    if not (BUILD / "bin/cubinary-fetch").exists():
        print("SKIPPED: there is no build/aarch64 (scripts/test builds it where the distribution has the libraries)")
        sys.exit(125)
    if shutil.which(EMULATOR[0]) is None or not os.path.isdir(LIBC):
        print("SKIPPED: needs qemu-user-static and g++-aarch64-linux-gnu")
        sys.exit(125)
    harness.main()
