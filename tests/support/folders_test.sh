#!/usr/bin/env bash
# Each folder with what it depends on is a tree of its own that cmake takes, tests included, as CONTRIBUTING says.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

failed=0
for folders in "base" "base;frameworks;api" "base;archive" "base;archive;store" "base;frameworks" "base;http" "base;kube" "base;frameworks;api;podspec;webhook" \
  "base;frameworks;archive;store;api;http;agent" "base;frameworks;api;podspec;kube;http;webhook;operator" \
  "base;frameworks;api;podspec;kube;http;webhook;operator;cli"; do
  cmake -S "$project" -B "$scratch/${folders//;/_}" -G Ninja "-DCOMPILECACHE_FOLDERS=$folders" >"$scratch/log" 2>&1 ||
    { failed=1 && echo "FAILED: $folders" && grep -A 6 '^CMake Error' "$scratch/log"; } >&2
done
exit $failed
