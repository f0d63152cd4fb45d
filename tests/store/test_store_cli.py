#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives `cubinary store` and `cubinary token` as a user does."""
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

CUBINARY = pathlib.Path(os.environ["CUBINARY_BIN"]) / "cubinary"
MAKE_STORE = os.environ["CUBINARY_MAKE_STORE"]


def run(*arguments):
    return subprocess.run([CUBINARY, *map(str, arguments)], capture_output=True, text=True)


class StoreCommands(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.store = self.folder / "s.db"
        subprocess.run([MAKE_STORE, self.store], check=True)

    def test_stats(self):
        done = run("store", "stats", "--store", self.store, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        stats = json.loads(done.stdout)
        self.assertEqual((stats["kernels"], stats["artifacts"], stats["candidates_ok"]), (1, 8, 8))
        self.assertEqual(stats["artifact_raw_bytes"], 8 * 6000)
        table = run("store", "stats", "--store", self.store)
        self.assertIn("artifacts", table.stdout)
        self.assertIn("48.0 KB raw; with dictionaries", table.stdout)

    def test_backup_and_fsck(self):
        copy = self.folder / "copy.db"
        done = run("store", "backup", copy, "--store", self.store)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("8 artifacts", done.stdout)
        again = run("store", "backup", copy, "--store", self.store)
        self.assertEqual(again.returncode, 1)
        self.assertIn("exists", again.stderr)
        self.assertEqual(run("store", "fsck", "--store", copy).returncode, 0)
        with sqlite3.connect(copy) as database:
            database.execute("UPDATE artifact_data SET bytes = x'00' WHERE artifact_id = 3")
        database.close()
        damaged = run("store", "fsck", "--store", copy, "--json")
        self.assertEqual(damaged.returncode, 1)
        findings = json.loads(damaged.stdout)
        self.assertFalse(findings["sound"])
        self.assertEqual(len(findings["findings"]), 1)
        self.assertIn("artifact sha256:", findings["findings"][0])

    def test_gc(self):
        dry = json.loads(run("store", "gc", "--store", self.store, "--dry-run", "--json").stdout)
        self.assertEqual((dry["candidates"], dry["artifacts"]), (2, 2))
        done = json.loads(run("store", "gc", "--store", self.store, "--json").stdout)
        self.assertEqual({**done, "dry_run": True}, dry)
        self.assertIn("dropped 0 candidates", run("store", "gc", "--store", self.store).stdout)

    def test_wrong_files(self):
        text = self.folder / "x.txt"
        text.write_text("hello")
        for path, words in ((text, "no Cubinary store"), (self.folder / "none.db", "no store")):
            done = run("store", "stats", "--store", path)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn(words, done.stderr)

    def test_tokens(self):
        made = run("token", "create", "--store", self.store, "--name", "ci", "--scope",
                   "read,publish", "--expires", "90d")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertRegex(made.stdout, r"\Acbt_[0-9a-f]{8}_[A-Za-z0-9_-]{43}\n\Z")
        secret = made.stdout.strip()
        listed = run("token", "list", "--store", self.store)
        self.assertIn("read,publish", listed.stdout)
        self.assertNotIn(secret[13:], listed.stdout)
        self.assertNotIn(secret[13:].encode(), self.store.read_bytes())
        wrong = run("token", "create", "--store", self.store, "--name", "x", "--scope", "raed")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn('did you mean "read"', wrong.stderr)
        self.assertEqual(run("token", "revoke", secret[4:12], "--store", self.store).returncode, 0)
        tokens = json.loads(run("token", "list", "--store", self.store, "--json").stdout)
        self.assertEqual([token["state"] for token in tokens], ["revoked"])
        self.assertEqual(run("token", "revoke", "00000000", "--store", self.store).returncode, 1)


if __name__ == "__main__":
    unittest.main()
