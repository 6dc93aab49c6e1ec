#!/usr/bin/env bash
# Real torch.compile on a real GPU: cold, saved, loaded, warm, a new shape, a changed setting. Prints what happened
# beside what the agent says of it, and fails where they differ. Nothing else depends on it.
#
#   tests/gpu/run.sh [--agent PROGRAM] [--python PYTHON] [--device cpu] [more options of measure.py]
#
# Needs a python3 whose PyTorch sees an NVIDIA GPU, and the agent's program; this folder and the program are all that
# has to be copied to such a machine. --device cpu tries everything but CUDA where there is a C++ compiler.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
agent=$here/../../build/agent/compilecache-agent
[ ! -x "$here/compilecache-agent" ] || agent=$here/compilecache-agent
python=python3
device=cuda
rest=()
while [ $# -gt 0 ]; do
  case $1 in
    --agent) agent=$2; shift ;;
    --python) python=$2; shift ;;
    --device) device=$2; shift ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exec "$python" "$here/measure.py" --help ;;
    *) rest+=("$1") ;;
  esac
  shift
done

if [ "$device" = cuda ]; then
  [ -e "${CC_GPU_DEVICE:-/dev/nvidiactl}" ] || { echo "no GPU, not run"; exit 0; }
  # From here on what does not work is broken, and no machine without a GPU.
  "$python" -c 'import torch, sys; sys.exit("torch sees no GPU" if not torch.cuda.is_available() else 0)' ||
    { echo "tests/gpu/run.sh: there is a GPU, and the torch of $python cannot use it; give another with --python" >&2; exit 2; }
fi
[ -x "$agent" ] || { echo "tests/gpu/run.sh: there is no program $agent; give one with --agent" >&2; exit 2; }
exec "$python" "$here/measure.py" --agent "$agent" --device "$device" "${rest[@]}"
