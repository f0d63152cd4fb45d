# SPDX-License-Identifier: Apache-2.0
"""The images of docker/: built from this build's binaries, then run: unprivileged, with a read-only root, and with no
network but the loopback. Kernels go the whole way through them: builder, server with its edge, lean images."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import engine
import harness

BASE = harness.SOURCE / "build/deps/images/base.tar"
BUILD = harness.folder("CUBINARY_BIN").parent
FAKE_DRIVER = harness.test_program("libfake_libcuda.so")

MANIFEST = """manifest = 1
name = "scale"
summary = "y = a * x"
source = "scale.cu"
entry = "scale<{T}, {VEC}>"
types.T = ["f32"]
targets = ["sm_90"]
[axes]
n = { tune = [1024], bucket = "log2" }
[tunables]
VEC = { values = [1, 2], default = 1 }
[rules]
require = ["n % VEC == 0"]
[launch]
grid = ["ceil_div(n, 128 * VEC)"]
block = ["128"]
args = [
  { name = "y", out = "T", len = "n" },
  { name = "x", in = "T", len = "n" },
  { name = "n", scalar = "i64", is = "n" },
  { name = "a", scalar = "f32", default = 2 },
]
[check]
reference = { entry = "scale<{T}, 1>", grid = ["ceil_div(n, 128)"], block = [128] }
tolerance = { f32 = [0, 0] }
"""
SOURCE = """template <typename T, int VEC> __global__ void scale(T* y, const T* x, long long n, float a) {
  for (long long i = (blockIdx.x * 128 + threadIdx.x) * VEC, e = i + VEC; i < e && i < n; ++i) y[i] = a * x[i];
}
"""
PYTHON = """
import cubinary

class Buffer:
    def __init__(self, pointer):
        self.__cuda_array_interface__ = {"data": (pointer, False), "shape": (1024,), "typestr": "<f4", "version": 3}

