#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source carries its licence line, every relative link in the documentation leads somewhere, and
no file grows past what a reader can hold."""
import pathlib
import re
import subprocess
import sys

CODE = {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh", ".py", ".cmake", ".sh"}
MAX_LINES = 600


def faults(root):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, text=True,
                            capture_output=True)
    if listed.returncode != 0:
        print(f"skipped: not a git checkout: {listed.stderr.strip()}")
        sys.exit(125)
    found = []
    for name in listed.stdout.splitlines():
        path = root / name
        if not path.is_file():
            continue
        if path.suffix in CODE or path.name == "CMakeLists.txt":
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            # Tests keep deliberately odd sources (byte order mark, CRLF, empty files) as inputs.
            fixture = "tests" in path.parts and path.suffix in {".cu", ".cuh", ".h"}
            if not fixture and "SPDX-License-Identifier: Apache-2.0" not in "".join(lines[:3]):
                found.append(f"{name}:1: no SPDX-License-Identifier line")
            if len(lines) > MAX_LINES:
                found.append(f"{name}: {len(lines)} lines, at most {MAX_LINES}: one idea a file")
        if path.suffix == ".md":
            text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
            for link in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", text):
                if not (path.parent / link).exists():
                    found.append(f"{name}: link to {link} leads nowhere")
    return found


if __name__ == "__main__":
    problems = faults(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) or "self-contained")
    sys.exit(1 if problems else 0)
