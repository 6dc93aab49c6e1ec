#!/usr/bin/env bash
# Runs a command in the files of tests/cluster's PyTorch image, with this project and WORK at their own paths. Needs root.
#
#   tests/torch/in_torch.sh WORK COMMAND...
#
# WORK is an existing folder; what the command writes elsewhere goes to WORK/upper. The mounts end with the command.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(cd "$1" && pwd)
shift
root=$("$project/tests/cluster/cluster" torch-root)
mkdir -p "$work/upper" "$work/overlay" "$work/root"

# shellcheck disable=SC2016  # expanded by the inner shell
exec unshare --mount --propagation private sh -c '
  set -e
  root=$1 work=$2 project=$3
  shift 3
  mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/overlay" "$work/root"
  for folder in "$project" "$work"; do
    mkdir -p "$work/root$folder"
    mount --bind "$folder" "$work/root$folder"
  done
  mount --rbind /dev "$work/root/dev"
  mount -t proc proc "$work/root/proc"
  exec chroot "$work/root" env -i PATH=/usr/bin:/bin HOME=/root USER=root "$@"' sh "$root" "$work" "$project" "$@"
