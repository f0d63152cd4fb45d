# SPDX-License-Identifier: Apache-2.0
"""The client in a root file system of libc and nothing else: no network, another UID, all read-only."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD_LIB = os.environ["CUBINARY_LIB"]
BUILD_BIN = os.environ["CUBINARY_BIN"]
TESTS = os.environ["CUBINARY_TESTS"]
ROOT = os.path.join(TESTS, "lean-root")
# Threads and dlopen are libraries of their own in both. The second is the floor that is claimed; its suite has left
# the mirrors that mmdebstrap knows: CUBINARY_OLD_DEBIAN names an archive of old ones.
OLD_ROOTS = {"bullseye": (2, 31), "buster": (2, 28)}
LIBRARY = os.path.join(BUILD_LIB, "libcubinary.so.0")
MINIMAL = os.path.exists(os.path.join(os.environ["CUBINARY_ROOT"], "build/deps/openssl/recipe"))
SIZE_LIMIT = 6_000_000 if MINIMAL else 7_500_000  # with the distribution's OpenSSL
FLOOR = (2, 28)
STATIC = os.path.join(BUILD_BIN, "cubinary-fetch-static")
LIBC_PARTS = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}
# A build that is not static is tested all the same: what it needs comes along.
EXTRA = ("libzstd.so.1", "libssl.so.3", "libcrypto.so.3", "libstdc++.so.6", "libgcc_s.so.1")


def skip(why):
    print("SKIPPED: " + why)
    sys.exit(125)


def needed(path):
    text = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*?)\]", text))


def glibc_floor(path):
    text = subprocess.run(
        ["readelf", "-W", "--version-info", path], check=True, capture_output=True, text=True
    ).stdout
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", text)]
    return max(versions, default=(0, 0))


def make_root(root, suite):
    """Once a build folder. Why it could not be made, or None."""
    if os.path.exists(os.path.join(root, "etc", "debian_version")):
        return None
    shutil.rmtree(root, ignore_errors=True)
    old = os.environ.get("CUBINARY_OLD_DEBIAN")
    mirror = [old] if old and suite == "buster" else []
    made = subprocess.run(
        ["mmdebstrap", "--variant=extract", "--include=libc6,base-files", suite, root, *mirror],
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        shutil.rmtree(root, ignore_errors=True)
        return "mmdebstrap could not make a %s root file system: %s" % (suite, made.stderr.strip()[-300:])
    for folder in ("lib64", "release", "program", "cache"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    return None


class Lean(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="cubinary-lean-")
        cls.release = os.path.join(cls.dir, "release")
        cls.program = os.path.join(cls.dir, "program")
        os.makedirs(cls.release)
        os.makedirs(cls.program)
        key = os.path.join(cls.dir, "key")
        subprocess.run(
            [os.path.join(TESTS, "make_test_layout"), os.path.join(cls.release, "layout"), key],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        shutil.copy(key + ".pub", os.path.join(cls.release, "key.pub"))
        for path in (
            os.path.join(BUILD_BIN, "cubinary-fetch"),
            os.path.join(BUILD_BIN, "cubinary"),
            *([STATIC] if os.path.exists(STATIC) else []),
            LIBRARY,
            os.path.join(TESTS, "lean_program"),
            os.path.join(TESTS, "libfake_libcuda.so"),
        ):
            shutil.copy(path, cls.program)
        wanted = needed(LIBRARY) | needed(os.path.join(BUILD_BIN, "cubinary-fetch"))
        cls.static = not (wanted & set(EXTRA))
        if not cls.static:
            for name in EXTRA:
                for folder in ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu"):
                    path = os.path.join(folder, name)
                    if os.path.exists(path):
                        shutil.copy(path, cls.program)
                        break

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir, ignore_errors=True)

    def lean(self, *command, cache=None, root=ROOT):
        words = ["bwrap", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev"]
        words += ["--ro-bind", self.release, "/release", "--ro-bind", self.program, "/program"]
        if cache is None:
            words += ["--tmpfs", "/cache"]
        else:
            words += ["--bind", cache, "/cache"]
        words += ["--unshare-all", "--uid", "12345", "--gid", "12345", "--clearenv"]
        words += ["--setenv", "LD_LIBRARY_PATH", "/program"]
        words += ["--setenv", "CUBINARY_LIBCUDA", "/program/libfake_libcuda.so"]
        words += ["--setenv", "FAKE_CUDA_LOG", "/cache/log"]
        return subprocess.run([*words, *command], capture_output=True, text=True, timeout=60)

    def test_the_root_is_lean(self):
        for missing in ("usr/bin/gcc", "usr/bin/python3", "bin/sh", "usr/bin/file"):
            self.assertFalse(os.path.exists(os.path.join(ROOT, missing)), missing)

    def test_what_the_library_needs(self):
        """Only libc, when the build is static; the size and the glibc floor are printed."""
        files = [os.path.realpath(LIBRARY), os.path.join(BUILD_BIN, "cubinary-fetch")]
        if os.path.exists(STATIC):
            files.append(STATIC)
        if not MINIMAL:
            print("no minimal OpenSSL in build/deps (scripts/setup makes it): files are 2 MB larger")
        for path in files:
            floor = glibc_floor(path)
            print(
                "%s: %d bytes, glibc %d.%d, needs %s"
                % (os.path.basename(path), os.path.getsize(path), *floor, sorted(needed(path)))
            )
            if self.static:
                loaders = {n for n in needed(path) if n.startswith("ld-linux")}
                self.assertLessEqual(needed(path) - loaders, LIBC_PARTS)
                self.assertLessEqual(os.path.getsize(path), SIZE_LIMIT)
                self.assertLessEqual(floor, FLOOR)
        if self.static:  # the whole program too: doctor and explain are asked where something is missing
            whole = os.path.join(BUILD_BIN, "cubinary")
            self.assertEqual({n for n in needed(whole) if not n.startswith("ld-linux")} - LIBC_PARTS, set())
            self.assertLessEqual(glibc_floor(whole), FLOOR)
        exported = subprocess.run(
            ["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True
        ).stdout
        for line in exported.splitlines():
            self.assertRegex(line.split()[-1].split("@")[0], r"^(cubinary_[a-z_]+|CUBINARY_0\.1)$")

    def test_fetch(self):
        done = self.lean(
            "/program/cubinary-fetch", "/release/layout", "--key", "/release/key.pub", "--cache", "/cache"
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("10 artifacts", done.stdout)

    def test_the_static_program_needs_not_even_libc(self):
        if not os.path.exists(STATIC):
            self.skipTest("this build made no static cubinary-fetch (the release preset does)")
        empty = os.path.join(self.dir, "empty")
        for folder in ("proc", "dev", "release", "program", "cache"):
            os.makedirs(os.path.join(empty, folder))
        cache = os.path.join(self.dir, "static-cache")
        os.makedirs(cache)
        command = ["/program/cubinary-fetch-static", "/release/layout", "--key", "/release/key.pub", "--cache", "/cache"]
        fetched = self.lean(*command, cache=cache, root=empty)
        self.assertEqual(fetched.returncode, 0, fetched.stderr)
        self.assertIn("10 artifacts", fetched.stdout)
        again = self.lean(*command, "--offline", cache=cache, root=empty)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("0 of 4 packs received", again.stdout)

    def doctor(self, *, root=ROOT):
        done = self.lean("/program/cubinary", "doctor", "--source", "/release/layout", "--key", "/release/key.pub",
                         root=root)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^  ok +code for Fake GPU 0: sm_90 ")
        self.assertRegex(done.stdout, r"(?m)^  note +folder: none: neither CUBINARY_CACHE")
        self.assertTrue(done.stdout.endswith("nothing is lacking\n"), done.stdout)

    def test_doctor(self):
        self.doctor()
        wrong = self.lean("/program/cubinary", "doctor", "--source", "/release/nothing", "--key", "/release/none.pub")
        self.assertEqual(wrong.returncode, 3, wrong.stdout)
        self.assertRegex(wrong.stdout, r"(?m)^  lacking +/release/none.pub: ")

    def test_program(self):
        cache = os.path.join(self.dir, "cache")
        os.makedirs(cache, exist_ok=True)
        os.chmod(cache, 0o777)
        done = self.lean(
            "/program/lean_program", "/release/layout", "/release/key.pub", "/cache", cache=cache
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "scale sm_90 exact VEC=4 WARPS=2\n")
        with open(os.path.join(cache, "log"), encoding="utf-8") as file:
            calls = file.read()
        self.assertIn("cuModuleLoadData CUBIN scale sm_90 f32 VEC=4", calls)
        self.assertIn("launch scale_f32_4__p8_8_8_4 grid=4,1,1 block=64,1,1", calls)
        self.assertIn("params=0000000000010000,0000000000020000,0000000000000400,40400000", calls)

    def old_libc(self, suite):
        """The glibc floor is claimed by versions of symbols; here it is lived."""
        if not self.static:
            self.skipTest("a build that is not static needs the build machine's own libraries")
        root = os.path.join(TESTS, "lean-root-" + suite)
        why = make_root(root, suite)
        if why:
            print("SKIPPED: " + why)
            self.skipTest(why)
        version = "libc-%d.%d.so" % OLD_ROOTS[suite]
        self.assertTrue(os.path.exists(os.path.join(root, "lib/x86_64-linux-gnu", version)), version)
        programs = ["cubinary-fetch"] + (["cubinary-fetch-static"] if os.path.exists(STATIC) else [])
        for program in programs:
            fetched = self.lean(
                "/program/" + program, "/release/layout", "--key", "/release/key.pub", "--cache", "/cache", root=root
            )
            self.assertEqual(fetched.returncode, 0, fetched.stderr)
            self.assertIn("10 artifacts", fetched.stdout)
        done = self.lean("/program/lean_program", "/release/layout", "/release/key.pub", "/cache", root=root)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "scale sm_90 exact VEC=4 WARPS=2\n")
        self.doctor(root=root)
        print("ran on glibc %d.%d (%s)" % (*OLD_ROOTS[suite], suite))

    def test_an_old_libc(self):
        self.old_libc("bullseye")

    def test_the_oldest_libc(self):
        self.old_libc("buster")

    def test_program_without_a_folder_to_write(self):
        done = self.lean(
            "/program/lean_program", "/release/layout", "/release/key.pub", "/nowhere/cache"
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "scale sm_90 exact VEC=4 WARPS=2\n")
        self.assertEqual(done.stderr.count("cubinary: warning:"), 1, done.stderr)


if __name__ == "__main__":
    for tool in ("mmdebstrap", "bwrap", "readelf"):
        if shutil.which(tool) is None:
            skip(tool + " is not installed (apt-get install mmdebstrap bubblewrap binutils)")
    probe = subprocess.run(
        ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"], capture_output=True, text=True
    )
    if probe.returncode != 0:
        skip("bubblewrap may not make namespaces here: " + probe.stderr.strip())
    failed = make_root(ROOT, "bookworm")
    if failed:
        skip(failed)
    unittest.main()
