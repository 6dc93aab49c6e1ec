#!/usr/bin/env bash
# Writes what people install with `kubectl apply -f` from the kustomize folders:
#
#   config/install.yaml   everything
#   config/install-with-registry.yaml  the same with components/registry: no shared volume is needed
#   config/crds.yaml      the two resources alone
#   config/operator.yaml  everything but the two resources: what to delete when CompileCaches are to stay
#   config/components/prometheus-operator/rules.yaml  config/monitoring/rules.yaml as a PrometheusRule
#
# config/generate.sh           writes the files
# config/generate.sh --check   fails when a file is not what would be written
#
# Needs kubectl (or $KUBECTL); no cluster.
set -euo pipefail
cd "$(dirname "$0")"
kubectl=${KUBECTL:-kubectl}

# Keeps the documents of that kind (match=1), or all others (match=0).
documents() {
  awk -v match_kind="$1" -v keep="$2" '
    function flush() { if (text != "" && found == keep) { printf "%s%s", separator, text; separator = "---\n" }
                       text = ""; found = 0 }
    /^---$/ { flush(); next }
    $0 == "kind: " match_kind { found = 1 }
    { text = text $0 "\n" }
    END { flush() }'
}

header() { printf '# Written by config/generate.sh from %s; change it there.\n' "$1"; }

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$kubectl" kustomize . >"$out/all"
{ header config/ && cat "$out/all"; } >"$out/install.yaml"
{ header crds/ && documents CustomResourceDefinition 1 <"$out/all"; } >"$out/crds.yaml"
{ header config/ && documents CustomResourceDefinition 0 <"$out/all"; } >"$out/operator.yaml"
# A kustomization cannot name a folder around its own.
here=$(realpath --relative-to="$out" .)
printf 'resources: [%s]\ncomponents: [%s/components/registry]\n' "$here" "$here" >"$out/kustomization.yaml"
{ header config/ && "$kubectl" kustomize "$out"; } >"$out/install-with-registry.yaml"
rules=components/prometheus-operator/rules.yaml
mkdir -p "$out/${rules%/*}"
{
  header config/monitoring/rules.yaml
  printf '%s\n' 'apiVersion: monitoring.coreos.com/v1' 'kind: PrometheusRule' 'metadata:' '  name: compilecache' \
    '  namespace: compilecache-system' 'spec:'
  grep -v '^#' monitoring/rules.yaml | sed 's/^./  &/'
} >"$out/$rules"

for file in install.yaml install-with-registry.yaml crds.yaml operator.yaml "$rules"; do
  if [ "${1-}" = --check ]; then
    diff -u "$file" "$out/$file" || { echo "config/$file is stale: run config/generate.sh" >&2; exit 1; }
  else
    cp "$out/$file" "$file"
  fi
done
