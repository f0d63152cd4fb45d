# SPDX-License-Identifier: Apache-2.0
"""Everything that goes wrong with stores, releases and sources: one clear error, the right exit status,
nothing half-written, the store still good."""

import hashlib
import json
import os
import shutil
import signal
import sqlite3

import harness
import made_up

REF_NAME = "org.opencontainers.image.ref.name"


class Case(made_up.Case):
    def assert_sound(self, store):
        """The store is good, by SQLite's word and by what depends on it: releases and artifacts."""
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
            self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
            self.assertEqual(database.execute("PRAGMA foreign_key_check").fetchall(), [])
        database.close()
        self.cubinary("store", "fsck", "--store", store)

    def change(self, store, *statements):
        """Damages a store that nobody has open."""
        with sqlite3.connect(store) as database:
            for statement in statements:
                self.assertGreater(database.execute(statement).rowcount, 0, statement)
        database.close()


class Stores(Case):
    COMMANDS = [("release", "list"), ("release", "create", "r1"), ("export", "layout", "--release", "r1"),
                ("serve", "--listen", "127.0.0.1:0")]

    def refuse_all(self, store, **expected):
        before = sorted(os.listdir(self.tmp))
        for command in self.COMMANDS:
            with self.subTest(command=command):
                self.refused(*command, "--store", store, cwd=self.tmp, **expected)
        self.assertEqual(sorted(os.listdir(self.tmp)), before)

    def test_no_store(self):
        self.refuse_all(self.tmp / "none.db", status=1, says="no store .*none.db")

    def test_no_store_at_all(self):
        for name, status, data in [("text", 2, b"name,value\n" * 100), ("empty", 2, b""),
                                   ("short", 1, b"SQLite format 3\0")]:
            (self.tmp / name).write_bytes(data)
            self.refuse_all(self.tmp / name, status=status, says=name)
            self.assertEqual((self.tmp / name).read_bytes(), data)

    def test_another_programs_database(self):
        other = self.tmp / "other.db"
        with sqlite3.connect(other) as database:
            database.execute("PRAGMA application_id = 77")
            database.execute("CREATE TABLE bookmarks (url TEXT)")
        database.close()
        data = other.read_bytes()
        self.refuse_all(other, status=2, says="other.db")
        self.assertEqual(other.read_bytes(), data)

    def test_a_store_of_a_newer_version(self):
        store = self.make_store()
        with sqlite3.connect(store) as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            database.execute("PRAGMA user_version = 99")
        database.close()
        for command in self.COMMANDS:
            self.refused(*command, "--store", store, status=3, says=["99", "newer"], cwd=self.tmp)
        with sqlite3.connect(store) as database:
            self.assertEqual(database.execute("PRAGMA user_version").fetchone(), (99,))
            database.execute(f"PRAGMA user_version = {version}")
        database.close()
        self.assert_sound(store)

    def test_a_store_in_use(self):
        store = self.tmp / "kernels.db"
        owner = self.background(harness.test_program("make_store"), store, "--hold")
        owner.line("holding")
        key, _ = self.make_key()
        for command in [("create", "r1"), ("sign", "r1", "--key", key), ("promote", "r1", "--as", "prod")]:
            self.refused("release", *command, "--store", store, status=1,
                         says=[r"\b%d\b" % owner.process.pid, "a test", "--server"])
        # Reading is for everyone, all the time.
        self.assertEqual(self.cubinary("release", "list", "--store", store, "--json").json(), [])
        # The owner dies without a word: nobody has to clean up after it.
        owner.stop(signal.SIGKILL)
        self.make_release(store)
        self.assert_sound(store)

    def test_a_truncated_cubin(self):
        store = self.make_store()
        self.change(store, "UPDATE artifact_data SET bytes = substr(bytes, 1, length(bytes) - 7)")
        self.refused("release", "create", "r1", "--store", store, status=1, says=["artifact", "store fsck"])
        self.assertEqual(self.cubinary("release", "list", "--store", store, "--json").json(), [])
        found = self.cubinary("store", "fsck", "--store", store, status=1)
        self.assertRegex(found.stdout + found.stderr, "artifact [0-9a-f:sh]+")

    def test_flipped_bits_in_a_stored_release(self):
        store = self.make_store()
        key, _ = self.make_key()
        self.make_release(store)
        with sqlite3.connect(store) as database:
            blob, data = database.execute(
                "SELECT blob_id, bytes FROM blob_chunk JOIN blob ON blob.id = blob_id "
                "WHERE media_type LIKE '%pack%' AND position = 0 LIMIT 1").fetchone()
            data = data[:100] + bytes([data[100] ^ 4]) + data[101:]
            database.execute("UPDATE blob_chunk SET bytes = ? WHERE blob_id = ? AND position = 0", (data, blob))
        database.close()
        self.refused("export", self.tmp / "layout", "--release", "r1", "--store", store, status=1,
                     says=["digest", "store fsck"])
        self.assertFalse((self.tmp / "layout" / "index.json").exists())
        # Nobody signs what is damaged.
        self.refused("release", "sign", "r1", "--key", key, "--store", store, status=1, says="store fsck")
        self.cubinary("store", "fsck", "--store", store, status=1)

    def test_a_full_disk(self):
        bwrap = harness.find_tool("bwrap")
        small = self.tmp / "small"
        small.mkdir()
        store = self.make_store()
        self.make_release(store, "before")
        size = store.stat().st_size
        inside = self.tmp / "inside.sh"
        inside.write_text(f"""cp '{store}' '{small}/k.db' || exit 90
{harness.binary()} release create r1 --store '{small}/k.db'
echo "create: $?"
rm -f '{small}'/k.db-*
{harness.binary()} export '{small}/layout' --release before --store '{store}'
echo "export: $?"
ls -a '{small}/layout' '{small}/layout/blobs/sha256'
cp '{small}/k.db' '{self.tmp}/after.db'
""")
        # Room for the store and three pages more: neither a release nor a layout fits.
        probe = [bwrap or "bwrap", "--dev-bind", "/", "/", "--size", str(size + 12288), "--tmpfs", small]
        if bwrap is None or self.run_program(*probe, "true", status=None).status != 0:
            self.skipTest("no bwrap that may mount a small tmpfs")
        result = self.run_program(*probe, "sh", inside)
        self.assertIn("create: 3\n", result.stdout, str(result))
        self.assertIn("export: 3\n", result.stdout, str(result))
        self.assertEqual(result.stderr.count("cubinary: "), 2, str(result))
        self.assertEqual(result.stderr.count("space"), 2, str(result))
        self.assertNotIn("index.json", result.stdout)
        self.assertNotRegex(result.stdout, r"(?m)^\.[0-9a-f]{64}", "a temporary stayed")
        after = self.tmp / "after.db"
        self.assert_sound(after)
        names = [r["name"] for r in self.cubinary("release", "list", "--store", after, "--json").json()]
        self.assertEqual(names, ["before"])


