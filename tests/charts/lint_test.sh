#!/usr/bin/env bash
# lint_test.sh TREE: both Helms lint the chart without a warning, with the defaults and with everything switched on, and the table of
# values in its README is what helm-docs writes.
set -euo pipefail

tree=$1
cluster=$tree/tests/cluster/cluster
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/everything.yaml" <<'VALUES'
registry: {enabled: true}
monitoring: {enabled: true}
metricsAccess: {enabled: true}
certManager: {enabled: true}
replaceStuckPods: {enabled: true}
dashboard: {enabled: true}
caches: [{name: llama, namespace: ml, spec: {storage: {}}}]
VALUES
for helm in helm helm3; do
  for values in "$tree/charts/compile-cache/values.yaml" "$work/everything.yaml"; do
    "$("$cluster" "$helm")" lint --strict "$tree/charts/compile-cache" --values "$values"
  done
done
HELM_DOCS=$("$cluster" helm-docs) "$tree/charts/generate.sh" --check
