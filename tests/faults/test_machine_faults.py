# SPDX-License-Identifier: Apache-2.0
"""What cubinary-fetch does when the machine, the file system or the way to the server is not as it should be,
when bits flip, and when something was revoked."""

import concurrent.futures
import hashlib
import itertools
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

import harness
from fault_server import Fault, FaultServer

BIN = os.environ["CUBINARY_BIN"]
TESTS = os.environ["CUBINARY_TESTS"]
MAKE_LAYOUT = os.path.join(TESTS, "make_test_layout")
FETCH = os.path.join(BIN, "cubinary-fetch")
SHIM = os.path.join(TESTS, "libfailing_files.so")
FLIPS = int(os.environ.get("CUBINARY_FLIPS", "400"))  # of each kind; 10000 take minutes


class Base(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cubinary-faults-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.layout = os.path.join(self.dir, "layout")
        self.key = os.path.join(self.dir, "key")
        self.cache = os.path.join(self.dir, "cache")
        self.index = self.make()

    def make(self, *words):
        return subprocess.run(
            [MAKE_LAYOUT, self.layout, self.key, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    def serve(self):
        server = FaultServer(self.layout)
        self.addCleanup(server.close)
        return server

    def fetch(self, *words, source=None, cache=None, env=None, prefix=()):
        return subprocess.run(
            [*prefix, FETCH, source or self.layout, "--key", self.key + ".pub"]
            + ["--cache", cache or self.cache, "--json", *words],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **(env or {})},
            check=False,
        )

    def good(self, *words, **options):
        done = self.fetch(*words, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(len(report["artifacts"]), options.pop("artifacts", 10) if options else 10)
        return report

    def bad(self, *words, says, status=1, **options):
        done = self.fetch(*words, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn(says, done.stderr)
        return done.stderr


class FileSystems(Base):
    def failing(self, path, calls):
        return {"LD_PRELOAD": SHIM, "FAIL_PATH": path, "FAIL_CALLS": calls}

    def test_what_a_network_file_system_forgets_is_tried_again(self):
        for calls in ("open:ESTALE:2", "rename:EBUSY:2", "rename:ESTALE:1", "open:ENOENT:1"):
            cache = os.path.join(self.dir, calls.replace(":", ""))
            self.good(cache=cache, env=self.failing("/artifacts/", calls))
            kept = os.listdir(os.path.join(cache, "v1/artifacts/sha256"))
            self.assertEqual(len(kept), 10, calls)
            self.assertFalse([name for name in kept if "tmp" in name], calls)

    def test_an_entry_that_cannot_be_read_is_fetched_again(self):
        self.good()
        report = self.good(env=self.failing("/artifacts/", "read:EIO:2"))
        self.assertEqual(report["packs_received"], 1)

    def test_a_full_disk_is_told(self):
        for error in ("ENOSPC", "EDQUOT"):
            cache = os.path.join(self.dir, error)
            says = self.bad(says="could not be kept", status=3, cache=cache,
                            env=self.failing("/artifacts/", "write:%s:0" % error))
            self.assertRegex(says, "No space left|quota")
            left = os.path.join(cache, "v1/artifacts/sha256")
            self.assertEqual(os.listdir(left) if os.path.isdir(left) else [], [])

    @unittest.skipIf(os.geteuid() != 0, "only root may mount")
    def test_a_disk_that_is_full_in_earnest(self):
        os.mkdir(self.cache)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", self.cache],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("mounting is not allowed here: " + mounted.stderr.decode().strip())
        self.addCleanup(subprocess.run, ["umount", self.cache], check=False)
        self.bad(says="No space left", status=3)

    def test_a_home_that_is_not_there(self):
        env = {"HOME": "/nonexistent/home", "XDG_CACHE_HOME": "", "CUBINARY_CACHE": ""}
        done = subprocess.run([FETCH, self.layout, "--key", self.key + ".pub"], capture_output=True, text=True,
                              env={**os.environ, **env}, check=False,
                              preexec_fn=(lambda: os.setuid(12345)) if os.geteuid() == 0 else None)
        self.assertIn(done.returncode, (1, 3), done.stdout)
        self.assertRegex(done.stderr, "cache folder|cannot read")


class Ways(Base):
    def test_a_name_that_nobody_knows(self):
        self.bad(says="no address is known for this host", source="http://no-such-host.invalid")

    def test_ipv6(self):
        try:
            probe = socket.socket(socket.AF_INET6)
            probe.bind(("::1", 0))
            probe.close()
        except OSError as error:
            self.skipTest("no IPv6 here: %s" % error)
        server = self.serve()
        listener = socket.socket(socket.AF_INET6)
        self.addCleanup(listener.close)
        listener.bind(("::1", 0))
        listener.listen(32)
        threading.Thread(target=self.forward, args=(listener, server), daemon=True).start()
        self.good(source="http://[::1]:%d" % listener.getsockname()[1])
        self.assertTrue(server.requests)

    @staticmethod
    def forward(listener, server):
        """Bytes from here to the server and back."""

        def pump(source, target):
            try:
                while data := source.recv(65536):
                    target.sendall(data)
            except OSError:
                pass
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(server.server.server_address)
            for pair in ((near, far), (far, near)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    def tls(self, days, name="localhost", before=()):
        """A server behind TLS, and the file of its own certificate."""
        certificate, key = os.path.join(self.dir, "tls.pem"), os.path.join(self.dir, "tls.key")
        command = [*before, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                   "-keyout", key, "-out", certificate, "-subj", "/CN=" + name,
                   "-addext", "subjectAltName=DNS:" + name, "-days", str(days)]
        subprocess.run(command, check=True, capture_output=True)
        server = self.serve()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
        return "https://localhost:%d" % server.server.server_address[1], certificate

    def test_tls(self):
        url, certificate = self.tls(2)
        self.good(source=url, env={"SSL_CERT_FILE": certificate})
        self.bad(says="not trusted", source=url, cache=self.cache + "2", env={"SSL_CERT_FILE": ""})

    def test_certificates_are_read_once(self):
        """Not for each of several connections at once, nor the system's besides."""
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        url, certificate = self.tls(2)
        log = os.path.join(self.dir, "strace")
        self.good("--parallel", "4", source=url, env={"SSL_CERT_FILE": certificate},
                  prefix=("strace", "-f", "-qq", "-e", "trace=openat,connect", "-o", log))
        with open(log, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertGreater(sum("sa_family=AF_INET" in line for line in lines), 1, "one connection shows nothing")
        opened = [line for line in lines if "openat" in line and ("/certs" in line or ".pem" in line)]
        self.assertEqual(sum(certificate in line for line in opened), 1, opened)
        self.assertEqual(len(opened), 1, opened)

    def test_a_certificate_that_expired(self):
        if shutil.which("faketime") is None:
            self.skipTest("faketime is not installed")
        url, certificate = self.tls(2, before=("faketime", "2020-01-01"))
        self.bad(says="not trusted", source=url, env={"SSL_CERT_FILE": certificate})

    def test_a_certificate_for_another_host(self):
        url, certificate = self.tls(2, name="elsewhere.example")
        self.bad(says="another host", source=url, env={"SSL_CERT_FILE": certificate})

    def test_a_clock_that_is_wrong(self):
        if shutil.which("faketime") is None:
            self.skipTest("faketime is not installed")
        self.make("name=v2", "serial=2", "expires=2000000000", "note=two")
        self.good(source=self.layout + ":v2")
        self.bad(says="expired on 2033-05-18", source=self.layout + ":v2",
                 prefix=("faketime", "2040-01-01"), cache=self.cache + "2")


class Revoked(Base):
    def test_a_release_that_was_revoked(self):
        server = self.serve()
        self.good(source=server.url)
        self.make("serial=1", "revoke=" + self.index)
        says = self.bad(says="is revoked", source=server.url)
        self.assertIn("as a test asked", says)
        # The cache knows too: without the network, and when the list is taken away again.
        server.faults = [Fault("cubinary-revocations", "status", 99, status=404)]
        self.bad(says="is revoked", source=server.url)
        server.close()
        self.bad("--offline", says="is revoked", source=server.url)

    def test_code_that_was_revoked_is_left_out(self):
        report = self.good()
        victim = report["artifacts"][0]
        self.make("serial=1", "revoke=" + victim["artifact"])
        cache = self.cache + "2"
        done = self.fetch(cache=cache)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("revoked code", done.stderr)
        left = [a["artifact"] for a in json.loads(done.stdout)["artifacts"]]
        self.assertEqual(len(left), 9)
        self.assertNotIn(victim["artifact"], left)
        name = victim["artifact"].removeprefix("sha256:")
        self.assertFalse(os.path.exists(os.path.join(cache, "v1/artifacts/sha256", name)))

    def test_a_lock_file_pins_and_does_not_protect_what_was_revoked(self):
        lock = os.path.join(self.dir, "lock")
        self.make("name=v1", "serial=1", "channel=prod")
        prod = self.layout + ":prod"
        self.assertEqual(self.good("--lock", lock, source=prod)["release"], "v1")
        self.make("name=v2", "serial=2", "channel=prod", "note=two")
        self.assertEqual(self.good("--lock", lock, source=prod)["release"], "v1")
        self.assertEqual(self.good(source=prod)["release"], "v2")
        self.assertEqual(self.good("--lock", lock, source=prod)["release"], "v1")
        self.make("serial=1", "revoke=" + self.index)
        self.bad("--lock", lock, says="is revoked", source=prod)
        with open(lock, "w", encoding="utf-8") as file:
            file.write("{}")
        self.bad("--lock", lock, says="lock file", source=prod)


class Flips(Base):
    """One bit, anywhere: what comes out is right or nothing does."""

    def test_at_rest(self):
        self.good()
        rng = random.Random(7)
        files = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(self.cache, "v1"))
                 for name in names if "/lock" not in folder and "/records" not in folder]
        noticed = 0
        for _ in range(FLIPS // 20):
            path = rng.choice(files)
            self.flip(path, rng, 20)
            done = self.fetch("--offline")
            if done.returncode == 0:  # a document is read again from the layout, which is well
                noticed += "damaged" in done.stderr
            self.check(self.cache)
            self.good()
        self.assertGreater(noticed, 0)

    def test_in_the_source(self):
        rng = random.Random(8)
        blobs = os.path.join(self.layout, "blobs", "sha256")
        whole = {name: self.read(os.path.join(blobs, name)) for name in sorted(os.listdir(blobs))}
        empty = hashlib.sha256(b"{}").hexdigest()
        for round_number in range(FLIPS // 4):
            name = rng.choice([name for name in whole if name != empty])
            path = os.path.join(blobs, name)
            self.flip(path, rng, 1)
            cache = os.path.join(self.dir, "c%d" % round_number)
            done = self.fetch(cache=cache)
            self.assertNotEqual(done.returncode, 0, name)
            self.check(cache)
            shutil.rmtree(cache, ignore_errors=True)
            with open(path, "wb") as file:
                file.write(whole[name])

    def test_in_flight(self):
        server = self.serve()
        server.flip = (random.Random(9), 0.5)
        whole, refused = [], []

        def fetch(number):
            cache = os.path.join(self.dir, "flight%d" % number)
            done = self.fetch(source=server.url, cache=cache)
            self.check(cache)
            if done.returncode == 0:  # what was wrong was asked for again
                self.assertEqual(len(json.loads(done.stdout)["artifacts"]), 10)
                self.assertEqual(len(os.listdir(os.path.join(cache, "v1/artifacts/sha256"))), 10)
            else:
                self.assertEqual(done.stdout, "")
            (refused if done.returncode else whole).append(number)
            shutil.rmtree(cache, ignore_errors=True)

        # Side by side: most of a fetch's time is waiting before it tries again.
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for first in itertools.count(step=8):
                list(pool.map(fetch, range(first, first + 8)))
                if server.flipped >= FLIPS:
                    break
                server.flip = (server.flip[0], (0.5, 0.1)[len(whole) == 0])
        print("%d bits flipped in flight: %d fetches were whole all the same, %d refused"
              % (server.flipped, len(whole), len(refused)))
        self.assertGreater(len(whole), 0)
        self.assertGreater(len(refused), 0)

    @staticmethod
    def read(path):
        with open(path, "rb") as file:
            return file.read()

    @staticmethod
    def flip(path, rng, bits):
        with open(path, "r+b") as file:
            data = bytearray(file.read())
            for _ in range(bits):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            file.seek(0)
            file.write(data)

    def check(self, cache):
        folder = os.path.join(cache, "v1/artifacts/sha256")
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            self.assertEqual(hashlib.sha256(self.read(os.path.join(folder, name))).hexdigest(), name)


if __name__ == "__main__":
    harness.need_tools("openssl")
    harness.main()
