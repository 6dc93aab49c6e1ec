#!/usr/bin/env bash
# Every source is formatted by .clang-format. To fix one: clang-format -i FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# From the files where there is no git, as in a container's copy.
sources() { git ls-files -z '*.cpp' '*.hpp' 2>/dev/null || find . -path ./build -prune -o -name '*.[ch]pp' -print0; }

wrong=$(sources | xargs -0 -n 50 -P "$(nproc)" clang-format --dry-run 2>&1 | sed -n 's/^\(.*\):[0-9]*:[0-9]*: warning: .*/\1/p' | sort -u)
[ -z "$wrong" ] || { printf 'not formatted (clang-format -i):\n%s\n' "$wrong" >&2 && exit 1; }
echo "all sources are formatted"
