#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Triton demonstration on a machine with a GPU, gcc, torch and Triton. See demo.py.
#   tests/gpu/triton/run.sh [--quick] [--fla DIR]     CUBINARY=path/to/cubinary goes through a store and a release
set -euo pipefail
cd "$(dirname "$0")/../../.."
cubinary=${CUBINARY:-build/release/bin/cubinary}
options=()
if [ -x "$cubinary" ] && "$cubinary" triton --help 2>/dev/null | grep hydrate >/dev/null; then
  options+=(--cubinary "$PWD/$cubinary")
else
  echo "no cubinary with triton commands at $cubinary: captures are laid down without a store and a release"
fi
exec python3 tests/gpu/triton/demo.py "${options[@]}" "$@"
