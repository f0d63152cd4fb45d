#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how many tests ran and, for each skipped one, why: the reason its own output gives."""
import re
import sys


def main(path):
    text = open(path, encoding="utf-8", errors="replace").read()
    total, skipped = 0, []
    for match in re.finditer(
            r"^\d+/\d+ Testing: (?P<name>.*?)\n(?P<body>.*?)^Test (?P<status>[^\n]*)\.\n", text,
            re.M | re.S):
        total += 1
        if match["status"].startswith("Skipped") or "Skipped" in match["status"]:
            reason = re.findall(r"(?im)^.*\bskip\w*[:,]? .*$", match["body"])
            skipped.append((match["name"], reason[-1].strip() if reason else "no reason given"))
    print(f"\n== {total} tests in the list, {total - len(skipped)} ran, {len(skipped)} skipped")
    for name, reason in skipped:
        print(f"   skipped {name}: {reason}")


if __name__ == "__main__":
    main(sys.argv[1])