kernel = cubinary.open().kernel("scale", T="f32", n=1024)
kernel(Buffer(0x10000), Buffer(0x20000), 3.0)
print(kernel.info.target, kernel.info.match)
"""


def setUpModule():
    global images, scratch
    # Buildah's storage and what it mounts must be reachable for the images' user.
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="cubinary-images-"))
    scratch.chmod(0o755)
    unittest.addModuleCleanup(shutil.rmtree, scratch, ignore_errors=True)
    made = engine.Engine(scratch / "storage")
    unittest.addModuleCleanup(made.clear)
    made.add("localhost/base", BASE)
    toolkit = scratch / "toolkit"  # the compiler's library and headers alone: the rest is four times as much
    found = pathlib.Path((harness.SOURCE / "build/deps/toolkit").read_text().strip())
    lib = next(path for path in (found / "lib64", found / "lib") if list(path.glob("libnvrtc.so*")))
    (toolkit / "lib64").mkdir(parents=True)
    (toolkit / "include").symlink_to(found / "include")
    for pattern in ("libnvrtc.so.1?", "libnvrtc-builtins.so.1?.*"):
        for path in lib.glob(pattern):
            (toolkit / "lib64" / path.name).symlink_to(path)
    subprocess.run([harness.SOURCE / "docker/gather", BUILD, scratch / "binaries"], check=True,
                   env={**os.environ, "CUBINARY_TOOLKIT": str(toolkit)}, stdout=subprocess.DEVNULL)  # fmt: skip
    made.add("localhost/binaries", scratch / "binaries")
    images = {}
    for name in ("builder", "server", "lean-c", "lean-python"):
        without = {"COMPILER": ""} if name == "builder" else {}
        images[name] = made.build(name, BASE="localhost/base", BINARIES="localhost/binaries", **without)


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.tmp.chmod(0o755)

    def folder(self, name, mode=0o777):
        """A folder that any user may write."""
        path = self.tmp / name
        path.mkdir(exist_ok=True)
        path.chmod(mode)
        return path

    def released(self):
        """A folder `work` in which the builder image has built, released and signed a kernel."""
        work = self.folder("work")
        kernel = self.folder("work/kernels")
        (kernel / "kernel.toml").write_text(MANIFEST)
        (kernel / "scale.cu").write_text(SOURCE)
        store = ("--store", "kernels.cubinary")

        def cubinary(*arguments):
            return images["builder"].run(*arguments, volumes={"/work": work})

        self.built = cubinary("build", *store)
        cubinary("keygen", "release.key")
        cubinary("release", "create", "v1", *store)
        cubinary("release", "sign", "v1", "--key", "release.key", *store)
        cubinary("release", "promote", "v1", "--as", "prod", *store)
        cubinary("export", "layout", "--release", "v1", *store)
        return work


class Lean(Case):
    def test_nothing_else_is_in_them(self):
        for name, programs in (("lean-c", {"cubinary-fetch"}),
                               ("lean-python", {"cubinary-fetch", "python3", "python3.11"})):  # fmt: skip
            with self.subTest(name):
                paths = images[name].paths()
                there = {path.rsplit("/")[-1] for path in paths if path.startswith(("usr/bin/", "usr/sbin/"))}
                if name == "lean-python":  # python3.11 is the distribution's; helpers such as pygettext come along
                    self.assertTrue(there >= {"cubinary-fetch", "python3"}, there)
                    there -= {one for one in there if one.startswith(("py", "pdb", "pydoc"))}
                    programs = {"cubinary-fetch"}
                self.assertEqual(there, programs)
                unwanted = ("gcc", "cc1", "nvcc", "ptxas", "file", "ldconfig", "sh", "bash", "apt-get", "pip", "pip3")
                self.assertEqual([path for path in paths if path.rsplit("/")[-1] in unwanted], [])
                self.assertEqual([path for path in paths if path.endswith(".h") or "nvrtc" in path], [])

    def test_from_a_build_to_a_launch(self):
        work = self.released()
        self.assertRegex(self.built, r"2 ok|2 built|ok +2|scale +.*2")
        self.assertEqual((work / "release.key").stat().st_uid, 12345)
        log = self.folder("log")
        cache = self.folder("cache")
        common = {"volumes": {"/release": (work, "ro"), "/cache": cache, "/driver.so": FAKE_DRIVER, "/log": log},
                  "env": {"CUBINARY_LIBCUDA": "/driver.so", "FAKE_CUDA_LOG": "/log/calls",
                          "CUBINARY_SOURCE": "/release/layout:v1", "CUBINARY_KEY": "/release/release.key.pub"}}
        fetch = ("/release/layout:v1", "--key", "/release/release.key.pub")
        self.assertIn("2 artifacts", images["lean-c"].run(*fetch, **common))
        self.assertIn("2 artifacts", images["lean-c"].run(*fetch, "--offline", **common))

        # A C program in the image it was copied into, then Python in its own.
        program = harness.test_program("lean_program")
        said = images["lean-c"].run("/release/layout:v1", "/release/release.key.pub", "/cache", entry=["/program"],
                                    env=common["env"], volumes={**common["volumes"], "/program": program})
        self.assertRegex(said, r"^scale sm_90 default VEC=")
        said = images["lean-python"].run("-c", PYTHON, **common)
        self.assertEqual(said, "sm_90 default")
        launches = [line for line in (log / "calls").read_text().splitlines() if line.startswith("launch")]
        self.assertEqual(len(launches), 2)
        for line in launches:
            self.assertIn("0000000000010000,0000000000020000,0000000000000400,40400000", line)

        # With nowhere to write it runs too, and says so once.
        del common["volumes"]["/cache"]
        said = images["lean-python"].run("-c", PYTHON, **common)
        self.assertRegex(said, r"^cubinary: warning: .*\nsm_90 default$")


class Server(Case):
    def setUp(self):
        super().setUp()
        self.work = self.released()
        self.data, tls = self.folder("data"), self.folder("tls", 0o755)
        shutil.copy(self.work / "kernels.cubinary", self.data)
        os.chown(self.data / "kernels.cubinary", 12345, 0)
        self.run_program("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                         "-nodes", "-keyout", tls / "tls.key", "-out", tls / "tls.crt", "-days", "2", "-subj",
                         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")  # fmt: skip
        (tls / "tls.key").chmod(0o640)
        os.chown(tls / "tls.key", 0, 12345)
        os.chown(tls / "tls.key", 12345, 0)
        self.volumes = {"/data": self.data, "/etc/cubinary": (tls, "ro")}
        self.tls = tls
        self.options = {"volumes": self.volumes, "tmpfs": ("/run", "/var/cache/nginx", "/tmp"),
                        "env": {"CUBINARY_HOST": "localhost"}}  # fmt: skip

    def fetch(self, source, token, **options):
        return images["lean-c"].run(
            source, "--key", "/release.pub", "--cache", "/cache",
            volumes={"/release.pub": self.work / "release.key.pub", "/ca.crt": self.tls / "tls.crt",
                     "/cache": self.folder("cache")},
            env={"SSL_CERT_FILE": "/ca.crt", "CUBINARY_TOKEN": token}, **options)  # fmt: skip

    def test_it_serves_through_its_edge_and_drains(self):
        server = images["server"]
        token = server.run("token", "create", "--name", "node", "--scope", "read", "--store", "/data/kernels.cubinary",
                           entry=["cubinary"], **self.options).split()[-1]  # fmt: skip
        health = [*server.config["Healthcheck"]["Test"][1:]]
        self.assertEqual(server.config["Healthcheck"]["Test"][0], "CMD")
        with server.running(**self.options) as running:
            running.line(r"^serving /data/kernels.cubinary on http://127.0.0.1:8421$")
            inside = running.process.pid
            check = self.inside(server, health, inside)
            self.assertEqual(check.status, 0, check)
            said = self.fetch("https://localhost:8443:prod", token)
            self.assertIn("2 artifacts", said)
            running.line(r'"GET /v2/cubinary/manifests/prod HTTP/1.1" 200 ')  # the edge's log, on its output
            refused = self.fetch("https://localhost:8443:prod", "wrong", status=1)
            self.assertRegex(refused, "token|401")
            self.assertEqual(running.stop(), 0)
        self.assertEqual(self.run_program("sqlite3", self.data / "kernels.cubinary", "pragma integrity_check").stdout,
                         "ok\n")  # fmt: skip

    def inside(self, image, command, pid):
        """A command beside a process of a container, as its engine runs a health check."""
        return self.run_program("nsenter", "--target", str(pid), "--root", "--wdns=/", *command, status=None)

    def test_it_ends_when_its_half_ends(self):
        server = images["server"]
        with server.running(**self.options) as running:
            running.line(r"^serving ")
            origin = self.run_program("pgrep", "--parent", running.process.pid, "-x", "cubinary").stdout.split()
            os.kill(int(origin[0]), 9)
            running.line("one of the two processes ended .*so the other was stopped")
            self.assertNotEqual(running.process.wait(30), 0)

    def test_what_is_missing_is_said(self):
        server = images["server"]
        self.assertIn("CUBINARY_HOST is not set", server.run(status=3, **{**self.options, "env": {}}))
        del self.volumes["/etc/cubinary"]
        self.assertIn("/etc/cubinary/tls.crt cannot be read: mount", server.run(status=3, **self.options))
        self.options["tmpfs"] = ("/tmp",)
        self.volumes["/etc/cubinary"] = (self.tls, "ro")
        self.assertIn("/run cannot be written by UID 12345", server.run(status=3, **self.options))


if __name__ == "__main__":
    harness.need_tools("buildah", "unshare", "nsenter", "openssl", "sqlite3", "pgrep")
    if os.geteuid():
        harness.skip("mounting images needs root")
    if not BASE.exists():
        harness.skip(f"{BASE} is missing (scripts/setup --tests makes it)")
    if not (BUILD / "bin/cubinary-fetch-static").exists():
        harness.skip("images are made of release binaries (the release preset makes them)")
    engine.alone()
    harness.main()
