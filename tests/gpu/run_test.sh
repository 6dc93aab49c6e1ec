#!/usr/bin/env bash
# A machine without a GPU differs from one with a broken torch: the latter fails. Needs neither of them.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# expect EXIT WORDS DEVICE PYTHON: what run.sh ends with and says where python3 is that line of shell.
expect() {
  local exit=$1 words=$2 device=$3 code=0
  printf '#!/bin/sh\n%s\n' "$4" >"$scratch/python"
  chmod +x "$scratch/python"
  CC_GPU_DEVICE=$device "$here/run.sh" --python "$scratch/python" --agent /bin/true >"$scratch/out" 2>&1 || code=$?
  if [ "$code" != "$exit" ] || ! grep -q -- "$words" "$scratch/out"; then
    echo "FAILED: device $device, python '$4': exit $code, and: $(cat "$scratch/out")" >&2
    exit 1
  fi
}

expect 0 "^no GPU, not run$" "$scratch/none" 'exit 1'
expect 2 "there is a GPU, and the torch of .* cannot use it" /dev/null 'echo "ImportError: libcudart.so" >&2; exit 1'
expect 9 "measure.py --agent /bin/true --device cuda" /dev/null '[ "$1" = -c ] && exit 0; echo "$@"; exit 9'
