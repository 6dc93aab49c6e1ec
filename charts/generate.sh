#!/usr/bin/env bash
# Writes the chart's README.md from README.md.gotmpl and the comments in values.yaml.
#
# charts/generate.sh           writes it
# charts/generate.sh --check   fails when it is not what would be written
#
# Needs helm-docs (or $HELM_DOCS); `tests/cluster/cluster helm-docs` builds one and prints its path.
set -euo pipefail
cd "$(dirname "$0")/compile-cache"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cp Chart.yaml values.yaml README.md.gotmpl "$out"
(cd "$out" && "${HELM_DOCS:-helm-docs}" --chart-search-root . --template-files README.md.gotmpl --sort-values-order file --log-level warning)
if [ "${1-}" = --check ]; then
  diff -u README.md "$out/README.md" || { echo "charts/compile-cache/README.md is stale: run charts/generate.sh" >&2; exit 1; }
else
  cp "$out/README.md" README.md
fi
