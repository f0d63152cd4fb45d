#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""skips.py LAST_TEST_LOG CLOSING_LINES: how many tests ran, and why each skipped one, or skipped part of
one, did: the reason its own output gives."""
import re
import sys

SKIP = re.compile(r"^.*\b(?:SKIP|SKIPPED|skipped)\b.*$", re.M)


def main(log_path, closing_path):
    log = open(log_path, encoding="utf-8", errors="replace").read()
    closing = open(closing_path, encoding="utf-8", errors="replace").read()
    whole = set(re.findall(r"^\s*\d+ - (.*) \(Skipped\)$", closing, re.M))
    tests = re.findall(r"^\d+/\d+ Testing: (.*?)\n.*?^Output:\n-+\n(.*?)^<end of output>", log,
                       re.M | re.S)
    print(f"\n== {len(tests)} tests, {len(tests) - len(whole)} ran, {len(whole)} skipped")
    for name, output in tests:
        reasons = [line.strip() for line in dict.fromkeys(SKIP.findall(output))]
        if name in whole:
            print(f"   skipped {name}: {reasons[-1] if reasons else 'no reason given'}")
        elif not name.startswith(("asan.", "tsan.")):
            for reason in reasons:
                if not re.match(r"(OK|FAILED) \(|Filters:", reason):
                    print(f"   in part {name}: {reason[:160]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
