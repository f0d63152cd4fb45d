# SPDX-License-Identifier: Apache-2.0
"""What cubinary-fetch does when the network, the server or the release is not as it should be."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
import unittest

from fault_server import Fault, FaultServer

BIN = os.environ["CUBINARY_BIN"]
MAKE_LAYOUT = os.path.join(os.environ["CUBINARY_TESTS"], "make_test_layout")
FETCH = os.path.join(BIN, "cubinary-fetch")
REF = "org.opencontainers.image.ref.name"


class ClientFaults(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cubinary-faults-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.layout = os.path.join(self.dir, "layout")
        self.key = os.path.join(self.dir, "key")
        self.cache = os.path.join(self.dir, "cache")
        self.make()
        self.server = FaultServer(self.layout)
        self.addCleanup(self.server.close)

    def make(self, *words, key=None):
        return subprocess.run(
            [MAKE_LAYOUT, self.layout, key or self.key, *words],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def fetch(self, *words, source=None, key=None, cache=None, env=None):
        result = subprocess.run(
            [FETCH, source or self.server.url, "--key", key or self.key + ".pub"]
            + ["--cache", cache or self.cache, "--json", *words],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **(env or {})},
        )
        return result

    def good(self, *words, **options):
        result = self.fetch(*words, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.check_cache(report, options.get("cache", self.cache))
        return report

    def bad(self, *words, status=1, says="", **options):
        result = self.fetch(*words, **options)
        self.assertEqual(result.returncode, status, result.stderr + result.stdout)
        self.assertEqual(result.stdout, "")
        self.assertIn(says, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, "one error, one line: " + result.stderr)
        self.check_cache(None, options.get("cache", self.cache))
        return result.stderr

    def check_cache(self, report, cache):
        """Whatever happened, no file in the cache lies about its digest, and no rubbish stays."""
        found = set()
        for kind in ("artifacts", "blobs"):
            folder = os.path.join(cache, "v1", kind, "sha256")
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertEqual(hashlib.sha256(file.read()).hexdigest(), name)
                found.add("sha256:" + name)
        if report:
            self.assertEqual(len(report["artifacts"]), 10)
            for artifact in report["artifacts"]:
                self.assertIn(artifact["artifact"], found)

    def blobs_asked(self):
        return [path for path, _ in self.server.requests if "/blobs/" in path]

    # ---- the network

    def test_good_and_again(self):
        report = self.good()
        self.assertEqual(report["packs_received"], 4)
        self.assertTrue(report["signed"])
        self.server.requests.clear()
        again = self.good()
        self.assertEqual(again["packs_received"], 0)
        self.assertEqual(self.blobs_asked(), [])
        self.server.close()
        offline = self.good("--offline")
        self.assertEqual(offline["packs_received"], 0)
        self.assertEqual(offline["index"], report["index"])

    def test_a_reset_is_tried_again(self):
        self.server.faults = [Fault("/manifests/v1", "reset", 2), Fault("/blobs/", "reset", 3)]
        self.good()

    def test_a_server_that_restarts_is_waited_for(self):
        for part in ("/manifests/v1", "/blobs/"):
            self.server.faults = [Fault(part, "restart")]
            self.good(cache=os.path.join(self.dir, "cache" + part.strip("/").replace("/", "-")))
            self.server.restarts.pop().join()

    def test_a_broken_transfer_goes_on_where_it_stopped(self):
        for kind in ("truncate", "truncate-reset"):
            self.server.requests.clear()
            cache = os.path.join(self.dir, kind)
            self.server.faults = [Fault("/blobs/", kind, 3, after=100)]
            self.good(cache=cache)
            resumed = [h["Range"] for _, h in self.server.requests if "Range" in h]
            self.assertTrue(resumed, kind)
            # A reset may take back bytes that were sent; an orderly end does not.
            if kind == "truncate":
                self.assertIn("bytes=100-", resumed)

    def test_a_server_that_cannot_resume(self):
        self.server.faults = [
            Fault("/blobs/", "truncate", 1, after=50),
            Fault("/blobs/", "no-range", 1),
        ]
        self.good()
        self.server.faults = [
            Fault("/blobs/", "truncate", 1, after=50),
            Fault("/blobs/", "wrong-range", 1),
        ]
        self.good(cache=os.path.join(self.dir, "second"))

    def test_many_broken_pieces_are_progress(self):
        # More breaks than tries in a row: each brought some bytes.
        self.server.faults = [Fault("/blobs/", "truncate", 12, after=300)]
        self.good()

    def test_a_peer_that_never_answers_well_is_given_up(self):
        self.server.faults = [Fault("/manifests/v1", "reset", 1000)]
        self.bad(says="tries in a row", status=1)
        asked = [p for p, _ in self.server.requests if p.endswith("/manifests/v1")]
        self.assertGreaterEqual(len(asked), 3)
        self.assertLessEqual(len(asked), 20)

    def test_nobody_listens(self):
        self.server.close()
        said = self.bad(says="cannot connect")
        self.assertEqual(said.count(self.server.url), 1, said)

    def test_wrong_bytes_once_are_fetched_again_and_for_ever_refused(self):
        self.server.faults = [Fault("/blobs/", "wrong-bytes", 1)]
        self.good()
        shutil.rmtree(self.cache)
        self.server.faults = [Fault("/blobs/", "wrong-bytes", 1000)]
        self.bad(says="digest")

    def test_wrong_lengths(self):
        self.server.faults = [Fault("/blobs/", "shorter", 1)]
        self.good()
        shutil.rmtree(self.cache)
        self.server.faults = [Fault("/blobs/", "longer", 1000)]
        self.bad(says="more than")

    def test_an_endless_answer_is_cut_off(self):
        self.server.faults = [Fault("/blobs/", "endless", 1000)]
        self.bad(says="more than")
        self.server.faults = [Fault("/manifests/v1", "endless", 1000)]
        self.bad(says="more than")

    def test_busy_servers_are_waited_for(self):
        self.server.faults = [
            Fault("/manifests/v1", "status", 1, status=429, headers={"Retry-After": "1"}),
            Fault("/blobs/", "status", 2, status=503),
        ]
        begun = time.monotonic()
        self.good()
        self.assertGreaterEqual(time.monotonic() - begun, 1.0)  # as it was asked to wait

    def test_a_wait_beyond_the_deadline_is_not_begun(self):
        self.server.faults = [
            Fault("/manifests/v1", "status", 9, status=503, headers={"Retry-After": "3600"})
        ]
        self.bad("--timeout", "5", says="deadline")

    def test_a_drip_ends_with_the_deadline(self):
        self.server.faults = [Fault("/blobs/", "drip", 1000)]
        self.bad("--timeout", "1", says="deadline")

    def test_silence_ends_with_the_deadline(self):
        self.server.faults = [Fault("/manifests/", "silent", 1000)]
        self.bad("--timeout", "1", says="deadline")

    def test_statuses_that_trying_again_does_not_help(self):
        for status, code in ((401, "credentials"), (403, "may not read"), (404, "no tag or manifest")):
            self.server.requests.clear()
            self.server.faults = [Fault("/manifests/v1", "status", 1000, status=status)]
            self.bad(says=code, source=self.server.url + ":v1")
            asked = [p for p, _ in self.server.requests if p.endswith("/manifests/v1")]
            self.assertEqual(len(asked), 1)

    def test_redirects(self):
        other = FaultServer(self.layout)
        self.addCleanup(other.close)
        self.server.token = "Bearer secret"
        target = other.url + "/v2/cubinary/"
        self.server.faults = [
            Fault("/blobs/" + digest, "redirect", 1, to=target + "blobs/" + digest)
            for digest in ["sha256:" + name for name in os.listdir(self.layout + "/blobs/sha256")]
        ]
        self.good(env={"CUBINARY_TOKEN": "secret\n"})
        self.assertTrue(other.requests)
        for _, headers in other.requests:
            self.assertNotIn("Authorization", headers, "credentials went to another origin")

    def test_a_circle_of_redirects(self):
        self.server.faults = [
            Fault("/manifests/v1", "redirect", 1000, to="/v2/cubinary/manifests/v1")
        ]
        self.bad(says="redirects")

    def test_a_token_that_is_missing(self):
        self.server.token = "Bearer secret"
        self.bad(says="CUBINARY_TOKEN")

    # ---- the release

    def test_wrong_key(self):
        other = os.path.join(self.dir, "other")
        subprocess.run([MAKE_LAYOUT, self.dir + "/unused", other], check=True, capture_output=True)
        self.bad(key=other + ".pub", says="sign")

    def test_signature_removed(self):
        index = self.read_index()
        index["manifests"] = [
            d for d in index["manifests"] if not d["annotations"][REF].startswith("sha256-")
        ]
        self.write_index(index)
        self.bad(says="not signed")
        self.good("--allow-unsigned")

    def test_catalogue_edited_with_all_digests_recomputed(self):
        """Everything is consistent again, the old signature is attached to the new index: only the
        signature itself can tell."""
        index = self.read_index()
        tags = {d["annotations"][REF]: d for d in index["manifests"]}
        top = json.loads(self.read_blob(tags["v1"]["digest"]))
        for descriptor in top["manifests"]:
            manifest = json.loads(self.read_blob(descriptor["digest"]))
            catalogue = self.read_blob(manifest["config"]["digest"])
            edited = catalogue.replace(b"n % VEC == 0", b"n % VEC == n")
            self.assertNotEqual(edited, catalogue)
            self.point(manifest["config"], edited)
            self.point(descriptor, self.dump(manifest))
        old = tags["v1"]["digest"]
        self.point(tags["v1"], self.dump(top))
        new = tags["v1"]["digest"]
        signature = tags["sha256-" + old.removeprefix("sha256:")]
        signature["annotations"][REF] = "sha256-" + new.removeprefix("sha256:")
        for claim_subject in (False, True):
            if claim_subject:
                manifest = json.loads(self.read_blob(signature["digest"]))
                manifest["subject"]["digest"] = new
                manifest["subject"]["size"] = tags["v1"]["size"]
                self.point(signature, self.dump(manifest))
            self.write_index(index)
            self.bad(says="signature")
        # That the rest is consistent is what makes this a test.
        index["manifests"].remove(signature)
        self.write_index(index)
        self.good("--allow-unsigned")

    def test_a_tag_moved_back(self):
        self.make("name=v1", "serial=1", "channel=prod")
        self.make("name=v2", "serial=2", "channel=prod", "note=two")
        prod = self.server.url + ":prod"
        self.assertEqual(self.good(source=prod)["release"], "v2")
        self.make("name=v1", "serial=1", "channel=prod")
        self.bad(source=prod, says="serial 2")
        # Through another way to the same repository it is the same tag.
        self.bad(source=self.layout + ":prod", says="serial 2")

    def test_expired(self):
        self.make("name=old", "serial=3", "expires=1000000000", "note=old")
        self.bad(source=self.server.url + ":old", says="expired on 2001-09-09")
        self.good("--allow-expired", source=self.server.url + ":old")

    def test_a_target_that_is_not_there(self):
        self.bad("--target", "sm_80", says="sm_90, sm_120")
        self.bad("--target", "sm_9", status=2, says="did you mean")
        self.bad("--device-class", "sm80-s108-l40M-b5120-m40G", says="targets are sm_90, sm_120")
        self.bad("--kernel", "scal", says="scale")

    def test_one_targets_manifest_is_not_a_release(self):
        index = self.read_index()
        tags = {d["annotations"][REF]: d for d in index["manifests"]}
        top = json.loads(self.read_blob(tags["v1"]["digest"]))
        tags["v1"].update({k: top["manifests"][0][k] for k in ("digest", "size", "mediaType")})
        self.write_index(index)
        self.bad(says="one target's manifest, not a release")

    # ---- the cache

    def test_a_damaged_entry_is_fetched_again(self):
        report = self.good()
        victim = report["artifacts"][0]["artifact"].removeprefix("sha256:")
        path = os.path.join(self.cache, "v1", "artifacts", "sha256", victim)
        with open(path, "r+b") as file:
            file.write(b"X")
        again = self.fetch()
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("damaged", again.stderr)
        self.check_cache(json.loads(again.stdout), self.cache)
        self.assertEqual(json.loads(again.stdout)["packs_received"], 1)

    def test_ranks_fetch_once(self):
        runs = [
            subprocess.Popen(
                [FETCH, self.server.url, "--key", self.key + ".pub", "--cache", self.cache],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for _ in range(6)
        ]
        for run in runs:
            self.assertEqual(run.wait(60), 0, run.stderr.read())
            run.stderr.close()
        packs = [d for m in self.manifests() for d in (l["digest"] for l in m["layers"])]
        for pack in packs:
            asked = sum(1 for path in self.blobs_asked() if path.endswith(pack))
            self.assertEqual(asked, 1, pack)

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_a_cache_that_cannot_be_written(self):
        os.mkdir(self.cache)
        os.chmod(self.cache, stat.S_IRUSR | stat.S_IXUSR)
        self.bad(status=3, says="cannot write the cache folder")

    def test_an_empty_cache_offline(self):
        self.bad("--offline", says="offline")

    def test_no_source_at_all(self):
        self.bad(source=self.dir + "/nothing", says="no folder")
        self.bad(source="ftp://x", status=2, says="unknown scheme")
        self.bad(key=self.dir + "/no.pub", says="no.pub")

    # ---- helpers

    def read_index(self):
        with open(os.path.join(self.layout, "index.json"), encoding="utf-8") as file:
            return json.load(file)

    def write_index(self, index):
        with open(os.path.join(self.layout, "index.json"), "w", encoding="utf-8") as file:
            json.dump(index, file)

    def read_blob(self, digest):
        return self.server.blob(digest)

    @staticmethod
    def dump(document):
        return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()

    def point(self, descriptor, data):
        """Stores `data` as a blob and lets the descriptor name it."""
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(self.layout, "blobs", "sha256", digest), "wb") as file:
            file.write(data)
        descriptor["digest"] = "sha256:" + digest
        descriptor["size"] = len(data)

    def manifests(self):
        top = json.loads(self.read_blob(self.server.tags()["v1"]))
        return [json.loads(self.read_blob(d["digest"])) for d in top["manifests"]]


if __name__ == "__main__":
    unittest.main()
