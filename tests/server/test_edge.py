# SPDX-License-Identifier: Apache-2.0
"""docker/nginx.conf before the server, with the real nginx: TLS, tokens, one fetch an object, ranges, limits,
and an origin that goes away."""

import http.client
import re
import ssl
import sys
import threading
import time

import harness
import serving

harness.need_tools("nginx", "openssl")
sys.path.insert(0, str(harness.SOURCE / "bench"))
import fleet  # noqa: E402


class Edge(serving.Case):
    store_arguments = ("--blobs", 1, 3_000_000)

    def edge(self, *changes):
        self.serve("--behind-proxy")
        self.edge_port = harness.free_port()
        # nginx workers run as another user: the folder of the test is for its owner alone.
        self.tmp.chmod(0o755)
        process, self.context = fleet.start_edge(self.tmp, self.port, self.edge_port, changes)
        self.addCleanup(lambda: (process.terminate(), process.wait(30)))
        self.eventually(lambda: self.try_connect())
        self.bearer = {"Authorization": "Bearer " + self.told["token"]}

    def try_connect(self):
        try:
            return self.pull("/livez").status == 200
        except OSError:
            return False

    def pull(self, path, method="GET", body=None, connection=None, **headers):
        connection = connection or http.client.HTTPSConnection("127.0.0.1", self.edge_port, timeout=60,
                                                               context=self.context)
        return self.ask(path, method=method, body=body, connection=connection, **headers)

    def origin(self, pattern):
        text = self.ask("/metrics", **self.bearer).body.decode()
        return sum(float(value) for value in re.findall(pattern + r"\S* (\S+)", text))

    def test_pulls(self):
        self.edge()
        pack = self.told["blobs"][0]
        path = f"/v2/cubinary/blobs/{pack}"
        self.assertEqual(self.pull(path).status, 401)
        self.assertIn("Basic", self.pull(path).headers["www-authenticate"])
        self.assertEqual(self.pull(path, Authorization="Bearer wrong").status, 401)
        self.assertEqual(self.pull(path, Authorization="Bearer " + self.told["tune_token"]).status, 403)
        answers = []

        def fetch():
            answers.append(self.pull(path, **self.bearer))

        threads = [threading.Thread(target=fetch) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({(answer.status, len(answer.body)) for answer in answers}, {(200, 3_000_000)})
        # One fetch an object, whatever number asked at once; who may not read does not see what others got.
        self.assertEqual(self.origin(r'http_requests_total\{route="blob",status="200"'), 1)
        self.assertEqual(self.pull(path).status, 401)
        part = self.pull(path, Range="bytes=1000-1999", **self.bearer)
        self.assertEqual((part.status, part.body), (206, answers[0].body[1000:2000]))
        etag = answers[0].headers["etag"]
        self.assertEqual(self.pull(path, If_None_Match=etag, **self.bearer).status, 304)
        self.assertEqual(self.origin(r'http_requests_total\{route="blob",status="200"'), 1)
        index = self.pull("/v2/cubinary/manifests/prod", **self.bearer)
        self.assertEqual(index.headers["docker-content-digest"], self.told["r1"]["index"])
        self.assertEqual(self.pull("/v2/cubinary/manifests/none", **self.bearer).status, 404)
        self.assertEqual(self.pull("/metrics", **self.bearer).status, 403)
        self.assertEqual(self.pull("/v2/cubinary/manifests/x", method="PUT", body=b"x", **self.bearer).status, 403)

        # The API goes through: a query, and a change with a body.
        told = self.pull("/api/v1/resolve?kernel=scale&types=T:f16&shape=n:8&device=sm90-s132-l50M-b5120-m80G",
                         **self.bearer)
        self.assertEqual(told.json()["release"], "r2")
        moved = self.pull("/api/v1/channels/stable", method="PUT", body=b'{"release":"r2"}',
                          Content_Type="application/json", Authorization="Bearer " + self.told["publish_token"])
        self.assertEqual(moved.status, 200, moved)
        log = (self.tmp / "access.log").read_text
        self.eventually(lambda: '"forwarded_for":"127.0.0.1"' in log())

        # Away, what is here is still served to who was let in.
        self.server.stop()
        self.assertEqual(len(self.pull(path, **self.bearer).body), 3_000_000)
        self.assertEqual(self.pull("/api/v1/releases", **self.bearer).status, 502)

    def test_tls_versions_and_limits(self):
        self.edge(("limit_conn peers 512", "limit_conn peers 20"))
        old = ssl.create_default_context(cafile=self.tmp / "tls.crt")
        old.check_hostname = False
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, ConnectionResetError)):
            http.client.HTTPSConnection("127.0.0.1", self.edge_port, timeout=60, context=old).connect()
        # A connection counts from its first request on.
        kept = [http.client.HTTPSConnection("127.0.0.1", self.edge_port, timeout=60, context=self.context)
                for _ in range(30)]
        statuses = []

        def hold(connection):
            statuses.append(self.pull("/v2/cubinary/blobs/" + self.told["blobs"][0], connection=connection,
                                      **self.bearer).status)

        threads = [threading.Thread(target=hold, args=(connection,)) for connection in kept]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(set(statuses) <= {200, 429}, statuses)
        time.sleep(0.1)
        self.assertEqual(self.pull("/livez").status, 200)
        big = self.pull("/api/v1/candidates", method="POST", body=b"x" * (65 << 20), **self.bearer)
        self.assertEqual(big.status, 413)


if __name__ == "__main__":
    harness.main()
