# SPDX-License-Identifier: Apache-2.0
"""Commands with --server do what they do with --store."""

import json
import os
import re
import signal
import time

import harness
import serving


class RemoteCase(serving.Case):
    def setUp(self):
        super().setUp()
        self.serve()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token_file = self.tmp / "token"
        self.token_file.write_text(self.told["all_token"] + "\n")

    def remote(self, *arguments, **options):
        return self.cubinary(*arguments, "--server", self.url, "--token-file", self.token_file, **options)

    def local(self, *arguments, **options):
        return self.cubinary(*arguments, "--store", self.store, **options)


class Remote(RemoteCase):
    def test_reads_print_the_same(self):
        for command in [("release", "list"), ("release", "show", "r1"), ("release", "show", "r1", "--entries"),
                        ("release", "diff", "r1", "r2"), ("store", "stats"), ("token", "list")]:
            for flags in [(), ("--json",)]:
                self.assertEqual(self.remote(*command, *flags).stdout, self.local(*command, *flags).stdout,
                                 command)

    def test_reads_need_no_token_on_the_same_machine(self):
        listed = self.cubinary("release", "list", "--server", self.url, "--json").json()
        self.assertEqual([release["name"] for release in listed], ["r1", "r2"])
        refused = self.refused("token", "list", "--server", self.url, status=1, says="admin")
        self.assertIn(self.url, refused.stderr)
        env = {"CUBINARY_TOKEN": self.told["admin_token"]}
        self.cubinary("token", "list", "--server", self.url, env=env)

    def test_what_is_wrong_is_told_as_on_a_file(self):
        for command, status, says in [
            (("release", "show", "r9"), 1, "did you mean"),
            (("release", "promote", "r1", "--as", "r2"), 1, "name of a release"),
            (("token", "revoke", "nothing1"), 1, "no token"),
            (("export", self.tmp / "out", "--release", "none"), 1, "no release"),
        ]:
            self.refused(*command, "--server", self.url, "--token-file", self.token_file, status=status, says=says)
        for server in ["ftp://x", "127.0.0.1:8421", "http://", "http://a/b"]:
            self.refused("release", "list", "--server", server, status=2, says="--server")
        both = self.cubinary("release", "list", "--server", self.url, "--store", self.store, status=2)
        self.assertIn("--store", both.stderr + both.stdout)
        self.cubinary("release", "list", status=2)
        self.refused("release", "list", "--server", "http://build.example", "--token-file", self.token_file,
                     status=2, says="in the clear")

    def test_tokens(self):
        made = self.remote("token", "create", "--name", "ci", "--scope", "read", "--expires", "1h")
        self.assertRegex(made.stdout, r"\Acbt_[0-9a-f]{8}_\S+\n\Z")
        self.assertIn("scopes read", made.stderr)
        identity = made.stdout.split("_")[1]
        self.remote("token", "revoke", identity)
        states = {token["id"]: token["state"] for token in self.remote("token", "list", "--json").json()}
        self.assertEqual(states[identity], "revoked")

    def test_sign_promote_export_and_verify(self):
        # The key is here, the store is there; the made-up packs are no zstd frames, which signing never opens.
        self.cubinary("keygen", self.tmp / "key")
        signed = self.remote("release", "sign", "r2", "--key", self.tmp / "key", "--json").json()
        self.assertEqual((signed["name"], signed["serial"]), ("r2", 2))
        self.assertEqual(len(signed["key_ids"]), 1)
        self.assertIn(signed["key_ids"][0], self.local("release", "show", "r2").stdout)
        promoted = self.remote("release", "promote", "r2", "--as", "prod")
        self.assertIn("prod is now r2 (serial 2)", promoted.stdout)
        self.remote("export", self.tmp / "there", "--release", "r2")
        self.local("export", self.tmp / "here", "--release", "r2")
        names = sorted(os.listdir(self.tmp / "here" / "blobs" / "sha256"))
        self.assertEqual(sorted(os.listdir(self.tmp / "there" / "blobs" / "sha256")), names)
        self.assertEqual((self.tmp / "there" / "index.json").read_text(),
                         (self.tmp / "here" / "index.json").read_text())
        again = self.remote("export", self.tmp / "there", "--release", "r2", "--json").json()
        self.assertEqual(again["blobs_written"], 0)

    def leaves(self, *words):
        """Every command below these words that has no commands of its own, with its help."""
        text = self.cubinary(*words, "--help").stdout
        names = re.findall(r"(?m)^  (\w[\w-]*) {2,}", text[text.index("Subcommands:"):]) if "Subcommands:" in text else []
        if not names:
            return {words: text}
        found = {}
        for name in names:
            found.update(self.leaves(*words, name))
        return found

    def test_every_command_with_a_store_takes_a_server_or_says_why_not(self):
        commands = {words: text for words, text in self.leaves().items() if re.search(r"(?m)^ +--store ", text)}
        self.assertGreater(len(commands), 15)
        without = sorted(" ".join(words) for words, text in commands.items() if "--server" not in text)
        self.assertEqual(without, ["serve"])
        self.refused("serve", "--server", self.url, status=2, says=["--store", "owns the file"])
        # And each of the others gets as far as asking the server: a wrong one is named.
        nobody = f"http://127.0.0.1:{harness.free_port()}"
        for words, text in commands.items():
            if "--server" in text:
                self.assertIn("--token-file", text, words)
        self.refused("release", "list", "--server", nobody + "/path", status=2, says="--server")

    def test_revoke(self):
        self.cubinary("keygen", self.tmp / "key")
        told = self.remote("release", "revoke", "r1", self.told["r1"]["packs"][0], "--key", self.tmp / "key",
                           "--reason", "wrong for odd sizes")
        self.assertIn(f"revoked {self.told['r1']['index']}", told.stdout)
        self.assertIn("revocation list 1: 2 digests", told.stdout)
        # The next list holds the first and grows; what the server serves is signed by this key.
        more = self.remote("release", "revoke", "r2", "--key", self.tmp / "key", "--json").json()
        self.assertEqual((more["serial"], len(more["revoked"])), (2, 3))
        listed = self.ask("/api/v1/revocations").json()
        self.assertEqual({one["digest"] for one in listed["revoked"]},
                         {self.told["r1"]["index"], self.told["r1"]["packs"][0], self.told["r2"]["index"]})
        self.refused("release", "revoke", "r9", "--key", self.tmp / "key", "--server", self.url, "--token-file",
                     self.token_file, status=1, says="r9")
        # Who may not publish may not revoke.
        reader = self.tmp / "reader"
        reader.write_text(self.told["token"])
        self.refused("release", "revoke", "r1", "--key", self.tmp / "key", "--server", self.url, "--token-file", reader,
                     status=1, says="publish")

    def test_backup_fsck_gc(self):
        told = self.remote("store", "backup", self.tmp / "copy.db", "--json").json()
        self.assertEqual(told["releases"], 2)
        self.refused("store", "backup", self.tmp / "copy.db", "--server", self.url, "--token-file",
                     self.token_file, status=1, says="exists")
        self.assertIn("is sound", self.remote("store", "fsck").stdout)
        self.assertIn("would drop 0 candidates", self.remote("store", "gc", "--dry-run").stdout)
        self.assertEqual([name for name in os.listdir(self.tmp) if ".part-" in name], [])

    def test_a_server_that_restarts_is_waited_for(self):
        self.server.stop()
        waiting = self.background(harness.binary(), "release", "list", "--json", "--server", self.url)
        time.sleep(0.5)
        self.serve("--listen", f"127.0.0.1:{self.port}")
        waiting.line(r'"name":"r2"')


