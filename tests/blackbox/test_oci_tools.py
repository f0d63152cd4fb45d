# SPDX-License-Identifier: Apache-2.0
"""Other people's tools carry releases: skopeo copies them, Debian's docker-registry keeps them, and what
arrives is byte for byte what was signed."""

import base64
import hashlib
import http.server
import json
import os
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import harness
import made_up

MANIFEST_TYPES = ", ".join(["application/vnd.oci.image.index.v1+json",
                            "application/vnd.oci.image.manifest.v1+json"])


class Registry:
    """Debian's docker-registry on loopback, its data in a folder of the test's."""

    def __init__(self, case, auth=""):
        folder = case.tmp / f"registry-{len(list(case.tmp.glob('registry-*')))}"
        folder.mkdir()
        config = folder / "config.yml"
        config.write_text(f"version: 0.1\nlog:\n  level: info\nstorage:\n  filesystem:\n"
                          f"    rootdirectory: {folder / 'data'}\nhttp:\n  addr: 127.0.0.1:0\n" + auth)
        # Its own settings may come from OTEL_ and REGISTRY_ variables: none of ours may reach it.
        env = {key: value for key, value in os.environ.items() if not key.startswith("REGISTRY_")}
        self.process = case.background(harness.find_tool("docker-registry"), "serve", config, env=env)
        self.address = self.process.line(r"listening on (127\.0\.0\.1:\d+)")[1]

    def reference(self, tag, repository="team/kernels"):
        return f"docker://{self.address}/{repository}:{tag}"

    def source(self, tag="", repository="team/kernels"):
        return f"http://{self.address}/{repository}" + (f":{tag}" if tag else "")

    def digest(self, tag, repository="team/kernels"):
        """The digest of the very bytes the registry serves under a tag."""
        request = urllib.request.Request(f"http://{self.address}/v2/{repository}/manifests/{tag}",
                                         headers={"Accept": MANIFEST_TYPES})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return "sha256:" + hashlib.sha256(answer.read()).hexdigest()


class Case(made_up.Case):
    def setUp(self):
        super().setUp()
        self.store = self.make_store()
        self.key, self.public = self.make_key()
        created = self.make_release(self.store, key=self.key)
        self.index = created["index"]
        self.signature_tag = "sha256-" + self.index.split(":")[1]
        self.registry = Registry(self)

    def skopeo(self, source, destination, *options, **run_options):
        return self.run_program("skopeo", "--insecure-policy", "copy", "--src-tls-verify=false",
                                "--dest-tls-verify=false", *options, source, destination, **run_options)

    def copy_release(self, source_of, destination_of):
        """Both copies of the documented way: the release, then its signature."""
        for tag in ("r1", self.signature_tag):
            self.skopeo(source_of(tag), destination_of(tag), "--all", "--preserve-digests")

    def verify(self, source, **options):
        return self.cubinary("verify", source, "--key", self.public, **options)


