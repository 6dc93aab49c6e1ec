#!/usr/bin/env bash
# Writes what people install with `kubectl apply -f` from the kustomize folders:
#
#   config/install.yaml   everything
#   config/install-with-registry.yaml  the same with components/registry: no shared volume is needed
#   config/crds.yaml      the two resources alone
#   config/operator.yaml  everything but the two resources: what to delete when CompileCaches are to stay
#   config/operator-with-registry.yaml  the same with components/registry
#   config/components/prometheus-operator/rules.yaml  config/monitoring/rules.yaml as a PrometheusRule
#
# and of the Helm chart (charts/compile-cache) what no value changes but its being there:
#
#   files/                what goes into ConfigMaps and rules as it is
#   templates/            the two resources, rights, policies, Services
#
# The image's name, image/repository, is written into config/operator/, the chart's values and an example too.
#
# config/generate.sh           writes the files
# config/generate.sh --check   fails when a file is not what would be written
#
# Needs kubectl (or $KUBECTL); no cluster.
set -euo pipefail
cd "$(dirname "$0")"
kubectl=${KUBECTL:-kubectl}
repository=$(cat ../image/repository)

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

check=${1-}
# written FROM TO: the file as it was written, or a complaint that it is not.
written() {
  if [ "$check" = --check ]; then
    diff -u "$2" "$1" || { echo "$2 is stale: run config/generate.sh" >&2; exit 1; }
  elif ! cmp -s "$1" "$2"; then
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2"
  fi
}

# named FILE SCRIPT: the file with the image's name of image/repository, whose place the sed script tells.
named() { sed -E "$2" "../$1" >"$out/named" && written "$out/named" "../$1"; }

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
named config/operator/deployment.yaml "s#^( *image: ).*:([^:/]+)\$#\\1$repository:\\2#"
named config/operator/job-policy.yaml "/^  - name: image\$/{n;s#'.*:([^:/']+)'#'$repository:\\1'#}"
named examples/prewarm-argo-cd/prewarm.yaml "s#^( *image: ).*/compilecache:([0-9.]+)\$#\\1$repository:\\2#"
named charts/compile-cache/values.yaml "0,/^  repository: /s#^(  repository: ).*#\\1$repository#"
"$kubectl" kustomize . >"$out/all"
{ header config/ && cat "$out/all"; } >"$out/install.yaml"
{ header crds/ && documents CustomResourceDefinition 1 <"$out/all"; } >"$out/crds.yaml"
{ header config/ && documents CustomResourceDefinition 0 <"$out/all"; } >"$out/operator.yaml"
# A kustomization cannot name a folder around its own.
here=$(realpath --relative-to="$out" .)
printf 'resources: [%s]\ncomponents: [%s/components/registry]\n' "$here" "$here" >"$out/kustomization.yaml"
"$kubectl" kustomize "$out" >"$out/all-with-registry"
{ header config/ && cat "$out/all-with-registry"; } >"$out/install-with-registry.yaml"
{ header config/ && documents CustomResourceDefinition 0 <"$out/all-with-registry"; } >"$out/operator-with-registry.yaml"
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
for file in settings.yaml components/registry/config.yml components/registry/collect.sh components/registry/serve.sh monitoring/rules.yaml \
  monitoring/dashboard.json; do
  into=${file#components/}
  cp "$file" "$out/$chart/files/${into#monitoring/}"
done

# template FILE SOURCE [CONDITION] <MANIFEST: the manifest as a template of the chart, with the chart's labels, annotations, names
# and namespace, and the image that the policy allows. An object's own labels stand on one line.
template() {
  {
    header "$2"
    [ -z "${3-}" ] || printf '{{- if %s }}\n' "$3"
    awk '
      inside && !/^  / {
        extra = labels == "" ? "" : " \"labels\" (fromYaml `" labels "`)"
        if (keep) extra = extra " \"annotations\" (ternary (dict \"helm.sh/resource-policy\" \"keep\") (dict) .Values.crds.keep)"
        print "  {{- include \"compilecache.metadata\" (dict \"root\" ." extra ") | nindent 2 }}"
        inside = 0; labels = ""; keep = 0
      }
      inside && /^  labels: / { labels = substr($0, 11); next }
      /^kind: CustomResourceDefinition$/ { keep = 1 }
      account && /^  name: / { print "  name: {{ include \"compilecache.serviceAccountName\" . }}"; account = 0; next }
      { print }
      /^- kind: ServiceAccount$/ { account = 1 }
      /^metadata:$/ { inside = 1 }' |
      sed -E -e 's/^(  name|  policyName): compilecache-(operator|metrics-reader|view|edit)/\1: {{ include "compilecache.fullname" . }}-\2/' \
        -e 's/system:serviceaccount:compilecache-system:compilecache-operator/system:serviceaccount:{{ .Release.Namespace }}:{{ include "compilecache.serviceAccountName" . }}/' \
        -e 's/compilecache-system/{{ .Release.Namespace }}/g' \
        -e 's/targetPort: 9444/targetPort: {{ .Values.operator.agentPort }}/' \
        -e "s|'$repository:[^']*'|'{{ include \"compilecache.agentImage\" . }}'|"
    [ -z "${3-}" ] || echo '{{- end }}'
  } >"$out/$chart/templates/$1"
}
{ cat ../crds/compilecaches.yaml && echo --- && cat ../crds/compilecachearchives.yaml; } | template crds.yaml crds/ .Values.crds.enabled
# The ServiceAccount has values of its own: templates/service-account.yaml.
documents ServiceAccount 0 <operator/rbac.yaml | template rbac.yaml config/operator/rbac.yaml
for file in job-policy services; do template $file.yaml config/operator/$file.yaml <operator/$file.yaml; done
template user-rbac.yaml config/operator/user-rbac.yaml .Values.rbac.aggregateClusterRoles <operator/user-rbac.yaml
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

cd ..
for file in install.yaml install-with-registry.yaml crds.yaml operator.yaml operator-with-registry.yaml "$rules"; do written "$out/$file" "config/$file"; done
(cd "$out" && find "$chart" -type f) | while read -r file; do written "$out/$file" "$file"; done
