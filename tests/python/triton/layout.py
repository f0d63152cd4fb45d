# SPDX-License-Identifier: Apache-2.0
"""A capture folder laid down as schema/triton.md section 4 says, without a store or a release: what the plug-in's
tests read. The real way is `cubinary triton hydrate`, which its own suite drives."""

import hashlib
import json
import pathlib
import shutil


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lay_down(capture, cache, keep=lambda kind, name: True):
    """Hydrate `cache` from the folder `capture`; the index. `keep(kind, name)` leaves out what it refuses."""
    capture, cache = pathlib.Path(capture), pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    index = {
        "triton_index": 1,
        "cubinary": "0.1.0",
        "release": "r1",
        "index": "sha256:0",
        "key_id": "",
        "source": "test",
        "cache": str(cache),
        "device_class": "",
        "misses": str(cache / "cubinary-misses.jsonl"),
        "kernels": {},
        "host": {},
        "autotune": {},
    }
    for meta in sorted(capture.glob("entries/*/cubinary.json")):
        entry = json.loads(meta.read_text())
        if not keep("kernel", entry["name"]):
            continue
        key = meta.parent.name
        place = cache / key
        shutil.copytree(meta.parent, place)
        (place / "cubinary.json").unlink()
        for group in place.glob("__grp__*"):
            names = json.loads(group.read_text())["child_paths"]
            group.write_text(json.dumps({"child_paths": {name: str(place / name) for name in names}}))
        index["kernels"][key] = {
            part: entry[part] for part in ("name", "target", "triton", "python_abi", "machine", "key_parts")
        }
        index["kernels"][key]["files"] = {file.name: digest(file) for file in sorted(place.iterdir())}
    for meta in sorted(capture.glob("host/*/meta.json")):
        module = json.loads(meta.read_text())
        source = meta.parent.name
        place = cache / "cubinary/host" / f"{source}-{module['python_abi']}-{module['machine']}"
        place.mkdir(parents=True)
        so = place / module["file"]
        shutil.copy(meta.parent / module["file"], so)
        for key in module["keys"]:
            (cache / key).mkdir(exist_ok=True)
            shutil.copy(so, cache / key / module["file"])
        index["host"].setdefault(source, []).append(
            {
                part: module[part]
                for part in ("name", "file", "triton", "python_abi", "machine", "glibc_floor", "keys")
            }
            | {"path": str(so.relative_to(cache)), "sha256": digest(so), "size": so.stat().st_size}
        )
    for result in sorted(capture.glob("autotune/*/*/*.autotune.json")):
        device, key = result.parts[-3:-1]
        place = cache / "cubinary/autotune" / device / key
        place.mkdir(parents=True)
        shutil.copy(result, place)
        index["autotune"].setdefault(device, {})[key] = {
            "files": {result.name: digest(result)},
            "triton": "",
            "python_abi": "",
        }
    (cache / "cubinary-triton.json").write_text(json.dumps(index))
    return index
