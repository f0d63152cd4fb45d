#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C++ source is as clang-format lays it out. To mend: clang-format-19 -i FILE.
set -euo pipefail
cd "$1"
git ls-files -co --exclude-standard '*.hpp' '*.cpp' '*.h' '*.c' | grep -v '^tests/.*/kernels/' |
  xargs -r clang-format-19 --dry-run --Werror
