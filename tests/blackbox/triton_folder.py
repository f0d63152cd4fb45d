# SPDX-License-Identifier: Apache-2.0
"""Capture folders and caches as Triton and the plug-in make them, without Triton: real cubins of the tests and
a shared object from the C compiler that built the project."""

import base64
import hashlib
import json
import platform
import subprocess

import harness

GOLDEN = harness.SOURCE / "tests" / "builder" / "golden"
CUBINS = {"sm_90": GOLDEN / "cuda12-sm_90a.cubin", "sm_120": GOLDEN / "cuda12-sm_120a.cubin"}
KERNEL = "shared"  # a kernel both hold
H200 = "sm90-s132-l50M-b6144-m144G"
H20 = "sm90-s78-l60M-b6144-m96G"

MODULE = """
#include <stdio.h>
int answer(void) { return puts("loaded"); }
"""


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def folder_name(digest):
    """base32 of a hexadecimal digest without padding, as Triton names folders."""
    return base64.b32encode(bytes.fromhex(digest)).decode().rstrip("=")


def host_keys(source, machine=platform.machine()):
    return sorted(folder_name(sha256((source + f"{machine},Linux,64bit,{form}").encode())) for form in ("ELF", ""))


def compile_module(folder, source=MODULE):
    """A shared object from the C compiler."""
    code, module = folder / "module.c", folder / "module.so"
    code.write_text(source)
    subprocess.run([harness.find_tool("cc"), "-shared", "-fPIC", "-o", module, code], check=True)
    return module.read_bytes()


def kernel_files(name, digest, target="sm_90", variant=b"", triton="3.6.0", symbol=KERNEL):
    """What Triton keeps of one specialisation."""
    metadata = {"hash": digest, "name": symbol, "num_warps": 4, "shared": 0, "triton_version": triton,
                "target": {"backend": "cuda", "arch": int(target[3:]), "warp_size": 32}}
    return {
        f"{name}.json": json.dumps(metadata).encode(),
        f"{name}.cubin": CUBINS[target].read_bytes() + variant,
        f"{name}.ptx": b"// " + variant + b"\n.version 8.7\n" * 50,
        f"{name}.ttir": b"module { // " + variant + b" }\n" * 50,
    }


def write_kernel(folder, name, files):
    folder.mkdir(parents=True)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    paths = {file: f"/somewhere/else/{folder.name}/{file}" for file in files}
    (folder / f"__grp__{name}.json").write_text(json.dumps({"child_paths": paths}))


class Capture:
    """A capture folder that is filled."""

    def __init__(self, root, module=b"", triton="3.6.0", python_abi="cp312", machine=platform.machine()):
        self.root, self.module = root, module
        self.origin = {"triton": triton, "python_abi": python_abi, "machine": machine}
        root.mkdir(parents=True, exist_ok=True)

    def kernel(self, name, text, target="sm_90", finished=True, parts=None, **options):
        """An entry under the key of `text`; returns the key."""
        digest = sha256(f"{text} {target}".encode())
        key = folder_name(digest)
        folder = self.root / "entries" / key
        write_kernel(folder, name, kernel_files(name, digest, target, variant=text.encode(), **options))
        if finished:
            said = {"capture": 1, "kind": "kernel", "name": name, "target": target, "key_parts": parts or {},
                    **self.origin}
            (folder / "cubinary.json").write_text(json.dumps(said))
        return key

    def host(self, name, source, keys=(), file=None, module=None, **changes):
        """A host module; returns the digest of its source."""
        said = {"capture": 1, "kind": "host", "name": name, "keys": list(keys), **self.origin, **changes}
        said["file"] = file or f"{name}.cpython-{said['python_abi'][2:]}-{said['machine']}-linux-gnu.so"
        digest = sha256(source.encode())
        folder = self.root / "host" / digest
        folder.mkdir(parents=True)
        (folder / "source.c").write_text(source)
        (folder / said["file"]).write_bytes(self.module if module is None else module)
        (folder / "meta.json").write_text(json.dumps(said))
        return digest

    def autotune(self, function, text, device_class=H200, timings=None):
        key = folder_name(sha256(text.encode()))
        folder = self.root / "autotune" / device_class / key
        folder.mkdir(parents=True)
        result = {"key": [text], "configs_timings": timings or [[{"num_warps": 4}, 0.5]]}
        (folder / f"{function}.autotune.json").write_text(json.dumps(result))
        (folder / "cubinary.json").write_text(
            json.dumps({"capture": 1, "kind": "autotune", "name": function, **self.origin}))
        return key

    def records(self, *records, name="host-1", torn=""):
        folder = self.root / "records"
        folder.mkdir(exist_ok=True)
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines + torn)


