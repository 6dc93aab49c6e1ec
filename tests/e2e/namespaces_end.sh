#!/usr/bin/env bash
# After all tests: the operator's objects hold back none of their namespaces.
set -euo pipefail

for _ in $(seq 60); do
  left=$("${KUBECTL:-kubectl}" get namespaces --no-headers | { grep '^e2e-' || true; })
  [ -n "$left" ] || exit 0
  sleep 1
done
echo "these namespaces could not be deleted:" >&2
echo "$left" >&2
"${KUBECTL:-kubectl}" get namespaces -o yaml >&2
exit 1