class Layout:
    """A layout changed by hand, all digests recomputed where asked."""

    def __init__(self, path):
        self.path = path
        self.index = json.loads((path / "index.json").read_text())

    def blob(self, descriptor):
        return self.path / "blobs" / "sha256" / descriptor["digest"].split(":")[1]

    def read(self, descriptor):
        return json.loads(self.blob(descriptor).read_bytes())

    def tag(self, name):
        return next(d for d in self.index["manifests"] if d["annotations"][REF_NAME] == name)

    def signature(self, release="r1"):
        return self.tag("sha256-" + self.tag(release)["digest"].split(":")[1])

    def put(self, descriptor, data):
        """Stores other bytes and points the descriptor at them."""
        digest = hashlib.sha256(data).hexdigest()
        (self.path / "blobs" / "sha256" / digest).write_bytes(data)
        descriptor["digest"], descriptor["size"] = "sha256:" + digest, len(data)

    def put_json(self, descriptor, value):
        self.put(descriptor, json.dumps(value, separators=(",", ":"), sort_keys=True).encode())

    def save(self):
        (self.path / "index.json").write_text(json.dumps(self.index))


class Sources(Case):
    """What a client is given: verify and fetch say no, and nothing bad enters the cache."""

    def setUp(self):
        super().setUp()
        self.store = self.make_store()
        self.key, self.public = self.make_key()
        self.make_release(self.store, key=self.key)
        self.export(self.store)
        self.layout = Layout(self.tmp / "layout")
        self.cache = self.tmp / "cache"

    def fetch(self, *options, **expected):
        command = ("fetch", f"{self.layout.path}:r1", "--key", self.public, "--cache", self.cache, *options)
        if "says" in expected:
            return self.refused(*command, **expected)
        return self.cubinary(*command, **expected)

    def refuse_both(self, says):
        self.refused("verify", f"{self.layout.path}:r1", "--key", self.public, status=1, says=says)
        self.fetch(status=1, says=says)
        self.assertEqual(self.cached_artifacts(), [])

    def cached_artifacts(self):
        folder = self.cache / "v1" / "artifacts" / "sha256"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def test_the_good_case(self):
        self.cubinary("verify", f"{self.layout.path}:r1", "--key", self.public)
        self.fetch("--target", "sm_120")
        self.assertEqual(len(self.cached_artifacts()), 5)

    def test_a_wrong_key(self):
        _, self.public = self.make_key("other")
        self.refuse_both("key")

    def test_a_signature_removed(self):
        self.layout.index["manifests"].remove(self.layout.signature())
        self.layout.save()
        self.refuse_both("sign")

    def test_a_signature_of_another_release(self):
        self.make_release(self.store, "r2", key=self.key)
        self.export(self.store, "r2")
        self.layout = Layout(self.layout.path)
        wrong = self.layout.signature("r2")
        self.layout.index["manifests"].remove(self.layout.signature("r1"))
        wrong["annotations"][REF_NAME] = "sha256-" + self.layout.tag("r1")["digest"].split(":")[1]
        self.layout.save()
        self.refuse_both("sign|r2")

    def test_a_catalogue_edited_with_all_digests_recomputed(self):
        tag = self.layout.tag("r1")
        index = self.layout.read(tag)
        for descriptor in index["manifests"]:
            manifest = self.layout.read(descriptor)
            catalogue = self.layout.read(manifest["config"])
            catalogue["minimum_driver"] = 1
            self.layout.put_json(manifest["config"], catalogue)
            self.layout.put_json(descriptor, manifest)
        signature = self.layout.signature()
        self.layout.put_json(tag, index)
        signature["annotations"][REF_NAME] = "sha256-" + tag["digest"].split(":")[1]
        self.layout.save()
        self.refuse_both("sign|digest")
        # Even a signature manifest that names the new index as its subject changes nothing.
        manifest = self.layout.read(signature)
        manifest["subject"]["digest"], manifest["subject"]["size"] = tag["digest"], tag["size"]
        self.layout.put_json(signature, manifest)
        self.layout.save()
        self.refuse_both("sign|digest")

    def test_a_flipped_bit_in_any_blob(self):
        folder = self.layout.path / "blobs" / "sha256"
        empty = hashlib.sha256(b"{}").hexdigest()
        for path in sorted(folder.iterdir()):
            data = path.read_bytes()
            if path.name == empty:
                continue  # the signature's empty config says nothing and is not read
            with self.subTest(blob=path.name, size=len(data)):
                place = len(data) * 2 // 3
                path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1:])
                self.refused("verify", f"{self.layout.path}:r1", "--key", self.public, status=1,
                             says="digest|sign|sha256")
                path.write_bytes(data)
        self.cubinary("verify", f"{self.layout.path}:r1", "--key", self.public)

    def test_a_truncated_pack(self):
        pack = next(layer for descriptor in self.layout.read(self.layout.tag("r1"))["manifests"]
                    for layer in self.layout.read(descriptor)["layers"])
        path = self.layout.blob(pack)
        path.write_bytes(path.read_bytes()[:-1])
        self.fetch(status=1, says=pack["digest"].split(":")[1])

    def test_a_tag_moved_to_an_older_release(self):
        self.make_release(self.store, "r2", key=self.key)
        source = f"{self.layout.path}:prod"
        self.cubinary("release", "promote", "r2", "--as", "prod", "--store", self.store)
        self.export(self.store, "r2")
        fetch = ("fetch", source, "--key", self.public, "--cache", self.cache)
        self.assertEqual(self.cubinary(*fetch, "--json").json()["serial"], 2)
        self.cubinary("release", "promote", "r1", "--as", "prod", "--store", self.store)
        self.export(self.store, "r1")
        self.refused(*fetch, status=1, says=["serial 1", "serial 2|seen 2|older"])
        self.make_release(self.store, "r3", key=self.key)
        self.cubinary("release", "promote", "r3", "--as", "prod", "--store", self.store)
        self.export(self.store, "r3")
        self.assertEqual(self.cubinary(*fetch, "--json").json()["serial"], 3)

    def test_an_expired_release(self):
        self.make_release(self.store, "old", arguments=["--expires", "1s"], key=self.key)
        self.export(self.store, "old")
        import time
        time.sleep(2.1)
        verify = ("verify", f"{self.layout.path}:old", "--key", self.public)
        self.refused(*verify, status=1, says="expired")
        self.cubinary(*verify, "--allow-expired")

    def test_a_target_the_release_lacks(self):
        self.fetch("--target", "sm_100", status=1, says=["sm_100", "sm_90"])
        self.fetch("--target", "sm_12", status=2, says="sm_12")
        self.fetch("--kernel", "skale", status=1, says="skale")
        self.assertEqual(self.cached_artifacts(), [])

    def test_no_such_release_or_layout(self):
        self.refused("verify", f"{self.layout.path}:r9", "--key", self.public, status=1, says="r9")
        self.refused("verify", self.tmp / "nowhere", "--key", self.public, status=1, says="nowhere")
        shutil.rmtree(self.layout.path / "blobs")
        self.refused("verify", f"{self.layout.path}:r1", "--key", self.public, status=1,
                     says=["blobs/sha256|" + self.layout.tag("r1")["digest"]])


if __name__ == "__main__":
    harness.main()
