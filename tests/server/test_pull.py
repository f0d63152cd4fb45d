# SPDX-License-Identifier: Apache-2.0
"""What the server answers: the pull half of the OCI distribution API, resolve, health, metrics, log."""

import hashlib
import json
import re

import harness
import serving

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
SIGNATURE = "application/vnd.cubinary.signature.v1"
IMMUTABLE = "max-age=31536000, immutable"
DEVICE = "sm90-s132-l50M-b5120-m80G"


def digest(body):
    return "sha256:" + hashlib.sha256(body).hexdigest()


class Registry(serving.Case):
    def setUp(self):
        super().setUp()
        self.serve()

    def test_base(self):
        for path in ["/v2/", "/v2"]:
            answer = self.ask(path)
            self.assertEqual((answer.status, answer.body), (200, b"{}"))
            self.assertEqual(answer.headers["docker-distribution-api-version"], "registry/2.0")

    def test_manifest_by_tag_channel_and_digest(self):
        index = self.told["r1"]["index"]
        for reference in ["r1", "prod", index, index.replace(":", "%3A")]:
            answer = self.ask(f"/v2/cubinary/manifests/{reference}")
            self.assertEqual(answer.status, 200, answer)
            self.assertEqual(digest(answer.body), index)
            self.assertEqual(answer.headers["content-type"], INDEX)
            self.assertEqual(answer.headers["docker-content-digest"], index)
            self.assertEqual(answer.headers["etag"], f'"{index}"')
            self.assertEqual(answer.headers["cache-control"],
                             IMMUTABLE if "sha256" in reference else "max-age=5")
        for manifest in self.told["r1"]["manifests"]:
            answer = self.ask(f"/v2/cubinary/manifests/{manifest}")
            self.assertEqual(answer.headers["content-type"], MANIFEST)
            self.assertEqual(digest(answer.body), manifest)
        tag = index.replace(":", "-")
        self.assertEqual(self.ask(f"/v2/cubinary/manifests/{tag}").headers["docker-content-digest"],
                         self.told["r1"]["signature"])

    def test_head_says_what_get_would(self):
        pack = self.told["r1"]["packs"][0]
        for path in ["/v2/", "/v2/cubinary/manifests/r1", f"/v2/cubinary/blobs/{pack}",
                     "/v2/cubinary/tags/list", "/v2/cubinary/manifests/none", "/livez"]:
            connection = self.connection()
            head = self.ask(path, method="HEAD", connection=connection)
            get = self.ask(path, connection=connection)
            self.assertEqual(head.status, get.status)
            self.assertEqual(head.body, b"")
            for name in ["content-length", "content-type", "etag", "docker-content-digest"]:
                self.assertEqual(head.headers.get(name), get.headers.get(name), (path, name))
            self.assertEqual(int(head.headers["content-length"]), len(get.body))

    def test_blob(self):
        pack = self.told["r1"]["packs"][0]
        for _ in range(2):
            answer = self.ask(f"/v2/cubinary/blobs/{pack}")
            self.assertEqual(answer.status, 200)
            self.assertEqual(len(answer.body), 100_000)
            self.assertEqual(digest(answer.body), pack)
            self.assertEqual(answer.headers["content-type"], "application/octet-stream")
            self.assertEqual(answer.headers["cache-control"], IMMUTABLE)
            self.assertEqual(answer.headers["docker-content-digest"], pack)
            self.assertEqual(answer.headers["accept-ranges"], "bytes")
        empty = digest(b"{}")
        self.assertEqual(self.ask(f"/v2/cubinary/blobs/{empty}").body, b"{}")

    def test_what_is_not_there_says_so_by_code(self):
        nothing = "sha256:" + "0" * 64
        for path, status, code in [
            (f"/v2/cubinary/blobs/{nothing}", 404, "BLOB_UNKNOWN"),
            ("/v2/cubinary/blobs/sha256:12", 400, "DIGEST_INVALID"),
            ("/v2/cubinary/blobs/" + "0" * 64, 400, "DIGEST_INVALID"),
            (f"/v2/cubinary/manifests/{nothing}", 404, "MANIFEST_UNKNOWN"),
            ("/v2/cubinary/manifests/sha256:12", 400, "DIGEST_INVALID"),
            ("/v2/cubinary/manifests/-x", 404, "MANIFEST_UNKNOWN"),
            (f"/v2/cubinary/manifests/{self.told['r1']['packs'][0]}", 404, "MANIFEST_UNKNOWN"),
            ("/v2/other/manifests/r1", 404, "NAME_UNKNOWN"),
            ("/v2/other/a/b/tags/list", 404, "NAME_UNKNOWN"),
            ("/v2/cubinary/referrers/x", 400, "DIGEST_INVALID"),
            ("/v2/cubinary/tags/list?n=x", 400, "PAGINATION_NUMBER_INVALID"),
            ("/v2/cubinary/tags/list?n=-1", 400, "PAGINATION_NUMBER_INVALID"),
            ("/v2/cubinary/tags/list?n=1&n=2", 400, "usage"),
            ("/v2/cubinary", 404, "not_found"),
        ]:
            answer = self.ask(path)
            self.assertEqual((answer.status, answer.code()), (status, code), path)
            self.assertEqual(answer.headers["content-type"], "application/json")
        self.assertIn('did you mean "r1"', self.ask("/v2/cubinary/manifests/r11").message())

    def test_a_hot_blob_is_answered_as_a_cold_one(self):
        # Once from the store, then from memory by a worker, then by the loop's short cut: the same answer.
        connection = self.connection()
        for path in [f"/v2/cubinary/blobs/{self.told['r1']['packs'][0]}", f"/api/v1/blobs/{self.told['r1']['packs'][0]}",
                     f"/v2/cubinary/manifests/{self.told['r1']['index']}"]:
            hits = self.metric("blob_cache_hits_total")
            answers = [self.ask(path, connection=connection) for _ in range(5)]
            for answer in answers:
                self.assertEqual(answer.status, 200)
                self.assertEqual(answer.body, answers[0].body)
                self.assertEqual({key: value for key, value in answer.headers.items() if key.lower() != "date"},
                                 {key: value for key, value in answers[0].headers.items() if key.lower() != "date"})
            self.assertGreaterEqual(self.metric("blob_cache_hits_total") - hits, 3)
            # The short cut is for plain requests alone.
            etag = answers[0].headers["etag"]
            self.assertEqual(self.ask(path, connection=connection, If_None_Match=etag).status, 304)
            part = self.ask(path, connection=connection, Range="bytes=3-9")
            self.assertEqual((part.status, part.body), (206, answers[0].body[3:10]))
            self.assertEqual(self.ask(path, method="HEAD", connection=connection).status, 200)
            self.assertEqual(self.ask(path, connection=connection, Authorization="Bearer wrong").status, 401)
            self.assertEqual(self.ask(path, connection=connection, Host="evil.example").status, 421)
        log = (self.tmp / "access.log").read_text
        self.eventually(lambda: log().count("/api/v1/blobs/") >= 10)

    def test_conditions(self):
        pack = self.told["r1"]["packs"][0]
        connection = self.connection()
        whole = self.ask(f"/v2/cubinary/blobs/{pack}", connection=connection)
        etag = whole.headers["etag"]
        unchanged = self.ask(f"/v2/cubinary/blobs/{pack}", connection=connection, If_None_Match=etag)
        self.assertEqual((unchanged.status, unchanged.body), (304, b""))
        self.assertEqual(unchanged.headers["etag"], etag)
        for method in ["GET", "HEAD"]:
            answer = self.ask("/v2/cubinary/manifests/prod", method=method, connection=connection,
                              If_None_Match=f'"{self.told["r1"]["index"]}"')
            self.assertEqual(answer.status, 304)
        self.assertEqual(self.ask("/v2/cubinary/manifests/r2", connection=connection,
                                  If_None_Match=f'"{self.told["r1"]["index"]}"').status, 200)

    def test_range(self):
        pack = self.told["r1"]["packs"][0]
        path = f"/v2/cubinary/blobs/{pack}"
        connection = self.connection()
        whole = self.ask(path, connection=connection).body
        for text, begin, end in [("0-0", 0, 1), ("10-99", 10, 100), ("99990-", 99_990, 100_000),
                                 ("-7", 99_993, 100_000), ("50000-999999", 50_000, 100_000)]:
            part = self.ask(path, connection=connection, Range=f"bytes={text}")
            self.assertEqual(part.status, 206, text)
            self.assertEqual(part.body, whole[begin:end])
            self.assertEqual(part.headers["content-range"], f"bytes {begin}-{end - 1}/100000")
            self.assertEqual(int(part.headers["content-length"]), end - begin)
        for text in ["bytes=100000-", "bytes=-0", "bytes=0-1,3-4",
                     "bytes=" + ",".join(f"{i}-{i}" for i in range(500))]:
            refused = self.ask(path, connection=connection, Range=text)
            self.assertEqual(refused.status, 416, text[:40])
            self.assertEqual(refused.headers["content-range"], "bytes */100000")
        for ignored in ["items=0-1", "bytes=5-2", "bytes=x"]:
            self.assertEqual(self.ask(path, connection=connection, Range=ignored).body, whole)
        self.assertEqual(self.ask(path, connection=connection, Range="bytes=0-1",
                                  If_Range='"old"').status, 200)
        part = self.ask("/v2/cubinary/manifests/r1", connection=connection, Range="bytes=0-1")
        self.assertEqual((part.status, part.body), (206, b'{"'))

    def test_tags_in_pages(self):
        names = sorted(["r1", "r2", "prod"] +
                       [self.told[r]["index"].replace(":", "-") for r in ["r1", "r2"]])
        answer = self.ask("/v2/cubinary/tags/list")
        self.assertEqual(answer.json(), {"name": "cubinary", "tags": names})
        self.assertNotIn("link", answer.headers)
        seen, path, pages = [], "/v2/cubinary/tags/list?n=2", 0
        while path:
            answer = self.ask(path)
            seen += answer.json()["tags"]
            pages += 1
            link = answer.headers.get("link")
            path = re.fullmatch(r'<([^>]+)>; rel="next"', link).group(1) if link else None
        self.assertEqual((seen, pages), (names, 3))
        self.assertEqual(self.ask("/v2/cubinary/tags/list?n=0").json()["tags"], [])
        self.assertEqual(self.ask("/v2/cubinary/tags/list?last=zzz").json()["tags"], [])

    def test_referrers(self):
        told = self.told["r1"]
        path = f"/v2/cubinary/referrers/{told['index']}"
        for query in ["", f"?artifactType={SIGNATURE}"]:
            answer = self.ask(path + query)
            self.assertEqual(answer.headers["content-type"], INDEX)
            (descriptor,) = answer.json()["manifests"]
            self.assertEqual(descriptor["digest"], told["signature"])
            self.assertEqual(descriptor["artifactType"], SIGNATURE)
            self.assertEqual(descriptor["mediaType"], MANIFEST)
            body = self.ask(f"/v2/cubinary/manifests/{told['signature']}").body
            self.assertEqual(descriptor["size"], len(body))
            self.assertEqual(answer.headers.get("oci-filters-applied"),
                             "artifactType" if query else None)
        self.assertEqual(self.ask(path + "?artifactType=other").json()["manifests"], [])
        self.assertEqual(self.ask("/v2/cubinary/referrers/sha256:" + "0" * 64).json()["manifests"], [])

    def test_only_reading(self):
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"]:
            answer = self.ask("/v2/cubinary/blobs/uploads/x" if method == "POST" else "/v2/",
                              method=method)
            self.assertIn(answer.status, (404, 405))
            if answer.status == 405:
                self.assertEqual((answer.code(), answer.headers["allow"]), ("UNSUPPORTED", "GET, HEAD"))
        self.assertEqual(self.ask("/v2/cubinary/manifests/r9", method="PUT").status, 405)

    def test_another_repository_name(self):
        self.serve("--repo", "team/kernels")
        self.assertEqual(self.ask("/v2/team/kernels/manifests/r1").status, 200)
        self.assertEqual(self.ask("/v2/team/kernels/tags/list?n=1").headers["link"],
                         f'</v2/team/kernels/tags/list?n=1&last='
                         f'{self.ask("/v2/team/kernels/tags/list").json()["tags"][0]}>; rel="next"')
        self.assertEqual(self.ask("/v2/cubinary/manifests/r1").code(), "NAME_UNKNOWN")

    def test_keeps_the_connection_after_errors_too(self):
        connection = self.connection()
        connection.connect()
        local = connection.sock.getsockname()
        for path, status in [("/v2/", 200), ("/v2/cubinary/manifests/none", 404), ("/x", 404),
                             ("/v2/", 200)]:
            self.assertEqual(self.ask(path, connection=connection).status, status)
            self.assertEqual(connection.sock.getsockname(), local)


