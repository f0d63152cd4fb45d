# SPDX-License-Identifier: Apache-2.0
"""The publish, tune and maintenance API: whole or nothing, the same again, and who may do what."""

import hashlib
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import time

import cubins
import harness
import serving

DEVICE = "sm90-s132-l50M-b5120-m80G"
ARTIFACTS = "application/vnd.cubinary.artifacts.v1"
SCALE = {"parameters": [8, 8, 4, 4]}
CUBINS = [cubins.made_up({"_Z5scale": {**SCALE, "code": f"code of {kind} here".encode()}})
          for kind in ["f321", "f324", "f161", "f164"]]


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def batch(*artifacts):
    return b"".join(hashlib.sha256(one).digest() + struct.pack("<Q", len(one)) + one for one in artifacts)


class Api(serving.Case):
    """A served store, and requests with one of its tokens."""

    def setUp(self):
        super().setUp()
        for candidate, cubin in zip(self.told["candidates"], CUBINS, strict=True):
            candidate["artifact"] = digest(cubin)

    def as_(self, scope, method, path, value=None, body=None, **headers):
        headers.setdefault("Authorization", f"Bearer {self.told[scope + '_token']}")
        if value is not None:
            body = json.dumps(value).encode()
            headers.setdefault("Content_Type", "application/json")
        return self.ask("/api/v1/" + path, method=method, body=body, **headers)

    def good(self, *arguments, status=(200, 201), **options):
        answer = self.as_(*arguments, **options)
        self.assertIn(answer.status, status, answer)
        return answer.json()

    def send_artifacts(self, **headers):
        return self.good("publish", "POST", "artifacts?kernel=scale&target=sm_90", body=batch(*CUBINS),
                         Content_Type=ARTIFACTS, **headers)

    def publish(self):
        """Everything a builder sends for the made-up kernel."""
        self.send_artifacts()
        self.good("publish", "POST", "candidates",
                  {"kernel": self.told["kernel"], "candidates": self.told["candidates"]})
        self.good("publish", "PUT", "kernels/scale/current", self.current())

    def current(self):
        keys = [candidate["build_key"] for candidate in self.told["candidates"]]
        return {"kernel": self.told["kernel"], "targets": {"sm_90": keys}}

    def stats(self):
        return self.ask("/api/v1/store/stats").json()


