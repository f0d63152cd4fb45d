#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dependencies point one way: core < store < {builder, server} < cli, and core < client < cli. The server
also makes and shows releases, and judges cubins it is sent: of builder/ it may use release/ and inspect/, which
compile nothing.

Checked twice: in what the sources include, and in what the CMake files link. Heavy libraries are also
held to their rooms, so that the client can never grow SQLite or a compiler.
"""
import pathlib
import re
import sys

ALLOWED = {
    "core": {"core"},
    "store": {"core", "store"},
    "builder": {"core", "store", "builder/inspect", "builder/release", "builder"},
    "server": {"core", "store", "builder/inspect", "builder/release", "server"},
    "client": {"core", "client"},
    "cli": {"core", "store", "builder/inspect", "builder/release", "builder", "server", "client", "cli"},
}
# library header -> the rooms that may include it
HEADERS = {
    r"sqlite3\.h": {"store"},
    r"nvrtc\.h": {"builder"},
    r"httplib\.h": {"client", "cli"},
    r"toml\+\+/": {"core"},
    r"CLI/": {"cli", "client"},
    r"zstd\.h|zdict\.h": {"core"},
    r"openssl/": {"core", "client", "server", "store"},
}
# what a header may not drag in: heavy includes belong to .cpp files
HEAVY_IN_HEADER = re.compile(r'#include\s*[<"](nlohmann/json\.hpp|httplib\.h|toml\+\+/|sqlite3\.h)')
LINKS = {
    "core": {"dep_sqlite", "dep_httplib", "dep_ssl", "cubinary_store", "cubinary_builder",
             "cubinary_server", "cubinary_client_core"},
    "store": {"dep_httplib", "dep_toml", "cubinary_builder", "cubinary_server",
              "cubinary_client_core"},
    "client": {"dep_sqlite", "dep_toml", "cubinary_store", "cubinary_builder", "cubinary_server"},
    "builder": {"dep_sqlite", "dep_httplib", "cubinary_server", "cubinary_client_core"},
    "server": {"dep_sqlite", "cubinary_builder", "cubinary_client_core"},
}


def faults(root):
    found, files = [], 0
    for room, allowed in ALLOWED.items():
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in {".hpp", ".cpp", ".h", ".c"}:
                continue
            files += 1
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                where = f"{path.relative_to(root)}:{number}"
                inner = re.match(r'#include\s*"(core|store|builder/inspect|builder/release|builder|server|client|cli)/', line)
                if inner and inner[1] not in allowed:
                    found.append(f"{where}: {room} must not use {inner[1]}")
                for pattern, rooms in HEADERS.items():
                    if re.match(rf'#include\s*[<"]({pattern})', line) and room not in rooms:
                        found.append(f"{where}: {line.strip()} belongs to {', '.join(sorted(rooms))}")
                heavy = path.suffix == ".hpp" and HEAVY_IN_HEADER.match(line)
                if heavy and path.name != "json.hpp":
                    found.append(f"{where}: a heavy header belongs in a .cpp file")
        links = (root / room / "CMakeLists.txt").read_text(encoding="utf-8")
        for name in LINKS.get(room, ()):
            if re.search(rf"\b{name}\b", links):
                found.append(f"{room}/CMakeLists.txt: {room} must not link {name}")
    if files < 40:
        found.append(f"only {files} source files were seen: is {root} the project's root?")
    return found


if __name__ == "__main__":
    problems = faults(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) or "dependencies point one way")
    sys.exit(1 if problems else 0)