class Resolve(serving.Case):
    def setUp(self):
        super().setUp()
        self.serve()

    def test_the_tuned_entry_where_it_fits(self):
        answer = self.resolve(kernel="scale", types="T:f32", shape="n:4096", device=DEVICE,
                              align="x:16,y:16", release="r1")
        self.assertEqual(answer.status, 200, answer)
        told = answer.json()
        self.assertEqual(told["match"], "exact")
        self.assertEqual(told["target"], "sm_90")
        self.assertEqual(told["release"], "r1")
        self.assertEqual(told["index"], self.told["r1"]["index"])
        self.assertEqual(told["entry"]["config"], {"VEC": 4, "WARPS": 4})
        self.assertEqual(told["entry"]["origin"], "tuned")
        self.assertEqual(told["entry"]["time_us"], 2.5)
        self.assertEqual(told["artifact"], {"digest": digest(b"f324"), "size": 100})
        self.assertEqual(told["pack"]["digest"], self.told["r1"]["packs"][0])
        self.assertEqual(told["pack"]["size"], 100_000)
        self.assertTrue(told["how"])

    def test_a_misaligned_pointer_gets_another_config(self):
        told = self.resolve(kernel="scale", types="T:f32", shape="n:4096", device=DEVICE,
                            release="r1").json()
        self.assertEqual(told["match"], "default")
        self.assertEqual(told["entry"]["config"]["VEC"], 1)
        self.assertEqual(told["artifact"]["digest"], digest(b"f321"))
        self.assertEqual(told["pack"]["offset"], 100)

    def test_channel_and_newest(self):
        parameters = dict(kernel="scale", types="T:f16", shape="n:8", device="sm120-s188-l128M-b512-m96G")
        self.assertEqual(self.resolve(**parameters, release="prod").json()["release"], "r1")
        told = self.resolve(**parameters).json()
        self.assertEqual((told["release"], told["serial"], told["target"]), ("r2", 2, "sm_120"))

    def test_refusals_name_the_cause(self):
        good = dict(kernel="scale", types="T:f32", shape="n:4096", device=DEVICE)
        for change, code, says in [
            (dict(kernel="scales"), "no_match", "scales"),
            (dict(release="r3"), "not_found", 'did you mean "r1"'),
            (dict(types="T:f64"), None, ""),
            (dict(types="U:f32"), None, "U"),
            (dict(shape="m:4096"), None, "m"),
            (dict(shape="n:-1"), "usage", "shape"),
            (dict(device="gpu"), "usage", "device"),
            (dict(device="sm75-s40-l4M-b256-m16G"), "no_match", ""),
            (dict(require="exact", shape="n:5000"), "no_match", ""),
            (dict(require="best"), "usage", "require"),
            (dict(colour="red"), "usage", "colour"),
        ]:
            answer = self.resolve(**{**good, **change})
            self.assertIn(answer.status, (400, 404), (change, answer))
            if code:
                self.assertEqual(answer.code(), code, change)
            self.assertIn(says, answer.message(), change)