class Publish(Api):
    def setUp(self):
        super().setUp()
        self.serve()

    def test_an_artifact_is_seen_once_its_digest_was_checked(self):
        data = CUBINS[0]
        path = f"artifacts/{digest(data)}"
        self.assertEqual(self.ask("/api/v1/" + path).status, 404)
        for wrong in [data + b"x", data[:-1], b"other"]:
            answer = self.as_("publish", "PUT", path, body=wrong)
            self.assertEqual((answer.status, answer.code()), (400, "corrupt"), answer)
            self.assertIn("nothing was kept", answer.message())
        self.assertEqual(self.ask("/api/v1/" + path).status, 404)
        self.assertEqual(self.stats()["artifacts"], 0)
        self.assertEqual(self.good("publish", "PUT", path, body=data), {"stored": 1, "known": 0})
        self.assertEqual(self.good("publish", "PUT", path, body=data), {"stored": 0, "known": 1})
        self.assertEqual(self.ask("/api/v1/" + path).body, data)
        for bad in ["sha256:12", "0" * 64, "sha256:" + "G" * 64]:
            self.assertEqual(self.as_("publish", "PUT", f"artifacts/{bad}", body=data).status, 400, bad)

    def test_a_batch_is_whole_or_nothing(self):
        for wrong in [batch(*CUBINS[:3]) + hashlib.sha256(b"a").digest() + struct.pack("<Q", 1) + b"b",
                      batch(*CUBINS)[:-1], batch(*CUBINS) + b"x", b"x" * 40 + struct.pack("<Q", 1 << 62)]:
            answer = self.as_("publish", "POST", "artifacts", body=wrong, Content_Type=ARTIFACTS)
            self.assertEqual(answer.status, 400, answer)
            self.assertEqual(self.stats()["artifacts"], 0)
        self.assertEqual(self.send_artifacts(), {"stored": 4, "known": 0})
        self.assertEqual(self.send_artifacts(), {"stored": 0, "known": 4})

    def test_a_zip_bomb_is_not_unpacked(self):
        bomb = self.tmp / "bomb.zst"
        # 1 GiB of zeros in a few kilobytes, with and without the size told in the frame.
        zeros = self.tmp / "zeros"
        with open(zeros, "wb") as file:
            file.truncate(1 << 30)
        before = self.resident()
        for flags in (["--content-size"], ["--no-content-size"]):
            if harness.find_tool("zstd") is None:
                self.skipTest("no zstd program here")
            subprocess.run(["zstd", "-q", "-f", *flags, zeros, "-o", bomb], check=True)
            self.assertLess(bomb.stat().st_size, 1 << 20)
            answer = self.as_("publish", "PUT", f"artifacts/{digest(b'x')}", body=bomb.read_bytes(),
                              Content_Encoding="zstd")
            self.assertIn(answer.status, (400, 413), answer)
        self.assertLess(self.resident() - before, 80 << 10)
        answer = self.as_("publish", "PUT", f"artifacts/{digest(b'x')}", body=b"no frame at all",
                          Content_Encoding="zstd")
        self.assertEqual(answer.status, 400)
        answer = self.as_("publish", "PUT", f"artifacts/{digest(b'x')}", body=b"x", Content_Encoding="gzip")
        self.assertEqual((answer.status, answer.code()), (501, "unsupported"))
        self.assertEqual(self.stats()["artifacts"], 0)

    def resident(self):
        text = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1))

    def test_candidates_need_their_artifacts_and_become_current_together(self):
        request = {"kernel": self.told["kernel"], "candidates": self.told["candidates"]}
        answer = self.as_("publish", "POST", "candidates", request)
        self.assertEqual((answer.status, answer.code()), (404, "not_found"))
        self.assertIn("put it before", answer.message())
        self.assertEqual(self.ask("/api/v1/kernels").json(), [])
        keys = {"build_keys": [c["build_key"] for c in self.told["candidates"]] + [digest(b"never")]}
        self.assertEqual(self.good("all", "POST", "candidates/known", keys), {"known": {}})
        answer = self.as_("publish", "PUT", "kernels/scale/current", self.current())
        self.assertEqual((answer.status, answer.code()), (404, "not_found"))

        self.send_artifacts()
        first = self.good("publish", "POST", "candidates", request)
        self.assertEqual((first["stored"], first["known"], len(set(first["ids"]))), (4, 0, 4))
        self.assertEqual(self.good("publish", "POST", "candidates", request), {**first, "stored": 0, "known": 4})
        known = self.good("all", "POST", "candidates/known", keys)["known"]
        self.assertEqual(known, {c["build_key"]: "ok" for c in self.told["candidates"]})
        # Not current yet: no release takes them.
        self.assertEqual(self.ask("/api/v1/candidates?kernel=scale").json(), [])
        answer = self.as_("publish", "POST", "releases", {"name": "early"})
        self.assertEqual((answer.status, answer.code()), (404, "not_found"))
        for _ in range(2):
            self.good("publish", "PUT", "kernels/scale/current", self.current())
        listed = self.ask("/api/v1/candidates?kernel=scale&target=sm_90&role=kernel").json()
        self.assertEqual({c["build_key"] for c in listed}, set(known))
        self.assertEqual({c["size"] for c in listed}, {len(CUBINS[0])})
        self.assertEqual(self.ask("/api/v1/kernels/scale").json()["manifest"], self.told["kernel"]["manifest"])
        self.assertIn('did you mean "scale"', self.ask("/api/v1/kernels/scales").message())

    def test_candidates_join_the_current_ones_of_the_same_inputs_only(self):
        self.send_artifacts()
        kernel, candidates = self.told["kernel"], self.told["candidates"]
        joining = {"kernel": kernel, "candidates": candidates[:1], "current": True}
        answer = self.as_("publish", "POST", "candidates", joining)  # nothing is in force yet
        self.assertEqual((answer.status, answer.code()), (409, "exists"))
        self.assertEqual(self.stats()["candidates_ok"], 0)
        partial = {**self.current(), "partial": True}  # names four, of which there is none
        self.good("publish", "PUT", "kernels/scale/current", partial)
        for count in (1, 2, 3):
            joining["candidates"] = candidates[:count]
            ids = self.good("publish", "POST", "candidates", joining)["ids"]
            listed = self.ask("/api/v1/candidates?kernel=scale").json()
            self.assertEqual({one["id"]: one["build_key"] for one in listed},
                             dict(zip(ids, (one["build_key"] for one in candidates[:count]))))
        other = {**joining, "kernel": {**kernel, "inputs": "{}"}, "candidates": candidates[3:]}
        answer = self.as_("publish", "POST", "candidates", other)
        self.assertEqual((answer.status, answer.code()), (409, "exists"))
        # Who begins again meanwhile takes nothing away.
        self.good("publish", "PUT", "kernels/scale/current", partial)
        self.assertEqual(len(self.ask("/api/v1/candidates?kernel=scale").json()), 3)

    def test_what_does_not_fit_its_kernel_is_refused(self):
        self.send_artifacts()
        candidates = self.told["candidates"]
        for change, says in [
            ({"kernel": {**self.told["kernel"], "interface": digest(b"other")}}, "interface"),
            ({"kernel": {**self.told["kernel"], "name": "other"}}, "scale"),
            ({"kernel": {**self.told["kernel"], "manifest": "manifest = 1"}}, "manifest"),
            ({"candidates": [{**candidates[0], "kernel": "other"}]}, "candidates[0]"),
            ({"candidates": [{**candidates[0], "target": "sm_1"}]}, "candidates[0]"),
            ({"candidates": [{**candidates[0], "status": "fine"}]}, "must be one of"),
            ({"candidates": [{**candidates[0], "status": "failed"}]}, "status ok"),
            ({"candidates": [{**candidates[0], "compile_ms": -1}]}, "compile_ms"),
            ({"candidates": [candidates[0], {**candidates[1], "types": {"T": 4}}]}, "candidates[1].types"),
            ({"candidates": None}, "candidates"),
        ]:
            request = {"kernel": self.told["kernel"], "candidates": candidates, **change}
            answer = self.as_("publish", "POST", "candidates", request)
            self.assertEqual(answer.status, 400, (change, answer))
            self.assertIn(says, answer.message(), change)
        self.assertEqual(self.stats()["candidates_ok"], 0)
        for body in [b"", b"{", b"[]", b'{"a":1,"a":2}', b"\xff", b'{"kernel":' + b"[" * 100_000]:
            answer = self.as_("publish", "POST", "candidates", body=body, Content_Type="application/json")
            self.assertEqual(answer.status, 400, body[:40])

    def test_a_cubin_that_is_not_what_is_said_of_it_is_refused(self):
        first, second = self.told["candidates"][:2]
        made_up = cubins.made_up
        for cubin, says in [
            (b"these are no bytes of a cubin, whatever is said of them" * 3, "no 64-bit little-endian ELF"),
            (CUBINS[0][:-1], "truncated or damaged"),
            (made_up({"_Z5scale": SCALE}, sm=120), "for sm_120, not for sm_90"),
            (made_up({"_Z5scale": SCALE}, kind=1), "not linked"),
            (made_up({"_Z5scale": SCALE}, undefined=["_Z4helpf"]), "_Z4helpf"),
            (made_up({}), "no entry at all"),
            (made_up({"_Z5other": SCALE}), "no entry for `scale<float, 1>`; it has _Z5other"),
            (made_up({"_Z5scale": {**SCALE, "code": bytes.fromhex("4d79000000000000") * 2}}), "does nothing"),
            (made_up({"_Z5scale": {"parameters": [8, 8, 4]}}), "takes 3 parameters, and the manifest passes 4: y, x"),
            (made_up({"_Z5scale": {"parameters": [8, 8, 8, 4]}}),
             "parameter 3 of `scale<float, 1>` is 8 bytes long, and the manifest passes count, i32 of 4"),
            (made_up({"_Z5scale": {**SCALE, "launch_bound": 64}}),
             "at most 64 threads a block (its __launch_bounds__), and the manifest's block has 128 with WARPS=4"),
            (made_up({"_Z5scale": {**SCALE, "static_smem": 1 << 20}}), "1048576 bytes of static shared memory"),
        ]:  # fmt: skip
            with self.subTest(says=says):
                self.good("publish", "PUT", f"artifacts/{digest(cubin)}", body=cubin)
                request = {"kernel": self.told["kernel"], "candidates": [{**first, "artifact": digest(cubin)}]}
                answer = self.as_("publish", "POST", "candidates", request)
                self.assertEqual(answer.status, 400, answer)
                self.assertIn(says, answer.message())
                self.assertIn("candidates[0]", answer.message())
        self.send_artifacts()
        for change in [{"types": {}}, {"types": {"T": "f64"}}, {"config": {"VEC": 3}}, {"role": "prepare"}]:
            request = {"kernel": self.told["kernel"], "candidates": [second, {**first, **change}]}
            answer = self.as_("publish", "POST", "candidates", request)
            self.assertEqual(answer.status, 400, answer)
            self.assertIn("is no candidate of its manifest", answer.message())
        self.assertEqual(self.stats()["candidates_ok"], 0)

    def test_every_missing_entry_is_named(self):
        """A kernel of three steps, of which the cubin holds one."""
        manifest = """manifest = 1
name = "scale"
summary = "in three steps"
source = "scale.cu"
args = [{ name = "y", inout = "f32", len = "n", fill = "range" }]
[axes]
n = { tune = [1024] }
"""
        for name in ("first", "second", "third"):
            manifest += f"""[[step]]
name = "{name}"
entry = "{name}<int>"
grid = ["n"]
block = [128]
"""
        kernel = {**self.told["kernel"], "manifest": manifest}
        cubin = cubins.made_up({"_Z6secondIiEvPf": {"parameters": [8]}})
        self.good("publish", "PUT", f"artifacts/{digest(cubin)}", body=cubin)
        candidate = {**self.told["candidates"][0], "types": {}, "config": {}, "artifact": digest(cubin)}
        kernel["interface"] = digest(b"cubinary interface 1\ny inout f32\n")
        answer = self.as_("publish", "POST", "candidates", {"kernel": kernel, "candidates": [candidate]})
        self.assertEqual(answer.status, 400, answer)
        self.assertIn("no entry for `first<int>`, `third<int>`; it has _Z6secondIiEvPf", answer.message())

    def test_what_the_store_keeps_of_a_cubin_is_what_the_cubin_says(self):
        cubin = cubins.made_up({"_Z5scale": {**SCALE, "registers": 168, "static_smem": 512, "launch_bound": 192},
                                "_Z5other": SCALE})
        self.good("publish", "PUT", f"artifacts/{digest(cubin)}", body=cubin)
        candidate = {**self.told["candidates"][0], "artifact": digest(cubin), "extra_entries": []}
        candidate["symbols"] = [{**candidate["symbols"][0], "max_threads": 1024, "registers": 8, "spill_bytes": 24}]
        request = {"kernel": self.told["kernel"], "candidates": [candidate]}
        self.good("publish", "POST", "candidates", request)
        (kept,) = self.ask("/api/v1/candidates?kernel=scale&all=true").json()
        self.assertEqual(kept["symbols"], [{"symbol": "_Z5scale", "max_threads": 192, "registers": 168,
                                            "static_smem": 512, "spill_bytes": 24}])
        self.assertEqual(kept["extra_entries"], ["_Z5other"])

    def test_a_release_of_what_was_published(self):
        self.publish()
        request = {"name": "r3", "created": 1_700_000_000, "targets": ["sm_90"]}
        made = self.good("publish", "POST", "releases", request, status=(201,))
        self.assertEqual((made["name"], made["serial"], made["targets"]), ("r3", 3, ["sm_90"]))
        self.assertEqual(made["kernels"][0]["artifacts"], 2)
        again = self.good("publish", "POST", "releases", request, status=(200,))
        self.assertEqual((again["serial"], again["index"]), (3, made["index"]))
        answer = self.as_("publish", "POST", "releases", {**request, "created": 1_700_000_001})
        self.assertEqual((answer.status, answer.code()), (409, "exists"))
        shown = self.ask("/api/v1/releases/r3").json()
        self.assertEqual(shown["targets"][0]["kernels"][0]["entries"][0]["origin"], "default")
        self.assertFalse(shown["signed"])
        self.assertEqual(self.ask("/v2/cubinary/manifests/r3").headers["docker-content-digest"], made["index"])
        for blob in shown["blobs"]:
            body = self.ask(f"/api/v1/blobs/{blob['digest']}").body
            self.assertEqual((digest(body), len(body)), (blob["digest"], blob["size"]))
        told = self.resolve(kernel="scale", types="T:f16", shape="n:8", device=DEVICE).json()
        self.assertEqual((told["release"], told["match"]), ("r3", "default"))
        self.assertEqual(told["artifact"]["digest"], digest(CUBINS[2]))

        promoted = self.good("publish", "PUT", "channels/prod", {"release": "r3"})
        self.assertEqual(promoted["channel"], "prod")
        self.assertEqual(self.ask("/api/v1/channels/prod").json()["index"], made["index"])
        answer = self.as_("publish", "PUT", "channels/r1", {"release": "r3"})
        self.assertEqual((answer.status, answer.code()), (409, "exists"))
        changes = self.ask("/api/v1/releases/r3/diff?since=r1").json()
        self.assertTrue(any(change["kind"] == "removed" and change["target"] == "sm_120" for change in changes))

    def test_a_signature_for_something_else_is_refused(self):
        for envelope, status in [(b"{}", 400), (b"not json", 400),
                                 (json.dumps({"payloadType": "text/plain", "payload": "", "signatures": []})
                                  .encode(), 400)]:
            answer = self.as_("publish", "PUT", "releases/r1/signature", body=envelope)
            self.assertEqual(answer.status, status, answer)


