# SPDX-License-Identifier: Apache-2.0
"""Builds images with buildah and runs them as a container engine would, needing neither an engine nor a network:
own mount and network namespaces, the image's user, environment and entry point, its root read-only."""

import array
import contextlib
import fcntl
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys

import harness

DEVICES = ("null", "zero", "full", "random", "urandom")


def alone():
    """Starts this program again where there is no network but its own loopback, and mounts are nobody else's."""
    if os.environ.get("CUBINARY_IMAGES_ALONE") != "1":
        os.environ["CUBINARY_IMAGES_ALONE"] = "1"
        command = ["unshare", "--mount", "--net", sys.executable, *sys.argv]
        os.execvp(command[0], command)
    with socket.socket() as any_socket:
        request = array.array("B", struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


class Engine:
    """A storage of images in `folder`. Needs root."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.driver = "overlay"
        if self._try("info").returncode:
            self.driver = "vfs"

    def _command(self, *arguments):
        return ["buildah", "--root", self.folder / "root", "--runroot", self.folder / "run",
                "--storage-driver", self.driver, *arguments]  # fmt: skip

    def _try(self, *arguments):
        return subprocess.run(self._command(*arguments), capture_output=True, text=True)

    def buildah(self, *arguments):
        done = self._try(*arguments)
        if done.returncode:
            raise AssertionError(f"buildah {arguments}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout.strip()

    def add(self, name, files):
        """An image that is a folder's or tar file's content, no more."""
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, files, "/")
        self.buildah("commit", "--quiet", container, name)
        self.buildah("rm", container)

    def build(self, name, **arguments):
        """docker/NAME.Containerfile, as localhost/cubinary-NAME; never from a registry."""
        options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        self.buildah("build", "--isolation", "chroot", "--format", "docker", "--pull-never", *options,
                     "--file", harness.SOURCE / "docker" / f"{name}.Containerfile",
                     "--tag", f"localhost/cubinary-{name}", harness.SOURCE)  # fmt: skip
        return Image(self, f"localhost/cubinary-{name}")

    def clear(self):
        self._try("rm", "--all")
        self._try("rmi", "--all", "--force")


class Image:
    """`root`: its files, mounted. `config`: what it says about running it."""

    def __init__(self, engine, name):
        self.folder = engine.folder
        self.root = pathlib.Path(engine.buildah("mount", engine.buildah("from", "--pull-never", name)))
        self.config = json.loads(engine.buildah("inspect", "--type", "image", name))["Docker"]["config"]

    def paths(self):
        """Every file and link in it, as text from its root on."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if not path.is_dir()}

    @contextlib.contextmanager
    def running(self, *command, entry=None, env=None, volumes=None, tmpfs=("/tmp",), user=None):
        """The container, as a harness.Background. `command`, `entry` (a list) and `user` ("UID:GID") stand in for
        what the image names; `volumes`: its path -> one here, or (one here, "ro")."""
        mounted = []

        def mount(source, at, *options):
            at = self.root / at.lstrip("/")
            if os.path.exists(source) and not os.path.isdir(source):
                at.parent.mkdir(parents=True, exist_ok=True)
                at.touch()
            else:
                at.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", *options, source, at], check=True)
            mounted.append(at)
            return at

        uid, gid = (int(part) for part in (user or self.config["User"]).split(":"))
        try:
            mount(self.root, "/", "--bind")
            mount("proc", "/proc", "-t", "proc")
            dev = mount("tmpfs", "/dev", "-t", "tmpfs")
            for name in DEVICES:
                (dev / name).touch()
                mount(f"/dev/{name}", f"/dev/{name}", "--bind")
            for name, to in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
                (dev / name).symlink_to("/proc/self/fd" + to)
            (self.folder / "hosts").write_text("127.0.0.1 localhost\n")
            mount(self.folder / "hosts", "/etc/hosts", "--bind")
            for at in tmpfs:
                mount("tmpfs", at, "-t", "tmpfs", "-o", "mode=1777")
            for at, source in (volumes or {}).items():
                source, *how = source if isinstance(source, tuple) else (source,)
                path = mount(source, at, "--bind")
                if how:
                    subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)
            subprocess.run(["mount", "-o", "remount,bind,ro", self.root], check=True)

            def enter():
                os.chroot(self.root)
                os.chdir(self.config.get("WorkingDir") or "/")
                os.setgroups([])
                os.setgid(gid)
                os.setuid(uid)

            environment = dict(pair.split("=", 1) for pair in self.config["Env"])
            words = [*(entry or self.config.get("Entrypoint") or []), *(command or self.config.get("Cmd") or [])]
            process = harness.Background(words, env={**environment, **(env or {})}, preexec_fn=enter)
            try:
                yield process
            finally:
                process.stop()
        finally:
            for at in reversed(mounted):
                subprocess.run(["umount", "--lazy", at], check=True)

    def healthy(self, container):
        """Runs the image's health check beside the container's process, as an engine does; whether it is content."""
        kind, *command = self.config["Healthcheck"]["Test"]
        assert kind == "CMD", kind
        environment = dict(pair.split("=", 1) for pair in self.config["Env"])
        into = ["nsenter", f"--target={container.process.pid}", "--root", "--wdns=/"]
        return subprocess.run([*into, *command], env=environment, capture_output=True).returncode == 0

    def run(self, *command, status=0, timeout=120, **options):
        """Runs it to its end; gives its output, both streams as one text."""
        with self.running(*command, **options) as process:
            process.process.wait(timeout)
            ended = process.stop()
            text = process.text()
        if ended != status:
            raise AssertionError(f"{process.command} ended with {ended}, not {status}:\n{text}")
        return text
