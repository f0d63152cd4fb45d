# SPDX-License-Identifier: Apache-2.0
"""Who may ask: tokens, loopback, proxies, TLS, host names."""

import base64
import http.client
import socket
import ssl
import subprocess

import harness
import serving

GUARDED = ["/v2/", "/v2/cubinary/manifests/r1", "/v2/cubinary/tags/list", "/api/v1/resolve?kernel=x",
           "/metrics", "/nothing/here"]
OPEN = ["/livez", "/readyz"]


class Tokens(serving.Case):
    def test_behind_a_proxy_everybody_needs_a_token(self):
        self.serve("--behind-proxy")
        for path in OPEN:
            self.assertEqual(self.ask(path).status, 200)
        for path in GUARDED:
            for method in ["GET", "HEAD", "PUT"]:
                answer = self.ask(path, method=method)
                self.assertEqual(answer.status, 401, (method, path))
                self.assertEqual(answer.headers["www-authenticate"],
                                 'Basic realm="cubinary", charset="UTF-8"')
        bearer = {"Authorization": "Bearer " + self.told["token"]}
        self.assertEqual(self.ask("/v2/", **bearer).status, 200)
        self.assertEqual(self.ask("/metrics", **bearer).status, 200)
        self.assertEqual(self.ask("/nothing/here", **bearer).status, 404)
        pair = base64.b64encode(f"anyone:{self.told['token']}".encode()).decode()
        self.assertEqual(self.ask("/v2/cubinary/manifests/r1", Authorization=f"Basic {pair}").status, 200)

    def test_bad_tokens(self):
        self.serve("--behind-proxy")
        token = self.told["token"]
        for text in ["Bearer x", f"Bearer {token}x", f"Bearer {token[:-1]}", f"Digest {token}", token,
                     "Bearer", "Basic !!!", "Bearer " + self.told["expired_token"],
                     "Basic " + base64.b64encode(token.encode()).decode()]:
            self.assertEqual(self.ask("/v2/", Authorization=text).status, 401, text)
        answer = self.ask("/v2/", Authorization="Bearer " + self.told["tune_token"])
        self.assertEqual((answer.status, answer.code()), (403, "DENIED"))
        self.assertIn('"read"', answer.message())

    def test_loopback_reads_freely_but_a_sent_token_counts(self):
        self.serve()
        self.assertEqual(self.ask("/v2/").status, 200)
        self.assertEqual(self.ask("/v2/", Authorization="Bearer wrong").status, 401)
        self.assertEqual(self.ask("/v2/", Authorization="Bearer " + self.told["token"]).status, 200)

    def test_the_log_names_the_token_and_keeps_its_secret(self):
        self.serve("--behind-proxy")
        self.ask("/v2/", Authorization="Bearer " + self.told["token"], X_Forwarded_For="192.0.2.7")
        self.eventually(lambda: "192.0.2.7" in (self.tmp / "access.log").read_text())
        log = (self.tmp / "access.log").read_text()
        self.assertNotIn(self.told["token"], log)
        self.assertIn(f'"token":"{self.told["token"].split("_")[1]}"', log)
        self.assertIn('"forwarded_for":"192.0.2.7"', log)


class Listening(serving.Case):
    def test_other_addresses_need_tls_or_a_proxy(self):
        for address in ["0.0.0.0:0", "[::]:0"]:
            self.refused("serve", "--store", self.store, "--listen", address, status=2,
                         says=["refusing to listen", "--tls-cert", "--behind-proxy"])
        self.refused("serve", "--store", self.store, "--tls-cert", "x", status=2, says="--tls-key")
        self.refused("serve", "--store", self.store, "--tls-cert", self.tmp / "no.pem", "--tls-key",
                     self.tmp / "no.key", status=2, says="no.pem")
        self.serve("--listen", "0.0.0.0:0", "--behind-proxy")
        self.assertEqual(self.ask("/v2/").status, 401)

    def test_host_names(self):
        self.serve("--host", "Build.Example")
        for host in ["localhost", "localhost:1", "127.0.0.1", "[::1]:8421", "10.1.2.3",
                     "build.example:8421", "BUILD.example."]:
            self.assertEqual(self.ask("/v2/", Host=host).status, 200, host)
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example"]:
            answer = self.ask("/v2/", Host=host)
            self.assertEqual(answer.status, 421, host)
            self.assertIn("--host", answer.message())
        self.assertEqual(self.ask("/livez", Host="evil.example").status, 200)


class Tls(serving.Case):
    def setUp(self):
        super().setUp()
        harness.need_tools("openssl")
        self.certificate, self.key = self.tmp / "cert.pem", self.tmp / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.key, "-out",
                        self.certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)

    def context(self):
        return ssl.create_default_context(cafile=self.certificate)

    def connection(self):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60,
                                                 context=self.context())
        self.addCleanup(connection.close)
        return connection

    def test_pulls(self):
        self.serve("--tls-cert", self.certificate, "--tls-key", self.key)
        connection = self.connection()
        for _ in range(3):
            self.assertEqual(self.ask("/v2/", connection=connection).status, 200)
            pack = self.ask(f"/v2/cubinary/blobs/{self.told['r1']['packs'][0]}", connection=connection)
            self.assertEqual(len(pack.body), 100_000)
        self.assertEqual(self.ask("/v2/cubinary/manifests/none", connection=connection).status, 404)

    def test_pipelined_requests_in_one_record(self):
        self.serve("--tls-cert", self.certificate, "--tls-key", self.key)
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as plain:
            with self.context().wrap_socket(plain, server_hostname="localhost") as peer:
                one = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
                peer.sendall(one * 400)
                received = b""
                while received.count(b"HTTP/1.1 200 OK") < 400:
                    piece = peer.recv(65536)
                    self.assertTrue(piece, received[-200:])
                    received += piece

    def test_versions(self):
        self.serve("--tls-cert", self.certificate, "--tls-key", self.key)
        for version, accepted in [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
                                  (ssl.TLSVersion.TLSv1_3, True)]:
            context = self.context()
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = version
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as plain:
                try:
                    with context.wrap_socket(plain, server_hostname="localhost") as peer:
                        got = peer.version()
                except ssl.SSLError:
                    got = None
            self.assertEqual(got is not None, accepted, version)

    def test_plain_text_and_silence_harm_nobody(self):
        self.serve("--tls-cert", self.certificate, "--tls-key", self.key)
        silent = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(100)]
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            plain.settimeout(60)
            try:
                self.assertNotIn(b"200", plain.recv(4096))
            except ConnectionResetError:
                pass
        self.check_healthy()
        for one in silent:
            one.close()

    def test_key_of_another_certificate(self):
        other = self.tmp / "other.pem"
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", other],
                       check=True, capture_output=True)
        self.refused("serve", "--store", self.store, "--tls-cert", self.certificate, "--tls-key", other,
                     status=2, says="other.pem")


if __name__ == "__main__":
    harness.main()
