#!/usr/bin/env bash
# Shows a pod that starts warm: a cold pod compiles and its cache is saved, a new pod gets it before it starts.
#
#   examples/demo.sh                   on Debian 12 as root, with nothing but git and this tree: installs what is
#                                      missing, builds, starts a Kubernetes cluster on this machine, takes it down
#   examples/demo.sh --keep            leaves the cluster up at the end, also when something failed
#   examples/demo.sh --context NAME --image IMAGE [--torch-image IMAGE] [--storage-class NAME | --one-node]
#                                      on a cluster of yours (a context of your kubeconfig). IMAGE is what you built
#                                      with `docker build -t IMAGE .` and pushed; it is not needed where the operator
#                                      is installed already. Needs kubectl and jq here, and a storage class with
#                                      ReadWriteMany there, or, with --one-node, a cluster of one node (kind), where a
#                                      folder of the node stands for it. The namespace compilecache-demo is made and removed.
#
# Ends with 0 only when the second pod was warm. Everything that is built once, and the log of hidden output, is kept in
# ${COMPILECACHE_CACHE:-~/.cache/compilecache}. Interrupted, it takes down what it started; begun again, it goes on with
# what was built.
set -Eeuo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$project/tests/support/steps.sh"
source "$project/tests/support/install_manifest.sh"
examples=$project/examples/torch-compile
cluster=$project/tests/cluster/cluster
cache=${COMPILECACHE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/compilecache}
namespace=compilecache-demo
name=demo             # of the local cluster
context='' image='' torch_image='' storage_class='' one_node='' keep=''
volume='' started='' made_namespace=''

usage() { sed -n '2,/^# what was/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
tell() { echo && say "$@"; }
die() {
  printf '\ndemo: %s\n' "$*" >&2
  exit 1
}

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --keep) keep=yes ;;
      --one-node) one_node=yes ;;
      --context) context=${2:?--context needs a name; kubectl config get-contexts lists them} && shift ;;
      --image) image=${2:?--image needs a name} && shift ;;
      --torch-image) torch_image=${2:?--torch-image needs a name} && shift ;;
      --storage-class) storage_class=${2:?--storage-class needs a name} && shift ;;
      -h | --help) usage && exit 0 ;;
      *) usage >&2 && exit 2 ;;
    esac
    shift
  done
}

# Takes everything down, whatever happened.
at_end() {
  local code=$?
  trap - EXIT INT TERM HUP
  if [ -n "$keep" ] && [ -n "$started$made_namespace" ]; then
    what_is_left
  elif [ -n "$started$made_namespace" ]; then
    [ $code -eq 0 ] || logs_of_a_failure
    tell "taking down what the demo made"
  fi
  steps_clean_up
  [ $code -ne 0 ] || say "done"
  exit $code
}

# unless_kept COMMAND...: to be done at the end.
unless_kept() { [ -n "$keep" ] || steps_undo "$@"; }

what_is_left() {
  tell "left up, as you asked. Look around:"
  if [ -n "$context" ]; then
    echo "  kubectl --context $context -n $namespace get cc,cca,pods"
    echo "  kubectl --context $context delete namespace $namespace     # takes the demo away"
  else
    echo "  $("$cluster" env "$name")"
    echo "  alias kubectl='$cluster kubectl $name'      # where no kubectl is installed"
    echo "  kubectl -n $namespace get cc,cca,pods"
    echo "  $cluster down $name && rm -rf $volume       # takes it down"
  fi
}

logs_of_a_failure() {
  tell "what the cluster says about it"
  kube get cc,cca,pods,events -n "$namespace" || true
  kube logs -n compilecache-system -l app.kubernetes.io/name=compilecache-operator --prefix --tail=30 || true
}

kube() {
  if [ -n "$context" ]; then
    kubectl --context "$context" "$@"
  else
    "$cluster" kubectl "$name" "$@"
  fi
}
in_demo() { kube -n "$namespace" "$@"; }

# eventually SECONDS WHAT COMMAND...: until it succeeds, with a sign of life every 15 s.
eventually() {
  local limit=$1 what=$2 began=$SECONDS
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $((SECONDS - began)) -lt "$limit" ] || die "$what did not happen within $limit s"
    [ $(((SECONDS - began) % 15)) -ne 14 ] || printf '        ... %d s, waiting until %s\n' $((SECONDS - began)) "$what"
    sleep 1
  done
}

# ---- a cluster on this machine

build_image() { "$cluster" build-image "$(operator_image "$project/config/install.yaml")" >"$steps_state/image"; }

start_cluster() {
  "$cluster" up "$name" --with-torch
  "$cluster" load-image "$name" "$(cat "$steps_state/image")"
}

# unless_ready PART SECONDS: what `cluster prepare PART` will take.
unless_ready() { if "$cluster" ready "$1"; then echo 0; else echo "$2"; fi; }

