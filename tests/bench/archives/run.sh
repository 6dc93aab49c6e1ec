#!/usr/bin/env bash
# Builds the benchmark and measures everything; prints the table of targets at the end of the warm part.
#
#   tests/bench/archives/run.sh [FOLDER]     FOLDER on the disk that is to be measured, default /var/tmp/bench-archives
#
# Takes a quarter of an hour on two cores. B10_PYTHON: a Python with the package b10-transfer, to have it beside the rest.
set -Eeuo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
folder=${1:-/var/tmp/bench-archives}
build=${COMPILECACHE_BUILD:-$project/build}

export CCACHE_BASEDIR=$project CCACHE_NOHASHDIR=1
cmake -S "$project" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOMPILECACHE_BENCH=ON >/dev/null
ninja -C "$build" --quiet bench_archives compilecache-agent slow_volume

bench() {
  printf '\n==== %s\n' "$*"
  "$build/tests/bench/archives/bench_archives" --dir "$folder" --agent "$build/agent/compilecache-agent" \
    ${B10_PYTHON:+--b10-python "$B10_PYTHON"} "$@"
}

echo "$(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r), $(stat -f -c %T "$(dirname "$folder")")"
uptime
bench --repeat 5
bench --cold --set small --set large --repeat 3 --peer ours --peer 'tar|zstd'
bench --slow-volume --set small --set vllm --repeat 3 --peer ours --peer 'tar|zstd'