class Tune(Api):
    def setUp(self):
        super().setUp()
        self.serve()
        self.publish()
        self.job = {"kernel": "scale", "target": "sm_90", "types": {"T": "f32"}, "shape": {"n": 1024},
                    "device_class": DEVICE}

    def session(self):
        return self.good("tune", "POST", "sessions",
                         {"device_class": DEVICE, "product": "A GPU", "uuid_hash": "ab", "driver": "580.1",
                          "facts": {"clock_mhz": "1980"}}, status=(201,))["id"]

    def test_measurements_come_back_as_they_were_put(self):
        session = self.session()
        candidate = self.ask("/api/v1/candidates?kernel=scale").json()[0]
        measurement = {"candidate": candidate["id"], "session": session, "config": {"VEC": 1, "WARPS": 4},
                       "shape": {"n": 1024}, "status": "ok", "samples_us": [2.5, 2.25, 2.5],
                       "median_us": 2.5, "interval_us": 0.125, "max_error": 0.5, "clock_mhz": 1980.5}
        ids = self.good("tune", "POST", "measurements", {"measurements": [measurement]})["ids"]
        (row,) = self.ask("/api/v1/measurements?kernel=scale&samples=true").json()
        for key, value in measurement.items():
            self.assertEqual(row[key], value, key)
        self.assertEqual((row["id"], row["device_class"], row["current"]), (ids[0], DEVICE, True))
        # Sent again, its answer lost, it is the same one.
        again = self.good("tune", "POST", "measurements", {"measurements": [measurement]})["ids"]
        self.assertEqual(again, ids)
        before = self.stats()["measurements"]
        self.assertEqual(before, 1)
        answer = self.as_("tune", "POST", "measurements",
                          {"measurements": [measurement, {**measurement, "candidate": 999}]})
        self.assertGreaterEqual(answer.status, 400)
        self.assertEqual(self.stats()["measurements"], before)

    def test_what_came_of_a_job_and_what_was_running(self):
        session = self.session()
        candidate = next(one for one in self.ask("/api/v1/candidates?kernel=scale").json()
                         if one["types"] == {"T": "f32"} and one["config"] == {"VEC": 1})
        entry = {"candidate": candidate["id"], "shape": {"n": 1024}, "config": {"VEC": 1, "WARPS": 4},
                 "device_class": DEVICE}
        measurement = {**entry, "session": session, "status": "ok", "samples_us": [2.5], "median_us": 2.5,
                       "interval_us": 0.5, "max_error": 0.25}
        del measurement["device_class"]
        self.good("tune", "PUT", "journal", entry)
        left = self.good("tune", "POST", "journal", self.job)
        self.assertEqual([(one["candidate"], one["attempts"]) for one in left], [(candidate["id"], 1)])
        # A result takes its note back, and the next launch is noted in the same step.
        later = {**entry, "config": {"VEC": 1, "WARPS": 8}}
        ids = self.good("tune", "POST", "measurements", {"measurements": [measurement], "next": [later]})["ids"]
        left = self.good("tune", "POST", "journal", self.job)
        self.assertEqual([one["config"] for one in left], [later["config"]])
        self.good("tune", "PUT", "journal", {**later, "running": False})
        self.assertEqual(self.good("tune", "POST", "journal", self.job), [])
        tuning = {"job": self.job, "session": session, "recipe": digest(b"recipe"), "strategy": "exhaustive",
                  "configs": 4, "measured": 1, "failed": 0, "complete": True, "seconds": 1.5,
                  "finalists": [{"measurement": ids[0], "tied": False}], "baseline": ids[0]}
        self.good("tune", "POST", "tunings", tuning, status=(201,))
        query = "&".join(f"{key}={json.dumps(value) if isinstance(value, dict) else value}"
                         for key, value in self.job.items()).replace(" ", "").replace('"', "%22")
        (found,) = self.ask("/api/v1/tunings?" + query).json()
        for key, value in tuning.items():
            self.assertEqual(found[key], value, key)
        winners = self.ask("/api/v1/audit/winners").json()["winners"]
        self.assertEqual([winner["kernel"] for winner in winners], ["scale"])
        csv = self.ask("/api/v1/audit/winners?format=csv")
        self.assertTrue(csv.headers["content-type"].startswith("text/csv"))
        self.assertEqual(len(csv.body.decode().splitlines()), 2)
        self.assertEqual(self.ask("/api/v1/audit/nothing").status, 400)

    def test_a_lease_keeps_others_off_and_ends(self):
        ask = {"job": self.job, "owner": "gpu-1", "seconds": 60}
        mine = self.good("tune", "POST", "leases", ask)
        self.assertTrue(mine["granted"])
        theirs = self.good("tune", "POST", "leases", {**ask, "owner": "gpu-2"})
        self.assertFalse(theirs["granted"])
        self.assertEqual(theirs["lease"]["owner"], "gpu-1")
        self.assertEqual(self.metric("tuning_leases"), 1)
        # The same name with another token is somebody else.
        other = self.good("all", "POST", "leases", ask)
        self.assertFalse(other["granted"])
        path = f"leases/{mine['lease']['id']}"
        answer = self.as_("all", "PUT", path, {"owner": "gpu-1", "seconds": 60})
        self.assertEqual(answer.status, 404, answer)
        self.good("tune", "PUT", path, {"owner": "gpu-1", "seconds": 60})
        self.good("tune", "DELETE", path + "?owner=gpu-1")
        self.assertTrue(self.good("tune", "POST", "leases", {**ask, "owner": "gpu-2", "seconds": 1})["granted"])
        self.eventually(lambda: self.good("tune", "POST", "leases", {**ask, "owner": "gpu-3"})["granted"])