class Case(harness.Case):
    """A case with a store, keys and what is done with them."""

    def setUp(self):
        super().setUp()
        self.store = self.tmp / "kernels.db"
        self.module = compile_module(self.tmp)

    def make_capture(self, name="capture", **options):
        return Capture(self.tmp / name, self.module, **options)

    def ingest(self, folder, *options, **run_options):
        return self.cubinary("triton", "capture", "--store", self.store, "--from", folder, "--json", *options,
                             **run_options).json()

    def sample(self):
        """Two kernels on two targets, two host modules, results of two GPUs; the keys by name."""
        capture = self.make_capture()
        keys = {"add": capture.kernel("add_kernel", "add"), "add2": capture.kernel("add_kernel", "add aligned"),
                "mm": capture.kernel("mm_kernel", "mm"), "add120": capture.kernel("add_kernel", "add", "sm_120"),
                "utils": capture.host("cuda_utils", "int utils;"),
                "launcher": capture.host("__triton_launcher", "int launcher;"),
                "tuned": capture.autotune("mm_kernel", "tune mm")}
        capture.autotune("mm_kernel", "tune mm", H20, [[{"num_warps": 8}, 0.7]])
        capture.records({"name": "m:add_kernel", "target": "sm_90"}, {"name": "m:mm_kernel", "target": "sm_90"})
        return capture, keys

    def release(self, name="r1", *options):
        """Creates, signs and exports; returns the source."""
        if not (self.tmp / "release.key.pub").exists():
            self.cubinary("keygen", self.tmp / "release.key")
        self.public = self.tmp / "release.key.pub"
        self.cubinary("release", "create", name, "--store", self.store, *options)
        self.cubinary("release", "sign", name, "--key", self.tmp / "release.key", "--store", self.store)
        self.layout = self.tmp / "layout"
        self.cubinary("export", self.layout, "--store", self.store, "--release", name)
        return f"{self.layout}:{name}"

    def hydrate(self, source, cache, *options, program=("cubinary", "triton", "hydrate"), **run_options):
        program, *words = program
        return self.run_program(harness.binary(program), *words, source, "--key", self.public, "--cache", cache,
                                *options, **run_options)


def check_cache(case, cache, entry_files=None):
    """Every file the index names is there with its digest, groups lead to files, and nothing else is seen.
    Returns the index."""
    index = json.loads((cache / "cubinary-triton.json").read_text())
    case.assertEqual(index["triton_index"], 1)
    for key, kernel in index["kernels"].items():
        for file, digest in kernel["files"].items():
            case.assertEqual(sha256((cache / key / file).read_bytes()), digest, f"{key}/{file}")
        [group] = [file for file in kernel["files"] if file.startswith("__grp__")]
        paths = json.loads((cache / key / group).read_text())["child_paths"]
        case.assertEqual(set(paths) | {group}, set(kernel["files"]))
        for file, path in paths.items():
            case.assertEqual(path, f"{index['cache']}/{key}/{file}")
    for modules in index["host"].values():
        for module in modules:
            for place in [cache / module["path"]] + [cache / key / module["file"] for key in module["keys"]]:
                case.assertEqual(sha256(place.read_bytes()), module["sha256"], str(place))
    for device_class, results in index["autotune"].items():
        for key, result in results.items():
            for file, digest in result["files"].items():
                place = cache / "cubinary" / "autotune" / device_class / key / file
                case.assertEqual(sha256(place.read_bytes()), digest)
    hidden = [path.name for path in cache.iterdir() if path.name.startswith(".")]
    case.assertEqual(hidden, [], "something half-made was left")
    return index
