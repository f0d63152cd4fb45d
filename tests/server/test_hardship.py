# SPDX-License-Identifier: Apache-2.0
"""The API in bad times: a disk that fills, a server that is killed, clients that drip or vanish."""

import contextlib
import http.client
import os
import resource
import signal
import socket
import subprocess
import threading
import time

import harness
from test_api import ARTIFACTS, Api, batch, digest


class Hardship(Api):
    def limit_file_size(self, mib):
        """A server whose files cannot grow beyond so much: to it, the disk is full."""
        limit = mib << 20
        self.server = self.background(
            harness.binary("cubinary"), "serve", "--store", self.store, "--listen", "127.0.0.1:0",
            "--access-log", "none", preexec_fn=lambda: (
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))))
        self.port = int(self.server.line(r"^serving \S+ on http://127.0.0.1:(\d+)$").group(1))

    def test_a_disk_that_fills_during_an_upload(self):
        self.limit_file_size(4)
        noise = [os.urandom(1 << 20) for _ in range(8)]
        answer = None
        stored = []
        for one in noise:
            answer = self.as_("publish", "PUT", f"artifacts/{digest(one)}", body=one)
            if answer.status != 200:
                break
            stored.append(one)
        self.assertEqual((answer.status, answer.code()), (507, "disk_full"), answer)
        # Nothing of what failed is left, what was answered is there, and reading goes on.
        lost = noise[len(stored)]
        self.assertEqual(self.ask(f"/api/v1/artifacts/{digest(lost)}").status, 404)
        for one in stored:
            self.assertEqual(self.ask(f"/api/v1/artifacts/{digest(one)}").body, one)
        self.assertEqual(self.stats()["artifacts"], len(stored))
        self.check_healthy()
        self.server.stop()
        # With room again the same request succeeds.
        self.serve()
        self.good("publish", "PUT", f"artifacts/{digest(lost)}", body=lost)
        self.assertTrue(self.good("admin", "POST", "store/fsck")["sound"])

    def test_a_body_that_ends_with_a_turn_is_answered(self):
        # The server reads a body 16 KiB at a time and lets others have their turn in between: wherever the
        # end falls, the answer comes. The pause lets the loop, not the worker, read the body.
        self.serve()
        for kib in range(480, 561, 4):
            one = os.urandom(kib << 10)
            head = (f"PUT /api/v1/artifacts/{digest(one)} HTTP/1.1\r\nHost: localhost\r\n"
                    f"Authorization: Bearer {self.told['publish_token']}\r\nContent-Length: {len(one)}\r\n\r\n")
            with socket.create_connection(("127.0.0.1", self.port), timeout=8) as sock:
                sock.sendall(head.encode())
                time.sleep(0.02)
                sock.sendall(one)
                self.assertTrue(sock.recv(64).startswith(b"HTTP/1.1 200 "), f"{kib} KiB")

    def test_a_disk_that_is_full_in_earnest(self):
        # A small file system of its own: the database, its log and its helpers fill it together.
        if os.geteuid() != 0:
            self.skipTest("only root may mount")
        small = self.tmp / "small"
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "none", small], capture_output=True,
                                 text=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("mounting is not allowed here: " + mounted.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", small], check=False)
        whole = self.store
        self.store = small / "s.cubinary"
        self.cubinary("store", "backup", self.store, "--store", whole)
        self.serve()
        stored, lost, answer = [], None, None
        for _ in range(20):
            one = os.urandom(700_000)
            answer = self.as_("publish", "PUT", f"artifacts/{digest(one)}", body=one)
            if answer.status != 200:
                lost = one
                break
            stored.append(one)
        self.assertEqual((answer.status, answer.code()), (507, "disk_full"), answer)
        self.assertGreater(len(stored), 0)
        self.assertEqual(self.ask(f"/api/v1/artifacts/{digest(lost)}").status, 404)
        self.assertEqual(self.stats()["artifacts"], len(stored))
        for one in stored:
            self.assertEqual(self.ask(f"/api/v1/artifacts/{digest(one)}").body, one)
        self.check_healthy()
        self.assertEqual(self.server.stop(), 0)
        left = sorted(os.listdir(small))
        self.assertEqual([name for name in left if not name.startswith("s.cubinary")], [])
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True, capture_output=True)
        self.serve()
        self.good("publish", "PUT", f"artifacts/{digest(lost)}", body=lost)
        self.assertTrue(self.good("admin", "POST", "store/fsck")["sound"])
        self.assertEqual(self.stats()["artifacts"], len(stored) + 1)
        self.server.stop()

    def test_killed_while_publishing(self):
        acknowledged = {}
        for round_ in range(6):
            self.serve()
            stop = threading.Event()

            def publish(number, round_=round_, stop=stop):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                i = 0
                while not stop.is_set():
                    group = [os.urandom(3000 + i) for _ in range(3)]
                    body = batch(*group)
                    try:
                        connection.request("POST", "/api/v1/artifacts", body=body, headers={
                            "Authorization": f"Bearer {self.told['publish_token']}", "Content-Type": ARTIFACTS})
                        if connection.getresponse().read() == b'{"known":0,"stored":3}':
                            acknowledged.update((digest(one), len(one)) for one in group)
                    except (OSError, http.client.HTTPException):
                        return
                    i += 1

            threads = [threading.Thread(target=publish, args=(n,)) for n in range(3)]
            for thread in threads:
                thread.start()
            before = len(acknowledged)
            self.eventually(lambda before=before: len(acknowledged) > before)
            time.sleep(0.03 * round_)
            self.server.process.kill()
            self.server.process.wait()
            stop.set()
            for thread in threads:
                thread.join()
        self.serve()
        for name, size in acknowledged.items():
            self.assertEqual(len(self.ask(f"/api/v1/artifacts/{name}").body), size)
        # A batch is there whole or not at all.
        self.assertEqual(self.stats()["artifacts"] % 3, 0)
        self.assertTrue(self.good("admin", "POST", "store/fsck")["sound"])
        print(f"{len(acknowledged)} artifacts acknowledged over 6 kills, all there", flush=True)

    def test_uploads_that_drip_delay_nobody(self):
        self.serve("--workers", 4)
        head = (f"PUT /api/v1/artifacts/{digest(b'x')} HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {self.told['publish_token']}\r\nContent-Length: 500000\r\n\r\n").encode()
        peers = [socket.create_connection(("127.0.0.1", self.port), timeout=60) for _ in range(100)]
        for peer in peers:
            peer.sendall(head + b"y")
        for _ in range(20):
            self.assertEqual(self.ask("/v2/").status, 200)
            for peer in peers[:20]:
                peer.sendall(b"y")
        for peer in peers:
            peer.close()
        self.check_healthy()

    def test_bodies_in_memory_are_bounded(self):
        self.serve("--body-mib", 1)
        head = (f"PUT /api/v1/artifacts/{digest(b'x')} HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {self.told['publish_token']}\r\nContent-Length: 800000\r\n\r\n").encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as first:
            first.sendall(head[:-2] + b"Expect: 100-continue\r\n\r\n")
            self.assertTrue(first.recv(65536).startswith(b"HTTP/1.1 100 "))
            refused = self.raw(head)
            self.assertTrue(refused.startswith(b"HTTP/1.1 503 "), refused[:200])
            self.assertIn(b"Retry-After: 1\r\n", refused)
        self.eventually(lambda: self.as_("publish", "PUT", f"artifacts/{digest(b'x')}", body=b"x").status == 200)

    def test_a_client_gone_in_the_middle_of_an_upload(self):
        self.serve()
        data = os.urandom(400_000)
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as peer:
                peer.sendall((f"PUT /api/v1/artifacts/{digest(data)} HTTP/1.1\r\nHost: localhost\r\n"
                              f"Authorization: Bearer {self.told['publish_token']}\r\n"
                              f"Content-Length: {len(data)}\r\n\r\n").encode() + data[:200_000])
        self.assertEqual(self.stats()["artifacts"], 0)
        self.good("publish", "PUT", f"artifacts/{digest(data)}", body=data)
        self.assertEqual(self.ask(f"/api/v1/artifacts/{digest(data)}").body, data)

    def test_400_dripping_clients_and_a_healthy_one(self):
        self.serve("--workers", 8)
        pack = self.told["r1"]["packs"][0]
        connection = self.connection()

        def latency():
            times = []
            for _ in range(60):
                begin = time.perf_counter()
                self.assertEqual(self.ask(f"/v2/cubinary/blobs/{pack}", connection=connection).status, 200)
                times.append(time.perf_counter() - begin)
            return sorted(times)[len(times) // 2]

        alone = latency()
        peers = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(400)]
        stop = threading.Event()

        def drip():
            while not stop.wait(0.2):
                for peer in peers:
                    with contextlib.suppress(OSError):
                        peer.send(b"G")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            crowded = latency()
        finally:
            stop.set()
            thread.join()
            for peer in peers:
                peer.close()
        print(f"median ms of a healthy client: {alone * 1e3:.2f} alone, {crowded * 1e3:.2f} beside 400 that drip",
              flush=True)
        self.assertLess(crowded, 20 * alone)


if __name__ == "__main__":
    harness.main()
