# SPDX-License-Identifier: Apache-2.0
"""The images of docker/: built from this build's binaries, then run: unprivileged, with a read-only root, and with no
network but the loopback. Kernels go the whole way through them: builder, server with its edge, lean images."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
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
        # Python brings helpers of its own: pydoc, pdb, py3compile and the like.
        for name, programs in (("lean-c", r"cubinary-fetch"), ("lean-python", r"cubinary-fetch|py.*|pdb.*")):
            with self.subTest(name):
                paths = images[name].paths()
                there = {path.rsplit("/")[-1] for path in paths if path.startswith(("usr/bin/", "usr/sbin/"))}
                self.assertEqual([one for one in there if not re.fullmatch(programs, one)], [])
                self.assertIn("cubinary-fetch", there)
                unwanted = ("gcc", "cc1", "nvcc", "ptxas", "file", "ldconfig", "sh", "bash", "apt-get", "pip", "pip3")
                self.assertEqual([path for path in paths if path.rsplit("/")[-1] in unwanted], [])
                self.assertEqual([path for path in paths if path.endswith(".h") or "nvrtc" in path], [])

    def test_from_a_build_to_a_launch(self):
        work = self.released()
        self.assertRegex(self.built, r"(?m)^\d ok, 0 failed, 0 unchanged;")
        self.assertEqual((work / "release.key").stat().st_uid, 12345)
        log = self.folder("log")
        cache = self.folder("cache")
        common = {"volumes": {"/release": (work, "ro"), "/cache": cache, "/driver.so": FAKE_DRIVER, "/log": log},
                  "env": {"CUBINARY_LIBCUDA": "/driver.so", "FAKE_CUDA_LOG": "/log/calls",
                          "CUBINARY_SOURCE": "/release/layout:v1", "CUBINARY_KEY": "/release/release.key.pub"}}
        fetch = ("/release/layout:v1", "--key", "/release/release.key.pub")
        self.assertIn("1 artifact,", images["lean-c"].run(*fetch, **common))
        self.assertIn("1 artifact,", images["lean-c"].run(*fetch, "--offline", **common))

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
            self.assertIn("launch _Z5scale", line)
            self.assertIn("grid=8,1,1 block=128,1,1", line)

        # With nowhere to write it runs too, and says so once.
        del common["volumes"]["/cache"]
        said = images["lean-python"].run("-c", PYTHON, **common)
        (warning,) = set(said.splitlines()) - {"sm_90 default"}  # told in the background, before or after
        self.assertIn("cubinary: warning: the cache folder /cache cannot be written", warning)


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
        with server.running(**self.options) as running:
            running.line(r"^serving /data/kernels.cubinary on http://127.0.0.1:8421$")
            self.healthy(server, running)
            said = self.fetch("https://localhost:8443:prod", token)
            self.assertIn("1 artifact,", said)
            running.line(r'"GET /v2/cubinary/manifests/prod HTTP/1.1" 200 ')  # the edge's log, on its output
            refused = self.fetch("https://localhost:8443:prod", "wrong", status=1)
            self.assertRegex(refused, "token|401")
            self.assertEqual(running.stop(), 0)
        self.assertEqual(self.run_program("sqlite3", self.data / "kernels.cubinary", "pragma integrity_check").stdout,
                         "ok\n")  # fmt: skip

    def healthy(self, server, running):
        end = time.monotonic() + 60
        while not server.healthy(running):
            self.assertLess(time.monotonic(), end, running.text())
            time.sleep(0.1)

    def test_it_ends_when_its_half_ends(self):
        server = images["server"]
        with server.running(**self.options) as running:
            self.healthy(server, running)
            origin = self.run_program("pgrep", "--parent", running.process.pid, "-x", "cubinary").stdout
            os.kill(int(origin), 9)
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


class Documented(Case):
    """What docs/containers.md and docs/ci.md show, done."""

    # What the API knows of the objects shown: a misspelt field would be refused or, worse, passed over there.
    KNOWN = {
        "ConfigMap": {"apiVersion", "kind", "metadata", "data"},
        "Pod": {"apiVersion", "kind", "metadata", "spec"},
        "spec": {"automountServiceAccountToken", "securityContext", "initContainers", "containers", "volumes"},
        "pod's securityContext": {"runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile"},
        "container": {"name", "image", "args", "command", "env", "securityContext", "resources", "volumeMounts"},
        "securityContext": {"readOnlyRootFilesystem", "allowPrivilegeEscalation", "capabilities"},
        "env": {"name", "value", "valueFrom"},
        "volumeMount": {"name", "mountPath", "readOnly"},
        "volume": {"name", "emptyDir", "configMap"},
    }

    def shown(self, document, name, language="yaml"):
        text = (harness.SOURCE / "docs" / document).read_text()
        (block,) = re.findall(rf"<!-- test: {name} -->\n```{language}\n(.*?)```", text, re.S)
        if language != "yaml":
            return block
        # The distribution's Python has the package; the one that runs this test may not.
        code = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)"
        return self.run_program("/usr/bin/python3", "-c", code, stdin=block).json()

    def known(self, what, fields):
        self.assertLessEqual(set(fields), self.KNOWN[what], what)

    def serve(self, work, *options, port=8421):
        server = self.background(harness.binary(), "serve", "--store", work / "kernels.cubinary", "--listen",
                                 f"127.0.0.1:{port}", "--access-log", "none", *options)  # fmt: skip
        server.line("^serving ")
        return server, f"http://127.0.0.1:{port}"

    def test_the_pod(self):
        key, pod = self.shown("containers.md", "kubernetes")
        self.known("ConfigMap", key)
        self.known("Pod", pod)
        spec = pod["spec"]
        self.known("spec", spec)
        self.known("pod's securityContext", spec["securityContext"])
        self.assertEqual((spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]), (True, 12345))
        user = "{runAsUser}:{runAsGroup}".format(**spec["securityContext"])
        (fetch,), (program,) = spec["initContainers"], spec["containers"]
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for volume in volumes.values():
            self.known("volume", volume)
        self.assertEqual(volumes["key"]["configMap"]["name"], key["metadata"]["name"])
        for container in (fetch, program):
            self.known("container", container)
            self.known("securityContext", container["securityContext"])
            self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], True)
            self.assertIs(container["securityContext"]["allowPrivilegeEscalation"], False)
            self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
            for variable in container["env"]:
                self.known("env", variable)
            for mount in container["volumeMounts"]:
                self.known("volumeMount", mount)
                self.assertIn(mount["name"], volumes)

        # Both containers, as a node would run them: one after the other over the same volumes.
        work = self.released()
        server, url = self.serve(work)
        keys, kernels = self.folder("keys", 0o755), self.folder("kernels")
        (name,) = key["data"]
        shutil.copy(work / "release.key.pub", keys / name)

        def run(image, container, **options):
            env = {one["name"]: one.get("value", "secret") for one in container["env"]}
            self.assertEqual({value for value in env.values() if "://" in value}, {"https://kernels.example.com:prod"})
            env = {name: f"{url}:prod" if "://" in value else value for name, value in env.items()}
            env.pop("CUBINARY_TOKEN", None)  # this server lets its own machine read
            words = [re.sub(r"\$\((\w+)\)", lambda match: env[match[1]], word)
                     for word in (container.get("args") or container["command"][1:])]  # fmt: skip
            places = {"kernels": kernels, "key": (keys, "ro")}
            mounts = {mount["mountPath"]: places[mount["name"]] for mount in container["volumeMounts"]}
            entry = container.get("command", [])[:1] or None
            return images[image].run(*words, entry=entry, user=user, env={**env, **options.pop("env", {})},
                                     volumes={**mounts, **options.pop("volumes", {})}, **options)  # fmt: skip

        self.assertEqual(fetch["image"], "cubinary-lean-c")
        self.assertIn("1 artifact,", run("lean-c", fetch))
        self.assertEqual(server.stop(), 0)
        app = self.folder("app")
        (app / "main.py").write_text(PYTHON.replace("open()", "open(offline=True)"))
        said = run("lean-python", program, volumes={"/app": (app, "ro"), "/driver.so": FAKE_DRIVER},
                   env={"CUBINARY_LIBCUDA": "/driver.so"})  # fmt: skip
        self.assertEqual(said, "sm_90 default")

        (hydrate,) = self.shown("containers.md", "triton")
        help_text = images["lean-c"].run(hydrate["args"][0], "--help")
        for word in hydrate["args"]:
            if word.startswith("--"):
                self.assertIn(word, help_text)

    def test_the_pipeline(self):
        (pipeline,) = self.shown("ci.md", "ci")
        self.assertEqual(pipeline["default"]["image"]["name"], "cubinary-builder")
        work = self.folder("work")
        kernel = self.folder("work/kernels")
        (kernel / "kernel.toml").write_text(MANIFEST)
        (kernel / "scale.cu").write_text(SOURCE)
        images["builder"].run("keygen", "/work/signing.key", volumes={"/work": work})

        def job(name, number):
            self.assertIn(pipeline[name]["stage"], pipeline["stages"])
            env = {key: value.replace("$CI_PIPELINE_IID", number) for key, value in pipeline["variables"].items()}
            env["SIGNING_KEY"] = "/work/signing.key"
            allowed = pipeline[name].get("allow_failure", {}).get("exit_codes", 0)
            return images["builder"].run("set -e\n" + "\n".join(pipeline[name]["script"]), entry=["/bin/sh", "-c"],
                                         env=env, volumes={"/work": work}, status=allowed)  # fmt: skip

        def summary():
            return json.loads((work / "build.jsonl").read_text().splitlines()[-1])

        job("prebuild", "1")
        first = summary()
        self.assertEqual((first["failed"], first["skipped"]), (0, 0))
        self.assertIn("driver", job("tune", "1"))  # no GPU here: allowed, by its status
        self.assertIn("layout:build-1: verified", job("publish", "1"))
        for path in pipeline["prebuild"]["artifacts"]["paths"] + pipeline["publish"]["artifacts"]["paths"]:
            self.assertTrue((work / path).exists(), path)
        job("prebuild", "2")
        self.assertEqual(summary()["skipped"], first["ok"])
        self.assertIn("layout:build-2: verified", job("publish", "2"))

        token = self.cubinary("token", "create", "--store", work / "kernels.cubinary", "--name", "ci", "--scope",
                              "read,publish").stdout.split()[-1]  # fmt: skip
        _, url = self.serve(work)
        told = images["builder"].run("set -e\n" + self.shown("ci.md", "server", "sh"), entry=["/bin/sh", "-c"],
                                     volumes={"/work": work},
                                     env={"SERVER": url, "CUBINARY_TOKEN": token, "RELEASE": "build-3",
                                          "SIGNING_KEY": "/work/signing.key"})  # fmt: skip
        self.assertIn("prod is now build-3 (serial 3)", told)


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