class FromALayout(Case):
    def setUp(self):
        super().setUp()
        self.exported = self.export(self.store)
        self.layout = self.tmp / "layout"

    def from_layout(self, tag):
        return f"oci:{self.layout}:{tag}"

    def test_to_a_registry_and_back(self):
        self.copy_release(self.from_layout, self.registry.reference)
        self.assertEqual(self.registry.digest("r1"), self.index)
        signature = [d for d in json.loads((self.layout / "index.json").read_text())["manifests"]
                     if d["annotations"]["org.opencontainers.image.ref.name"] == self.signature_tag]
        self.assertEqual(self.registry.digest(self.signature_tag), signature[0]["digest"])
        self.verify(self.registry.source("r1"))
        self.verify(self.registry.source())

        # And back into a layout, by skopeo alone: the same tree of blobs.
        back = self.tmp / "back"
        self.copy_release(self.registry.reference, lambda tag: f"oci:{back}:{tag}")
        names = sorted(path.name for path in (self.layout / "blobs" / "sha256").iterdir())
        self.assertEqual(sorted(path.name for path in (back / "blobs" / "sha256").iterdir()), names)
        self.verify(f"{back}:r1")

    def test_an_export_adds_to_a_layout_of_skopeo(self):
        shared = self.tmp / "shared"
        self.copy_release(self.from_layout, lambda tag: f"oci:{shared}:{tag}")
        self.make_release(self.store, "r2", key=self.key)
        second = self.export(self.store, "r2", shared)
        self.assertLess(second["blobs_written"], second["blobs"])
        tags = [d["annotations"]["org.opencontainers.image.ref.name"]
                for d in json.loads((shared / "index.json").read_text())["manifests"]]
        self.assertEqual(len(tags), 4)
        self.verify(f"{shared}:r1")
        self.verify(f"{shared}:r2")
        self.skopeo(f"oci:{shared}:r2", self.registry.reference("r2"), "--all", "--preserve-digests")
        self.assertEqual(self.registry.digest("r2"), second["index"])

    def test_a_release_without_its_signature(self):
        self.skopeo(self.from_layout("r1"), self.registry.reference("r1"), "--all", "--preserve-digests")
        self.assertEqual(self.registry.digest("r1"), self.index)
        self.refused("verify", self.registry.source("r1"), "--key", self.public, status=1,
                     says=["sign", self.signature_tag[:12]])

    def test_a_copy_without_all_is_one_clear_sentence(self):
        # Without --all skopeo takes this machine's platform, of which our index knows nothing: some
        # versions refuse, others copy one target's manifest. Only the second leaves something to verify,
        # so it is also made by hand.
        target = json.loads((self.layout / "blobs" / "sha256" / self.index.split(":")[1]).read_text())
        digest = target["manifests"][0]["digest"]
        single = self.tmp / "single"
        self.copy_release(self.from_layout, lambda tag: f"oci:{single}:{tag}")
        index = json.loads((single / "index.json").read_text())
        for descriptor in index["manifests"]:
            if descriptor["annotations"]["org.opencontainers.image.ref.name"] == "r1":
                descriptor["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
                descriptor["digest"] = digest
                descriptor["size"] = target["manifests"][0]["size"]
        (single / "index.json").write_text(json.dumps(index))
        self.skopeo(f"oci:{single}:r1", self.registry.reference("r1"), "--preserve-digests")
        self.assertEqual(self.registry.digest("r1"), digest)
        for source in (self.registry.source("r1"), f"{single}:r1"):
            self.refused("verify", source, "--key", self.public, status=1,
                         says=["one target's manifest, not a release", "--all"])

    def test_a_wrong_key(self):
        self.copy_release(self.from_layout, self.registry.reference)
        _, other = self.make_key("other.key")
        self.refused("verify", self.registry.source("r1"), "--key", other, status=1, says="key")


class TokenService(http.server.BaseHTTPRequestHandler):
    """What a Bearer challenge sends clients to: gives whoever shows the password a signed token for what they
    ask. Class attributes: password, key, certificate (files), asked (scopes)."""

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        basic = self.headers.get("Authorization", "")
        if basic != "Basic " + base64.b64encode(self.password.encode()).decode():
            self.send_error(401)
            return
        self.asked.append(query["scope"][0])
        kind, name, actions = query["scope"][0].split(":")
        now = int(time.time())
        claims = {"iss": "test", "sub": "", "aud": query["service"][0], "exp": now + 300, "nbf": now - 60, "iat": now,
                  "jti": "1", "access": [{"type": kind, "name": name, "actions": actions.split(",")}]}
        der = subprocess.run(["openssl", "x509", "-in", self.certificate, "-outform", "DER"], check=True,
                             capture_output=True).stdout
        head = {"typ": "JWT", "alg": "ES256", "x5c": [base64.b64encode(der).decode()]}
        text = ".".join(self.encode(json.dumps(part).encode()) for part in (head, claims))
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=text.encode(), check=True,
                                   capture_output=True).stdout
        body = json.dumps({"token": text + "." + self.encode(self.raw(signature))}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @staticmethod
    def encode(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    @staticmethod
    def raw(der):
        """The two numbers of an ECDSA signature in 32 bytes each, out of their DER sequence."""
        first = der[4:4 + der[3]]
        second = der[6 + der[3]:]
        return b"".join(int.from_bytes(one, "big").to_bytes(32, "big") for one in (first, second))

    def log_message(self, *_):
        pass


class WhoMayPull(Case):
    """Registries that ask who pulls: by password, and by a token of a service of their own."""

    PASSWORD = "puller:s3cret-of-the-test"
    # The same password, as htpasswd -B writes it.
    HTPASSWD = "puller:$2b$04$2Q.wKkJmJi4tWEF0yVm2TO/RkEA8VwoIMsrVcZW9WMKPh/WIl0qdO\n"

    def setUp(self):
        super().setUp()
        self.export(self.store)

    def check(self, registry, refused_says):
        for tag in ("r1", self.signature_tag):
            self.skopeo(f"oci:{self.tmp / 'layout'}:{tag}", registry.reference(tag), "--all", "--preserve-digests",
                        "--dest-creds", self.PASSWORD)
        fetch = ("fetch", registry.source("r1"), "--key", self.public, "--cache", self.tmp / "cache", "--target",
                 "sm_90")
        self.cubinary(*fetch, env={"CUBINARY_TOKEN": self.PASSWORD})
        self.cubinary(*fetch, "--offline")
        for token in ({}, {"CUBINARY_TOKEN": "puller:wrong"}, {"CUBINARY_TOKEN": "no-password"}):
            refused = self.cubinary("fetch", registry.source("r1"), "--key", self.public, "--cache",
                                    self.tmp / "empty", status=None, env=token)
            self.assertNotEqual(refused.status, 0, token)
            self.assertRegex(refused.stderr, refused_says)
            self.assertNotIn("s3cret", refused.stderr)

    def test_by_password(self):
        users = self.tmp / "users"
        users.write_text(self.HTPASSWD)
        registry = Registry(self, f"auth:\n  htpasswd:\n    realm: here\n    path: {users}\n")
        self.check(registry, "401|token|password")

    def test_by_a_token_of_another_service(self):
        harness.need_tools("openssl")
        key, certificate = self.tmp / "token.key", self.tmp / "token.crt"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=test"], check=True,
                       capture_output=True)
        handler = type("Service", (TokenService,), {"password": self.PASSWORD, "key": key, "asked": [],
                                                    "certificate": certificate})
        service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        self.addCleanup(lambda: (service.shutdown(), thread.join(), service.server_close()))
        registry = Registry(self, "auth:\n  token:\n"
                                  f"    realm: http://127.0.0.1:{service.server_address[1]}/token\n"
                                  "    service: kernels\n    issuer: test\n"
                                  f"    rootcertbundle: {certificate}\n")
        self.check(registry, "401|token|password")
        self.assertIn("repository:team/kernels:pull", handler.asked)


class FromTheServer(Case):
    def setUp(self):
        super().setUp()
        server = self.background(harness.binary(), "serve", "--store", self.store, "--listen", "127.0.0.1:0")
        self.address = server.line(r"http://(127\.0\.0\.1:\d+)")[1]

    def from_server(self, tag):
        return f"docker://{self.address}/cubinary:{tag}"

    def test_to_a_registry(self):
        self.copy_release(self.from_server, self.registry.reference)
        self.assertEqual(self.registry.digest("r1"), self.index)
        self.verify(self.registry.source("r1"))
        self.verify(f"http://{self.address}/cubinary:r1")

    def test_to_a_layout(self):
        layout = self.tmp / "pulled"
        self.copy_release(self.from_server, lambda tag: f"oci:{layout}:{tag}")
        self.verify(f"{layout}:r1")
        exported = self.tmp / "exported"
        self.export(self.store, directory=exported)
        self.assertEqual(sorted(path.name for path in (layout / "blobs" / "sha256").iterdir()),
                         sorted(path.name for path in (exported / "blobs" / "sha256").iterdir()))


if __name__ == "__main__":
    harness.need_tools("skopeo", "docker-registry")
    harness.main()