class Build(RemoteCase):
    """Builders somewhere, the store on a server."""

    SOURCE = """
template <typename T, int VEC> __global__ void fill(T* y, int n) {
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
  for (int k = 0; k < VEC; ++k) if (i + k < n) y[i + k] = T(i + k);
}
template <typename T> __global__ void fill_ref(T* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = T(i);
}
"""
    MANIFEST = """manifest = 1
name = "fill"
summary = "y = index"
source = "fill.cu"
entry = "fill<{T}, {VEC}>"
targets = ["sm_90"]
types.T = ["f32", "i32"]
[axes]
n = { tune = [1024], bucket = "log2" }
[tunables]
VEC = { values = [1, 2], default = 1 }
[launch]
grid = ["ceil_div(n, 128 * VEC)"]
block = [128]
args = [ { name = "y", out = "T", len = "n" }, { name = "count", scalar = "i32", is = "n" } ]
[check]
reference = { entry = "fill_ref<{T}>", grid = [1], block = [1] }
tolerance = { f32 = [1e-6, 1e-6] }
"""

    def setUp(self):
        super().setUp()
        self.folder = self.tmp / "fill"
        self.folder.mkdir()
        (self.folder / "fill.cu").write_text(self.SOURCE)
        (self.folder / "kernel.toml").write_text(self.MANIFEST)

    def build(self, **options):
        told = self.remote("build", self.folder, "--json", status=None, **options)
        if told.status == 3:
            self.skipTest("no CUDA compiler here: " + told.stderr.strip())
        self.assertEqual(told.status, 0, told)
        return told.json_lines()[-1]

    def test_two_builders_compile_once(self):
        first = self.build()
        self.assertEqual((first["ok"], first["skipped"], first["failed"]), (6, 0, 0))
        # Another machine, with an empty disk: the server has it all.
        second = self.build(env={"TMPDIR": str(self.tmp)})
        self.assertEqual((second["ok"], second["skipped"]), (6, 6))
        self.assertEqual([name for name in os.listdir(self.tmp) if name.startswith("cubinary-build")], [])
        self.assertEqual(self.remote("store", "stats", "--json").json()["candidates_ok"], 6)

        made = self.remote("release", "create", "2026.11", "--kernel", "fill")
        self.assertRegex(made.stdout, r"(?m)^fill sm_90: 2 entries, 0 tuned, 2 untuned")
        self.assertIn("--server " + self.url, made.stderr)
        self.cubinary("keygen", self.tmp / "key")
        self.remote("release", "sign", "2026.11", "--key", self.tmp / "key")
        self.remote("export", self.tmp / "layout", "--release", "2026.11")
        self.cubinary("verify", self.tmp / "layout", "--key", self.tmp / "key.pub")

        # A changed source: only that is compiled, and what was current stays in the old release.
        (self.folder / "fill.cu").write_text(self.SOURCE.replace("T(i + k)", "T(i + k + 1)"))
        third = self.build()
        self.assertEqual((third["ok"], third["skipped"]), (6, 0))
        self.assertEqual(self.remote("store", "stats", "--json").json()["candidates_ok"], 12)
        self.assertEqual(self.remote("store", "gc", "--json").json()["candidates"], 4)


if __name__ == "__main__":
    harness.main()
