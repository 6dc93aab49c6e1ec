#!/usr/bin/env bash
# Everything of run.sh but CUDA, on the PyTorch of the local cluster's image. Needs root.
#
#   tests/gpu/on_cpu.sh AGENT [more options of measure.py]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
cp "$1" "$work/compilecache-agent"
shift
"$here/../torch/in_torch.sh" "$work" env TMPDIR="$work" "$here/run.sh" --device cpu --agent "$work/compilecache-agent" \
  --width 32 --layers 1 --length 8 --modes default --passes forward "$@"