class WhoMayDoWhat(Api):
    """Every operation the API description names, with a token of every scope."""

    def operations(self):
        text = (harness.SOURCE / "schema" / "openapi.yaml").read_text()
        paths = text[text.index("\npaths:"):text.index("\ncomponents:")]
        found, path, method = [], None, None
        for line in paths.splitlines():
            if match := re.match(r"  (/\S*):$", line):
                path = match.group(1)
            elif match := re.match(r"    (get|put|post|delete):$", line):
                method = match.group(1).upper()
            elif match := re.match(r"      x-scope: (\w+)$", line):
                found.append((method, path, match.group(1)))
        return found

    def test_all_routes_with_all_scopes(self):
        self.serve()
        operations = self.operations()
        self.assertGreater(len(operations), 40)
        methods = ["GET", "PUT", "POST", "DELETE"]
        described = {(method, path) for method, path, _ in operations}
        names = {"repository": "cubinary", "reference": "r1", "digest": self.told["r1"]["index"], "name": "r1",
                 "id": "00000000", "query": "winners"}
        connection = self.connection()
        for method, path, needed in operations:
            target = re.sub(r"\{(\w+)\}", lambda match: names[match.group(1)], path)
            for scope in ["none", "read", "publish", "tune", "admin"]:
                headers = {} if scope == "none" else {
                    "Authorization": "Bearer " + self.told["token" if scope == "read" else scope + "_token"]}
                answer = self.ask(target, method=method, connection=connection, **headers)
                if needed == "open" or scope == needed or (needed == "read" and scope == "none"):
                    self.assertNotIn(answer.status, (401, 403, 405), (method, path, scope, answer))
                    self.assertLess(answer.status, 500, (method, path, scope, answer))
                else:
                    self.assertEqual(answer.status, 401 if scope == "none" else 403,
                                     (method, path, scope, needed))
            for other in methods:
                if (other, path) not in described:
                    answer = self.ask(target, method=other, connection=connection,
                                      Authorization="Bearer " + self.told["all_token"])
                    self.assertEqual(answer.status, 405, (other, path))
        self.check_healthy()

    def test_behind_a_proxy_nobody_reads_without_a_token(self):
        self.serve("--behind-proxy")
        names = {"repository": "cubinary", "reference": "r1", "digest": self.told["r1"]["index"], "name": "r1",
                 "id": "00000000", "query": "winners"}
        for method, path, needed in self.operations():
            target = re.sub(r"\{(\w+)\}", lambda match: names[match.group(1)], path)
            self.assertEqual(self.ask(target, method=method).status == 401, needed != "open", (method, path))

    def test_nothing_of_a_body_is_taken_from_a_stranger(self):
        self.serve()
        head = (f"PUT /api/v1/artifacts/{digest(b'x')} HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Length: 50000000\r\n").encode()
        for extra, status in [(b"", 401), (b"Authorization: Bearer wrong\r\n", 401),
                              (b"Authorization: Bearer " + self.told["tune_token"].encode() + b"\r\n", 403)]:
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as peer:
                peer.sendall(head + extra + b"Expect: 100-continue\r\n\r\n")
                self.assertEqual(int(peer.recv(65536).split()[1]), status)
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as peer:
            peer.sendall(head.replace(b"50000000", b"1") + b"Authorization: Bearer " +
                         self.told["publish_token"].encode() + b"\r\nExpect: 100-continue\r\n\r\n")
            self.assertEqual(peer.recv(65536), b"HTTP/1.1 100 Continue\r\n\r\n")
            peer.sendall(b"x")
            self.assertIn(b'{"known":0,"stored":1}', peer.recv(65536))

    def test_a_read_only_server_changes_nothing(self):
        self.serve("--read-only")
        answer = self.as_("publish", "POST", "releases", {"name": "x"})
        self.assertEqual((answer.status, answer.code()), (403, "read_only"))
        self.assertEqual(self.ask("/v2/cubinary/manifests/r1").status, 200)
        # Beside it others may own the store; beside a server that owns it they are told what to do.
        self.cubinary("store", "gc", "--store", self.store)
        self.server.stop()
        self.serve()
        refused = self.refused("store", "gc", "--store", self.store, status=1, says=["cubinary serve", "--server"])
        self.assertIn(str(self.server.process.pid), refused.stderr)


