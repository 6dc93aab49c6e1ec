#!/usr/bin/env bash
# Builds the benchmark and its peers, measures, and prints the targets.
#
#   tests/bench/registry/run.sh [FOLDER]           FOLDER on the disk that is to be measured, default /var/tmp/bench-registry
#   tests/bench/registry/run.sh --short [FOLDER]   small sets, few rounds: does it work, what is it like?
#
# Needs Go, curl, skopeo, openssl and zstd. Takes a quarter of an hour on two cores, --short a minute. All traffic is on loopback;
# everything ends with it, and FOLDER is removed.
set -Eeuo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../../.." && pwd)
build=${COMPILECACHE_BUILD:-$project/build}

options=(--repeat 7)
if [ "${1-}" = --short ]; then
  shift
  options=(--repeat 2 --set vllm --set noise-88 --crowd vllm --at-once 4 --rest 5)
fi
folder=${1:-/var/tmp/bench-registry}

for program in curl skopeo openssl zstd; do
  command -v "$program" >/dev/null || { echo "run.sh: needs $program" >&2; exit 3; }
done
export CCACHE_BASEDIR=$project CCACHE_NOHASHDIR=1
cmake -S "$project" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOMPILECACHE_BENCH=ON >/dev/null
ninja -C "$build" --quiet bench_registry bench_registry_step
registry=$("$here/program.sh" registry)
oras=$("$here/program.sh" oras) || { echo "run.sh: oras cannot be built here; it is left out" >&2; oras=; }

echo "$(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r), $(stat -f -c %T "$(dirname "$folder")")"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
trap 'rm -rf "$folder"' EXIT
"$build/tests/bench/registry/bench_registry" --dir "$folder" --registry "$registry" \
  --step "$build/tests/bench/registry/bench_registry_step" ${oras:+--oras "$oras"} "${options[@]}"
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
