# Starts LeaderWorkerSet's controller on a cluster's node, as a process beside Kubernetes' own. Sourced.
# shellcheck shell=bash

# The controller, and what its module says of resource and webhooks.
lws_item() {
  make_item lws-controller "$(hash_of 'manifests' "$CLUSTER_HOME/lws"/go.*)" build_lws
}

build_lws() {
  local into=$1 module
  build_go_program "$into" lws-controller lws sigs.k8s.io/lws/cmd '-s -w' go.mod
  module=$(cd "$CLUSTER_HOME/lws" && GOTOOLCHAIN=auto GOWORK=off "$(find_go)" list -m -f '{{.Dir}}' sigs.k8s.io/lws)
  install -m 644 "$module"/config/crd/bases/*_leaderworkersets.yaml "$into/crd.yaml"
  install -m 644 "$module/config/webhook/manifests.yaml" "$into/webhooks.yaml"
}

# add_lws NAME: the resource LeaderWorkerSet, its webhooks and its controller, on a cluster with a node.
add_lws() {
  local run item number address
  run=$(existing_run "${1-}")
  number=$(cat "$run/number" 2>/dev/null) || die "the cluster '$1' has no node, and so no controllers"
  address=10.231.$number.2
  item=$(lws_item)
  kubectl_in "$run" apply --server-side -f "$item/crd.yaml" >/dev/null
  mkdir -p "$run/pki/lws"
  make_cert "$run" lws/tls /CN=lws "IP:$address"
  cat >"$run/lws.yaml" <<YAML
apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
webhook: {host: $address, port: 9443, certDir: $run/pki/lws}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: "127.0.0.1:9444"}
YAML
  # shellcheck disable=SC2034  # both are read by start
  START_CGROUPS=$(cgroup_procs_files "$1" | tr '\n' ' ')
  START_PREFIX=(nsenter --net="/run/netns/cc-$1-0")
  start "$run" lws-controller "$item/lws-controller" --config "$run/lws.yaml" --kubeconfig "$run/kubeconfig"
  lws_webhooks "$run" "$item" "$address" | kubectl_in "$run" apply -f - >/dev/null
  wait_for 60 "LeaderWorkerSet's webhook" "$run" lws-controller lws_answers "$run"
}

# The module's own, at the controller's address; its kustomization keeps them from pods that are of no LeaderWorkerSet.
lws_webhooks() {
  kubectl_in "$1" create --dry-run=client -o json -f "$2/webhooks.yaml" |
    jq --arg at "https://$3:9443" --arg ca "$(base64 -w0 "$1/pki/ca.crt")" '
      .metadata.name = "lws-" + .metadata.name
      | .webhooks |= map(
          .clientConfig = {url: ($at + .clientConfig.service.path), caBundle: $ca}
          | if (.name | endswith("pod.kb.io"))
            then .objectSelector = {matchExpressions: [{key: "leaderworkerset.sigs.k8s.io/name", operator: "Exists"}]}
            else . end)'
}

lws_answers() {
  kubectl_in "$1" create --dry-run=server -f - <<'YAML'
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: asks, namespace: default}
spec:
  leaderWorkerTemplate:
    workerTemplate: {spec: {containers: [{name: app, image: none}]}}
YAML
}
