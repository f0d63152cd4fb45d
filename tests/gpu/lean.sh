#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The client on a real GPU where there is nothing but libc, the driver's library and, for the last step, Python:
# a root file system made for it, read-only, another UID, no network. Fetches, launches, compares with float64.
#
#   tests/gpu/lean.sh [BUILD] [LAYOUT KEY]     BUILD: build/release; LAYOUT: a release with rmsnorm, l2norm and gemm_nt,
#                                              signed by KEY; else one is built (CUBINARY_TOOLKIT)
#
# What to carry to another machine: BUILD/{bin,lib}, BUILD/tests/gpu_tests, python/, kernels/, tests/gpu/lean.*.
# Without a GPU it does all but launch. Needs root, or a system that lets others make namespaces; where neither
# root nor they may mount, a plain chroot with copied device files, which is said.
# Exit status: 0 all well, 1 something failed, 125 all but the launches was done, there being no GPU.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:-build/release}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
release=$work/release
mkdir -p "$root"/{tmp,cache,proc,dev,release,program} "$release"
chmod 755 "$work"
chmod 1777 "$root/tmp" "$root/cache"

# --- a release ---------------------------------------------------------------------------------------
if [ $# -ge 3 ]; then
  cp -r "$2" "$release/layout" && cp "$3" "$release/key.pub" || exit 3
else
  cubinary() { "$build/bin/cubinary" "$@" >>"$work/build.log" 2>&1 || { tail -20 "$work/build.log"; exit 1; }; }
  cubinary build kernels/rmsnorm kernels/l2norm kernels/gemm_nt --store "$work/k.db" --target sm_90
  cubinary keygen "$work/key"
  cubinary release create v1 --store "$work/k.db"
  cubinary release sign v1 --key "$work/key" --store "$work/k.db"
  cubinary export "$release/layout" --store "$work/k.db" --release v1
  cp "$work/key.pub" "$release/key.pub"
fi
cp -r kernels "$release/kernels" # the suite reads argument lists from the manifests
chmod -R a+rX "$release"

# --- the root ----------------------------------------------------------------------------------------
take() { # files, at their own paths, with the libraries they need
  local file
  for file in "$@"; do
    mkdir -p "$root$(dirname "$file")"
    cp -L "$file" "$root$file"
    ldd "$file" 2>/dev/null | grep -oE '/[^ ]+' | while read -r library; do
      [ -e "$root$library" ] || { mkdir -p "$root$(dirname "$library")"; cp -L "$library" "$root$library"; }
    done
  done
}
program=$root/program
cp -L "$build"/bin/cubinary-fetch* "$build/lib/libcubinary.so.0" "$build/tests/gpu_tests" "$program"
cp tests/gpu/lean.py "$program"
for file in "$program"/cubinary-fetch "$program/gpu_tests" "$program/libcubinary.so.0"; do
  ldd "$file" 2>/dev/null | grep -oE '/[^ ]+' | grep -v libcubinary | while read -r library; do take "$library"; done
done

gpu=1
ls /dev/nvidia[0-9]* >/dev/null 2>&1 || gpu=0
driver=$(ldconfig -p | awk '/libcuda\.so\.1 .*x86-64/ && !found {print $NF; found=1}')
for named in ${driver:+"$driver"} /usr/local/nvidia/lib64/libcuda.so.1; do
  if [ $gpu = 1 ] && [ -e "$named" ]; then
    take "$named"
    driver=$named
    break
  fi
done

python=$(python3 -I -c 'import os, sys; print(os.path.realpath(sys.executable))')
stdlib=$(python3 -I -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
take "$python"
mkdir -p "$root$stdlib"
tar -C "$stdlib" -cf - --exclude=site-packages --exclude=dist-packages --exclude=test --exclude=__pycache__ --exclude='config-*' . |
  tar -C "$root$stdlib" -xf -
take "$stdlib"/lib-dynload/_ctypes*.so "$stdlib"/lib-dynload/_struct*.so 2>/dev/null
cp -r python/cubinary "$program/cubinary"
mkdir -p "$program/cubinary/lib" && cp "$program/libcubinary.so.0" "$program/cubinary/lib/"

lacks=$(find "$root" \( -name 'gcc*' -o -name cc -o -name nvcc -o -name ptxas -o -name 'libnvrtc*' -o -name sh -o -name bash \
  -o -name file -o -name ldconfig -o -name Python.h \) ! -path "$root$stdlib/*" -printf '%P ')
[ -z "$lacks" ] || { echo "FAIL the root holds what it should not: $lacks"; exit 1; }

# --- how a program gets into it ----------------------------------------------------------------------
inside='
  set -e
  root=$1 release=$2; shift 2
  mount --bind "$root" "$root"
  mount --rbind /proc "$root/proc"
  mount -t tmpfs tmpfs "$root/tmp" -o mode=1777
  for node in /dev/null /dev/zero /dev/urandom /dev/nvidia*; do
    if [ -d "$node" ]; then mkdir -p "$root$node"; else [ -e "$node" ] || continue; touch "$root$node"; fi
    mount --rbind "$node" "$root$node"
  done
  mount --bind "$release" "$root/release"
  mount -t tmpfs tmpfs "$root/cache" -o mode=1777
  [ -z "$CACHE" ] || mount --bind "$CACHE" "$root/cache"
  mount -o remount,bind,ro "$root"
  exec env -u CACHE -u OLDPWD -i "$@"'
environment=(PATH=/program LD_LIBRARY_PATH="/program${driver:+:$(dirname "$driver")}" HOME=/nowhere CUDA_CACHE_DISABLE=1
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/program CUBINARY_SOURCE=/release/layout CUBINARY_KEY=/release/key.pub
  CUBINARY_TEST_SOURCE=/release/layout CUBINARY_TEST_KEY=/release/key.pub CUBINARY_TEST_KERNELS=/release/kernels TMPDIR=/tmp)
user=()
[ "$(id -u)" != 0 ] || user=(--userspec=12345:12345)
mkdir -m 1777 "$work/cache"
if unshare --mount --net true 2>/dev/null; then
  enter=(unshare --mount --net sh -c "$inside" sh "$root" "$release")
elif unshare --map-root-user --mount --net true 2>/dev/null; then
  user=()
  enter=(unshare --map-root-user --mount --net sh -c "$inside" sh "$root" "$release")
else
  echo "note: no mounting here: a plain chroot, root not read-only, with network"
  cp -a /dev/null /dev/zero /dev/urandom /dev/nvidia* "$root/dev/" 2>/dev/null
  mkdir -p "$root/proc/driver" && cp -r /proc/driver/nvidia "$root/proc/driver/" 2>/dev/null
  cp -r "$release/." "$root/release"
  enter=(env -i)
fi
lean() { CACHE=$work/cache "${enter[@]}" "${environment[@]}" chroot ${user[@]+"${user[@]}"} "$root" "$@"; }
environment[0]="PATH=/program:/usr/sbin:/usr/bin:/sbin:/bin" # of chroot itself; there is nothing of it inside

# --- the steps ---------------------------------------------------------------------------------------
failed=0
step() { # NAME STATUS COMMAND…: what must come of it
  local name=$1 wanted=$2 status
  shift 2
  lean "$@" >"$work/$name.log" 2>&1
  status=$?
  if [ $status = "$wanted" ]; then
    printf '%-16s ok     %s\n' "$name" "$(tail -1 "$work/$name.log" | cut -c1-100)"
  else
    failed=1
    printf '%-16s FAIL   status %s, not %s\n' "$name" $status "$wanted"
    tail -25 "$work/$name.log"
  fi
}
launches=0
[ $gpu = 1 ] || launches=125
step fetch 0 /program/cubinary-fetch /release/layout --key /release/key.pub --cache /cache
[ ! -e "$program/cubinary-fetch-static" ] ||
  step fetch-static 0 /program/cubinary-fetch-static /release/layout --key /release/key.pub --cache /cache --offline
step suite $launches /program/gpu_tests
step python $launches "$python" -I -S -B /program/lean.py
[ $failed = 0 ] || exit 1
[ $gpu = 1 ] || echo "SKIP the launches of tests/gpu/lean.sh: this machine has no NVIDIA GPU (no /dev/nvidia0)"
exit $launches
