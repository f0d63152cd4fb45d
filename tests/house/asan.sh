#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the unit tests under AddressSanitizer and UBSan, and reports the line coverage they reach, by room.
set -euo pipefail
build=$1
cd "$(dirname "$0")/../.."
find "$build" -name '*.gcda' -delete
ctest --test-dir "$build" -L unit --parallel 2 --output-on-failure --no-tests=error
# One thread: with more, an error in one of them leaves gcovr waiting for ever.
gcovr --root . --object-directory "$build" --gcov-ignore-parse-errors \
  --filter '(core|store|builder|server|client)/' --json-summary "$build/coverage.json" >/dev/null
python3 - "$build" <<'PY'
import collections, json, sys
build = sys.argv[1]
rooms = collections.defaultdict(lambda: [0, 0])
for file in json.load(open(f"{build}/coverage.json"))["files"]:
    room = rooms[file["filename"].split("/")[0]]
    room[0] += file["line_covered"]
    room[1] += file["line_total"]
lines = ["", "== line coverage of the unit tests (black-box suites drive other binaries and are not counted)"]
for name, (covered, total) in sorted(rooms.items()):
    lines.append(f"   {name:8} {100 * covered / total:5.1f}% of {total} lines")
text = "\n".join(lines)
open(f"{build}/coverage.txt", "w").write(text + "\n")
print(text)
assert rooms, "gcovr saw no file"
PY
