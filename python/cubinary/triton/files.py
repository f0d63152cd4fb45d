# SPDX-License-Identifier: Apache-2.0
"""Files of a Triton cache and of a capture folder: whole or not there."""

import json
import os
import uuid


def write(path, data):
    """A file by rename, its folders made. Safe against other threads, processes and a kill."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f"tmp.{os.getpid()}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
    return path


def write_json(path, value):
    return write(path, json.dumps(value, sort_keys=True, separators=(",", ":"), default=str))


def whole_group(folder, filename):
    """{name: path} of a group with all its files, or None: Triton 3.4 to 3.7 return what is left of a partial
    one, and crash. The files are taken from beside the group file, wherever the folder was moved to; the
    paths inside it are of where it was made."""
    try:
        with open(os.path.join(folder, f"__grp__{filename}"), encoding="utf-8") as file:
            children = json.load(file)["child_paths"]
    except (OSError, ValueError, KeyError):
        return None
    paths = {name: os.path.join(folder, name) for name in children}
    return paths if all(map(os.path.exists, paths.values())) else None
