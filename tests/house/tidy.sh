#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy (.clang-tidy) over every source of the rooms, in parallel.
set -euo pipefail
cd "$1"
git ls-files '*.cpp' | grep -E '^(core|store|builder|server|client|cli)/' |
  xargs -r -P "$(nproc)" -n 1 clang-tidy-19 -p "$2" --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-warning-option 2>&1 | grep -v 'warnings generated\|warning generated' || true
exit "${PIPESTATUS[1]}"
