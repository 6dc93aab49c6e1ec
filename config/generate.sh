#!/usr/bin/env bash
# Writes what people install with `kubectl apply -f` from the kustomize folders:
#
#   config/install.yaml   everything
#   config/install-with-registry.yaml  the same with components/registry: no shared volume is needed
#   config/crds.yaml      the two resources alone
#   config/operator.yaml  everything but the two resources: what to delete when CompileCaches are to stay
#   config/components/prometheus-operator/rules.yaml  config/monitoring/rules.yaml as a PrometheusRule
#
# and of the Helm chart (charts/compile-cache) what no value changes but its being there:
#
#   files/                what goes into ConfigMaps and rules as it is
#   templates/            the two resources, rights, policies, Services
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

chart=charts/compile-cache
mkdir -p "$out/$chart/files/registry" "$out/$chart/templates/registry"
for file in settings.yaml components/registry/config.yml components/registry/collect.sh monitoring/rules.yaml; do
  into=${file#components/}
  cp "$file" "$out/$chart/files/${into#monitoring/}"
done

# template FILE SOURCE [CONDITION] <MANIFEST: the manifest as a template of the chart, with the chart's labels and namespace and the
# image that the policy allows.
template() {
  {
    header "$2"
    [ -z "${3-}" ] || printf '{{- if %s }}\n' "$3"
    awk 'inside && !/^  / { print "  labels: {{- include \"compilecache.labels\" . | nindent 4 }}"; inside = 0 }
         { print }
         /^metadata:$/ { inside = 1 }' |
      sed -e 's/compilecache-system/{{ .Release.Namespace }}/g' \
        -e "s|'docker.io/library/compilecache:[^']*'|'{{ include \"compilecache.agentImage\" . }}'|"
    [ -z "${3-}" ] || echo '{{- end }}'
  } >"$out/$chart/templates/$1"
}
{ cat ../crds/compilecaches.yaml && echo --- && cat ../crds/compilecachearchives.yaml; } |
  sed 's|^  name: compilecache.*|&\n  # CompileCaches outlive the release.\n  annotations: {helm.sh/resource-policy: keep}|' |
  template crds.yaml crds/ .Values.crds.install
for file in rbac job-policy services; do template $file.yaml config/operator/$file.yaml <operator/$file.yaml; done
template certificates-rbac.yaml config/operator/certificates-rbac.yaml 'not .Values.certManager.enabled' <operator/certificates-rbac.yaml
template network-policy.yaml config/operator/network-policy.yaml .Values.networkPolicy.enabled <operator/network-policy.yaml
template metrics-access.yaml config/components/metrics-access/rbac.yaml .Values.metricsAccess.enabled <components/metrics-access/rbac.yaml
template replace-stuck-pods.yaml config/components/replace-stuck-pods/rbac.yaml .Values.replaceStuckPods.enabled \
  <components/replace-stuck-pods/rbac.yaml
template registry/rbac.yaml config/components/registry/rbac.yaml .Values.registry.enabled <components/registry/rbac.yaml
documents Service 1 <components/registry/registry.yaml |
  template registry/service.yaml config/components/registry/registry.yaml .Values.registry.enabled
documents NetworkPolicy 1 <components/registry/registry.yaml |
  template registry/network-policy.yaml config/components/registry/registry.yaml \
    'and .Values.registry.enabled .Values.networkPolicy.enabled'

# written FROM TO: the file as it was written, or a complaint that it is not.
check=${1-}
written() {
  if [ "$check" = --check ]; then
    diff -u "$2" "$1" || { echo "$2 is stale: run config/generate.sh" >&2; exit 1; }
  else
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2"
  fi
}
cd ..
for file in install.yaml install-with-registry.yaml crds.yaml operator.yaml "$rules"; do written "$out/$file" "config/$file"; done
(cd "$out" && find "$chart" -type f) | while read -r file; do written "$out/$file" "$file"; done