# The seconds are of a machine with two cores on which nothing was built before.
start_local_cluster() {
  local reason
  reason=$("$cluster" check 2>&1) || { printf '%s\n' "$reason" >&2 && exit 3; }
  "$cluster" list | grep -qx "$name up" && die "the cluster '$name' is up already; take it down: $cluster down $name"
  steps_plan node "$(unless_ready node 520)" "Kubernetes from its Go modules"
  steps_plan torch "$(unless_ready torch 180)" "an image with PyTorch from Debian's packages"
  steps_plan image 300 "the operator's image from the Dockerfile"
  steps_plan cluster 15 "etcd, API server, controllers, scheduler, DNS, kubelet, kube-proxy and containerd"
  steps_plan pods 60 "two pods"
  say "a demo on this machine: about $(in_words "$(steps_left)"); all that is not shown goes to $steps_log"
  step node "$cluster" prepare node
  step torch "$cluster" prepare torch
  step image build_image
  torch_image=${torch_image:-$("$cluster" torch-image)}
  volume=$(mktemp -d "${TMPDIR:-/var/tmp}/compilecache-demo.XXXXXX")
  chmod 755 "$volume"   # pods of any user reach the store in it
  started=yes
  unless_kept rm -rf "$volume"
  unless_kept "$cluster" down "$name"
  step cluster start_cluster
}

# ---- on any cluster

manifest() { sed "s|^\( *image: \).*|\1${image:-$(operator_image "$project/config/install.yaml")}|" "$project/config/install.yaml"; }

install_operator() {
  if kube get deployment compilecache-operator -n compilecache-system >/dev/null 2>&1; then
    tell "the operator is installed already"
  else
    [ -z "$context" ] || [ -n "$image" ] ||
      die "--context needs --image: docker build -t REGISTRY/compilecache:0.2.0 . && docker push REGISTRY/compilecache:0.2.0"
    tell "kubectl apply -f config/install.yaml"
    manifest >"$steps_state/install.yaml"
    [ -z "$context" ] || unless_kept kubectl --context "$context" delete --ignore-not-found -f "$steps_state/install.yaml"
    kube apply -f "$steps_state/install.yaml" | sed 's/^/        /'
  fi
  kube rollout status deployment/compilecache-operator -n compilecache-system --timeout=180s | tail -n 1 | sed 's/^/        /'
  eventually 60 "the webhook has its certificate" webhook_is_trusted
}

webhook_is_trusted() {
  [ -n "$(kube get mutatingwebhookconfiguration compilecache -o 'jsonpath={.webhooks[0].clientConfig.caBundle}')" ]
}

# A cluster of one node needs no storage: a folder of the node stands for the shared volume.
make_local_volume() {
  kube apply -f - >/dev/null <<YAML
apiVersion: v1
kind: PersistentVolume
metadata: {name: compilecache-demo}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: $namespace, name: compile-caches}
  hostPath: {path: ${volume:-/var/lib/compilecache-demo}, type: DirectoryOrCreate}
YAML
}

claim() {
  if [ -n "$one_node" ]; then
    # By its own name, whatever the cluster's default class is.
    sed 's|^spec:|spec:\n  storageClassName: ""|' "$examples/claim.yaml"
  elif [ -n "$storage_class" ]; then
    sed "s|^spec:|spec:\n  storageClassName: $storage_class|" "$examples/claim.yaml"
  else
    cat "$examples/claim.yaml"
  fi
}

deployment() {
  if [ -n "$torch_image" ]; then
    sed "s|^\( *image: \).*|\1$torch_image|" "$examples/deployment.yaml"
  else
    cat "$examples/deployment.yaml"
  fi
}

make_cache() {
  tell "a claim and a CompileCache (examples/torch-compile/)"
  kube get namespace "$namespace" >/dev/null 2>&1 &&
    die "the namespace $namespace exists: kubectl delete namespace $namespace"
  made_namespace=yes
  [ -z "$context" ] || unless_kept kubectl --context "$context" delete namespace "$namespace" --ignore-not-found
  kube create namespace "$namespace" >/dev/null
  if [ -z "$context" ] || [ -n "$one_node" ]; then
    [ -z "$context" ] || unless_kept kubectl --context "$context" delete persistentvolume compilecache-demo --ignore-not-found
    make_local_volume
  fi
  claim | in_demo apply -f - | sed 's/^/        /'
  in_demo apply -f "$examples/compilecache.yaml" | sed 's/^/        /'
  in_demo wait --for=condition=Ready cc/transformer --timeout=180s | sed 's/^/        /' ||
    { in_demo describe cc transformer | tail -n 40 && die "the CompileCache did not become Ready"; }
}

# The one pod's name; fails while there is none.
pod_name() { in_demo get pods -l app=transformer -o 'jsonpath={.items[0].metadata.name}'; }

