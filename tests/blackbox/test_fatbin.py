# SPDX-License-Identifier: Apache-2.0
"""`cubinary export --fatbin`: the release's cubins, as they are, a file a code over all targets."""

import hashlib
import json
import shutil
import struct

import harness
import toolkits

KERNELS = harness.SOURCE / "tests" / "builder" / "kernels"


def images(path):
    """[(architecture, bytes)] of a fat binary's images; any kind but a plain cubin is an error."""
    data = path.read_bytes()
    magic, version, header, size = struct.unpack_from("<IHHQ", data)
    assert (magic, version) == (0xBA55ED50, 1) and header + size == len(data), path
    found = []
    at = header
    while at < len(data):
        kind, _, entry_header, padded = struct.unpack_from("<HHIQ", data, at)
        (architecture,) = struct.unpack_from("<I", data, at + 28)
        assert kind == 2, f"{path}: an image that is no ELF, but of kind {kind}"
        found.append((architecture, data[at + entry_header:at + entry_header + padded]))
        at += entry_header + padded
    return found


class FatBinaries(harness.Case):
    def setUp(self):
        super().setUp()
        if why := toolkits.missing() or toolkits.fatbinary_missing():
            self.skipTest(why)
        self.store = self.tmp / "s.cubinary"
        built = self.cubinary("build", KERNELS / "scale", "--store", self.store, "--json")
        self.sizes = {line["artifact"]: line["raw_size"] for line in built.json_lines() if "artifact" in line}
        self.cubinary("release", "create", "r1", "--store", self.store)

    def export(self, *arguments, **options):
        folder = self.tmp / "fatbins"
        result = self.cubinary("export", folder, "--release", "r1", "--fatbin", "--json", *arguments, **options).json()
        return folder, result, json.loads((folder / "fatbins.json").read_text())

    def check(self, folder, told, listed):
        self.assertEqual(listed["release"], "r1")
        files = {entry["file"] for entry in listed["fatbinaries"]}
        self.assertEqual(files | {"fatbins.json"}, {path.name for path in folder.iterdir()})
        self.assertEqual(sorted(told["files"]), sorted(files))
        types = set()
        for entry in listed["fatbinaries"]:
            types.add(entry["types"]["T"])
            self.assertRegex(entry["file"], rf"^scale-{entry['types']['T']}-[0-9a-f]{{12}}\.fatbin$")
            self.assertEqual(set(entry["images"]), {"sm_90", "sm_120"})
            self.assertTrue(entry["configs"])
            held = dict(images(folder / entry["file"]))
            self.assertEqual(set(held), {90, 120})
            for target, image in entry["images"].items():
                digest = image["artifact"].removeprefix("sha256:")
                cubin = held[int(target[3:])][:self.sizes[digest]]
                self.assertEqual(hashlib.sha256(cubin).hexdigest(), digest)
                self.assertIn(image["symbols"][0].encode(), cubin)
        self.assertEqual(types, {"f32", "i32"})
        self.assertEqual(told["cubins"], 2 * len(files))

    def test_a_file_a_code_holds_every_target(self):
        first = self.export("--store", self.store)
        self.check(*first)
        bytes_of = {path.name: path.read_bytes() for path in first[0].iterdir()}
        # Again, into the same folder: the same files.
        self.check(*self.export("--store", self.store))
        self.assertEqual({path.name: path.read_bytes() for path in first[0].iterdir()}, bytes_of)

    def test_from_a_server(self):
        server = self.background(harness.binary(), "serve", "--store", self.store, "--listen", "127.0.0.1:0")
        url = server.line(r"http://[\d.]+:\d+").group(0)
        self.check(*self.export("--server", url))

    def test_what_is_not_there(self):
        (self.tmp / "empty").mkdir()
        self.refused("export", self.tmp / "f", "--store", self.store, "--release", "r1", "--fatbin", "--toolkit",
                     self.tmp / "empty", status=3, says=["no fatbinary", "empty", "--toolkit DIR"])  # fmt: skip
        self.refused("export", self.tmp / "f", "--store", self.store, "--release", "r2", "--fatbin", status=1, says="r2")
        self.refused("export", self.tmp / "f", "--store", self.store, "--release", "r1", "--toolkit", self.tmp, status=2,
                     says="--fatbin")
        self.assertFalse((self.tmp / "f").exists())

    def test_another_tool_lists_the_images(self):
        cuobjdump = shutil.which("cuobjdump") or shutil.which("/usr/local/cuda/bin/cuobjdump")
        if cuobjdump is None:
            self.skipTest("no cuobjdump")
        folder, told, _ = self.export("--store", self.store)
        listed = self.run_program(cuobjdump, "--list-elf", folder / told["files"][0]).stdout
        self.assertIn("sm_90.cubin", listed)
        self.assertIn("sm_120.cubin", listed)


if __name__ == "__main__":
    harness.main()