class LookedAfter(Api):
    store_arguments = ("--blobs", 3, 100_000)

    def setUp(self):
        super().setUp()
        self.serve()

    def test_changes_say_who_what_and_from_where(self):
        self.publish()
        self.good("publish", "PUT", "channels/stable", {"release": "r1"})
        made = self.good("admin", "POST", "tokens", {"name": "ci", "scopes": "read,publish"})
        self.good("admin", "DELETE", f"tokens/{made['id']}")
        changes = self.good("admin", "GET", "changes")
        actions = [change["action"] for change in changes]
        self.assertEqual(actions[:5], ["token revoke", "token create", "release promote", "kernel current",
                                       "candidates put"])
        promoted = changes[2]
        self.assertEqual((promoted["subject"], promoted["detail"]), ("stable", {"release": "r1"}))
        self.assertEqual(promoted["actor"], self.told["publish_token"].split("_")[1] + " publish")
        self.assertEqual(promoted["origin"], "127.0.0.1")
        self.assertLess(abs(promoted["at"] - time.time()), 3600)
        self.assertEqual(changes[-1]["origin"], "cli")  # made before it was served
        self.assertNotIn(made["secret"], json.dumps(changes))
        older = self.good("admin", "GET", f"changes?n=1&before={promoted['id']}")
        self.assertEqual([change["action"] for change in older], ["kernel current"])

    def test_tokens(self):
        made = self.good("admin", "POST", "tokens", {"name": "ci", "scopes": "read,publish",
                                                     "expires": int(time.time()) + 3600})
        self.assertEqual((made["scopes"], made["state"]), ("read,publish", "valid"))
        bearer = {"Authorization": "Bearer " + made["secret"]}
        self.assertEqual(self.ask("/v2/", **bearer).status, 200)
        listed = {token["id"]: token for token in self.good("admin", "GET", "tokens")}
        self.assertNotIn("secret", listed[made["id"]])
        for _ in range(2):
            self.good("admin", "DELETE", f"tokens/{made['id']}")
        self.assertEqual(self.ask("/v2/", **bearer).status, 401)
        self.assertEqual(self.as_("admin", "DELETE", "tokens/nothing1").status, 404)
        for wrong in [{"name": ""}, {"name": "x", "scopes": "write"}, {"name": "x", "expires": 1}, {}]:
            self.assertEqual(self.as_("admin", "POST", "tokens", wrong).status, 400, wrong)

    def test_backup_fsck_and_gc_of_a_served_store(self):
        self.assertEqual(self.good("admin", "POST", "store/fsck"), {"sound": True, "findings": []})
        body = self.as_("admin", "GET", "store/backup").body
        copy = self.tmp / "copy.db"
        copy.write_bytes(body)
        self.cubinary("store", "fsck", "--store", copy)
        self.assertEqual(self.cubinary("store", "stats", "--store", copy, "--json").json()["releases"], 2)
        self.assertEqual([path for path in os.listdir(self.tmp) if ".backup-" in path], [])
        told = self.good("admin", "POST", "store/gc", {"dry_run": True})
        self.assertEqual((told["dry_run"], told["blobs"]), (True, 3))
        self.assertEqual(self.good("admin", "POST", "store/gc", {"dry_run": False})["blobs"], 3)
        self.assertEqual(self.good("admin", "POST", "store/gc")["blobs"], 0)
        self.assertEqual(self.good("admin", "POST", "store/fsck")["sound"], True)


if __name__ == "__main__":
    harness.main()