# The line of JSON that the pod prints once it has compiled.
result_of() { in_demo logs "$1" -c transformer 2>/dev/null | grep '^{"compile_seconds"'; }

archive_field() { in_demo get cca -o json | jq -er "[.items[] | select(.status.head)][0] | $1"; }
# The pod's entry in the CompileCache's status.
recent_field() { in_demo get cc transformer -o json | jq -er ".status.recent[] | select(.pod == \"$1\") | $2"; }

run_pod_one() {
  tell "pod one: nothing is saved yet, so it compiles"
  in_demo apply -f "$examples/application.yaml" | sed 's/^/        /'
  deployment | in_demo apply -f - | sed 's/^/        /'
  eventually 60 "there is a pod" pod_name
  pod_one=$(pod_name)
  eventually 600 "pod one has compiled" result_of "$pod_one"
  result_one=$(result_of "$pod_one")
  echo "        $result_one"
  tell "its cache is saved once the directory has been still for the quiet period"
  eventually 120 "the archive is saved" archive_field .status.head.manifestDigest
}

run_pod_two() {
  tell "pod one goes; pod two, new, gets its cache before it starts"
  in_demo scale deployment transformer --replicas=0 | sed 's/^/        /'
  in_demo wait --for=delete pod -l app=transformer --timeout=120s >/dev/null
  saved_by=$(archive_field .status.head.savedBy)
  saved_size=$(archive_field .status.summary.size)
  saved_files=$(archive_field .status.head.files)
  echo "        $saved_by has saved for $(archive_field .spec.key.GPUProduct): $saved_files files, $saved_size compressed"
  in_demo scale deployment transformer --replicas=1 | sed 's/^/        /'
  eventually 60 "there is a pod" pod_name
  pod_two=$(pod_name)
  eventually 600 "pod two has compiled" result_of "$pod_two"
  result_two=$(result_of "$pod_two")
  echo "        $result_two"
  eventually 60 "the status tells of pod two" recent_field "$pod_two" '.effect | select(. != null and . != "" and . != "unused")'
  load=$(recent_field "$pod_two" .load)
  milliseconds=$(recent_field "$pod_two" .milliseconds)
  effect=$(recent_field "$pod_two" .effect)
}

show_table() {
  local row='  %-28s %-26s %s\n' field
  tell "both pods"
  # shellcheck disable=SC2059
  {
    printf "$row" '' 'pod one' 'pod two'
    printf "$row" 'archive loaded' 'none' "$load, in $milliseconds ms"
    for field in compile_seconds fxgraph_cache_hit fxgraph_cache_miss; do
      printf "$row" "${field//_/ }" "$(jq -r ".$field" <<<"$result_one")" "$(jq -r ".$field" <<<"$result_two")"
    done
    printf "$row" 'what the archive was worth' '-' "$effect"
    printf "$row" 'saved' "$saved_files files, $saved_size" '-'
  }
  tell "kubectl get cc,cca -n $namespace"
  in_demo get cc,cca
  tell "Events"
  in_demo get events --field-selector reportingComponent=compilecache-operator \
    --sort-by=.metadata.creationTimestamp \
    -o 'custom-columns=OBJECT:.involvedObject.kind,NAME:.involvedObject.name,REASON:.reason,MESSAGE:.message'
}

check_that_pod_two_was_warm() {
  [ "$(jq -r .fxgraph_cache_miss <<<"$result_two")" = 0 ] && [ "$(jq -r .fxgraph_cache_hit <<<"$result_two")" -gt 0 ] ||
    die "pod two was not warm: Inductor counted $(jq -c '{fxgraph_cache_hit, fxgraph_cache_miss}' <<<"$result_two")"
  tell "pod two was warm: Inductor counted no FX graph cache miss"
}

what_to_try() {
  cat <<TEXT

What to try next (with --keep):
  - another shape: change torch.ones(4, 64, 256) in the ConfigMap 'transformer', restart: the archive gets a second layer
  - kubectl explain cc.spec
  - kubectl get cc transformer -o jsonpath='{.status.recent}' -n $namespace: every pod's story
  - the annotation compilecache.dev/mode: ForceCold on the pod template: the pod compiles everything
  - README.md: your own application needs one annotation and a CompileCache
TEXT
}

main() {
  parse_arguments "$@"
  steps_begin demo "$cache"
  trap at_end EXIT
  trap 'exit 130' INT TERM HUP
  if [ -n "$context" ]; then
    for program in kubectl jq; do command -v $program >/dev/null || die "$program is not installed here"; done
    kube version >/dev/null || die "the cluster of the context '$context' does not answer"
  else
    start_local_cluster
  fi
  install_operator
  make_cache
  run_pod_one
  run_pod_two
  show_table
  check_that_pod_two_was_warm
  what_to_try
}

main "$@"