class Watching(serving.Case):
    def test_health_metrics_and_log(self):
        self.serve()
        self.check_healthy()
        pack = self.told["r1"]["packs"][0]
        for _ in range(3):
            self.ask(f"/v2/cubinary/blobs/{pack}")
        self.ask("/v2/cubinary/manifests/none")
        for count, name in ((3, 'http_requests_total{route="blob",status="200"}'),
                            (1, 'http_requests_total{route="manifest",status="404"}'),
                            (1, "http_in_flight")):
            self.eventually(lambda name=name, count=count: self.metric(name) == count)
        self.assertEqual(self.metric('http_request_duration_seconds_count{route="blob"}'), 3)
        self.assertGreater(self.metric('http_sent_bytes_total{route="blob"}'), 300_000)
        self.assertEqual(self.metric("blob_cache_hits_total"), 2)
        self.assertGreaterEqual(self.metric("store_bytes"), self.store.stat().st_size)

        self.eventually(lambda: (self.tmp / "access.log").read_text().count('"route":"blob"') == 3)
        lines = [json.loads(line) for line in (self.tmp / "access.log").read_text().splitlines()]
        blobs = [line for line in lines if line["route"] == "blob"]
        self.assertEqual(len(blobs), 3)
        self.assertEqual(blobs[0]["target"], f"/v2/cubinary/blobs/{pack}")
        self.assertEqual((blobs[0]["method"], blobs[0]["status"], blobs[0]["peer"]),
                         ("GET", 200, "127.0.0.1"))
        self.assertGreater(blobs[0]["bytes"], 100_000)

    def test_metrics_text_is_well_formed(self):
        self.serve()
        self.ask("/v2/")
        answer = self.ask("/metrics")
        self.assertEqual(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        families = {}
        for line in answer.body.decode().splitlines():
            if line.startswith("# TYPE "):
                families[line.split()[2]] = line.split()[3]
            elif not line.startswith("#"):
                name, value = re.fullmatch(r'([a-z_0-9]+)(?:\{(?:[a-z]+="[^"]*",?)+\})? (\S+)',
                                           line).groups()
                float(value)
                self.assertIn(re.sub(r"_(bucket|sum|count)$", "", name)
                              if name not in families else name, families, line)
        self.assertEqual(families["cubinary_http_request_duration_seconds"], "histogram")

    def test_readyz_says_why_not(self):
        self.serve()
        self.store.write_bytes(b"not a database any more" * 100)
        answer = self.ask("/readyz")
        self.assertEqual(answer.status, 503, answer)
        self.assertIn("not ready: ", answer.body.decode())
        self.assertEqual(self.ask("/livez").status, 200)

    def test_start_up_errors(self):
        self.refused("serve", "--store", self.tmp / "none", status=None, says="none")
        self.refused("serve", "--store", self.store, "--listen", "8421", status=2, says="ADDR:PORT")
        self.refused("serve", "--store", self.store, "--repo", "Bad Name", status=2, says="--repo")
        self.serve()
        self.refused("serve", "--store", self.store, "--read-only", "--listen", f"127.0.0.1:{self.port}",
                     status=None, says="another program")


if __name__ == "__main__":
    harness.main()
