#!/usr/bin/env bash
# Shows a pod that starts warm: a cold pod compiles and its cache is saved, a new pod gets it before it starts.
#
#   examples/demo.sh                   on Debian 12 as root, with nothing but git and this tree: installs what is
#                                      missing, builds, starts a Kubernetes cluster on this machine, takes it down
#   examples/demo.sh --keep            leaves the cluster up at the end, also when something failed
#   examples/demo.sh --context NAME --image IMAGE [--torch-image IMAGE] [--storage-class NAME]
#                                      on a cluster of yours (a context of your kubeconfig). IMAGE is what you built
#                                      with `docker build -t IMAGE .` and pushed; it is not needed where the operator
#                                      is installed already. Needs kubectl and jq here, and a storage class with
#                                      ReadWriteMany there. The namespace compilecache-demo is made and removed.
#
# Ends with 0 only when the second pod was warm. What is built once is kept in
# ${COMPILECACHE_CACHE:-~/.cache/compilecache}.
set -Eeuo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
examples=$project/examples/torch-compile
cluster=$project/tests/cluster/cluster
cache=${COMPILECACHE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/compilecache}
build=$cache/build/$(cksum <<<"$project" | cut -d' ' -f1)   # one for each copy of this tree
namespace=compilecache-demo
name=demo             # of the local cluster
context='' image='' torch_image='' storage_class='' keep=''
volume='' started='' installed='' made_namespace=''

usage() { sed -n '2,/^# \${COMP/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
say() { printf '\n[%3d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }
die() {
  printf '\ndemo: %s\n' "$*" >&2
  exit 1
}

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --keep) keep=yes ;;
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
  trap - EXIT INT TERM
  if [ -n "$keep" ] && [ -n "$started$made_namespace" ]; then
    what_is_left
    exit $code
  fi
  if [ -n "$context" ]; then
    [ -z "$made_namespace$installed" ] || say "removing what the demo made in $context"
    [ -z "$made_namespace" ] || kube delete namespace "$namespace" --ignore-not-found >/dev/null || code=1
    [ -z "$installed" ] || manifest | kube delete --ignore-not-found -f - >/dev/null || code=1
  elif [ -n "$started" ]; then
    [ $code -eq 0 ] || logs_of_a_failure
    say "taking the cluster down"
    "$cluster" down "$name" || code=1
    rm -rf "$volume"
  fi
  [ $code -ne 0 ] || say "done"
  exit $code
}

what_is_left() {
  say "left up, as you asked. Look around:"
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
  say "what the cluster says about it"
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

install_packages() {
  local missing
  mapfile -t missing < <(while read -r package; do
    dpkg-query -Wf '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done <"$project/cmake/debian-packages.txt")
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${#missing[@]} Debian packages"
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

build_programs() {
  local log=$build/build.log
  say "building the operator and the agent (10 minutes the first time; output in $log)"
  mkdir -p "$build/programs"
  export CCACHE_BASEDIR=$project CCACHE_NOHASHDIR=1
  { cmake -S "$project" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOMPILECACHE_TESTS=OFF &&
    ninja -C "$build" compilecache-{operator,agent,supervise}; } >"$log" 2>&1 || { tail -n 30 "$log" && die "the build failed"; }
  install -s "$build/operator/compilecache-operator" "$build"/agent/compilecache-{agent,supervise} "$build/programs"
}

start_local_cluster() {
  local archive reason
  reason=$("$cluster" check 2>&1) || { printf '%s\n' "$reason" >&2 && exit 3; }
  say "a demo on this machine: about 40 minutes the first time on 2 cores (Kubernetes, the operator and an image with
        PyTorch are made once and kept in $cache), 2 minutes later"
  install_packages
  say "preparing Kubernetes and the image with PyTorch"
  "$cluster" prepare node
  "$cluster" prepare torch
  build_programs
  say "building the container image from the Dockerfile"
  archive=$("$cluster" build-image "$(image_of_manifest)" "$build/programs")
  torch_image=${torch_image:-$("$cluster" torch-image)}
  say "starting etcd, API server, controllers, scheduler, DNS, kubelet, kube-proxy and containerd"
  "$cluster" list | grep -qx "$name up" && die "the cluster '$name' is up already; take it down: $cluster down $name"
  started=yes
  "$cluster" up "$name" --with-torch
  "$cluster" load-image "$name" "$archive"
}

# ---- on any cluster

image_of_manifest() { sed -n 's/^ *image: *//p' "$project/config/install.yaml" | head -n 1; }
manifest() { sed "s|^\( *image: \).*|\1${image:-$(image_of_manifest)}|" "$project/config/install.yaml"; }

install_operator() {
  if kube get deployment compilecache-operator -n compilecache-system >/dev/null 2>&1; then
    say "the operator is installed already"
  else
    [ -z "$context" ] || [ -n "$image" ] ||
      die "--context needs --image: docker build -t REGISTRY/compilecache:0.1.0 . && docker push REGISTRY/compilecache:0.1.0"
    say "kubectl apply -f config/install.yaml"
    installed=yes
    manifest | kube apply -f - | sed 's/^/        /'
  fi
  kube rollout status deployment/compilecache-operator -n compilecache-system --timeout=180s | tail -n 1 | sed 's/^/        /'
  eventually 60 "the webhook has its certificate" webhook_is_trusted
}

webhook_is_trusted() {
  [ -n "$(kube get mutatingwebhookconfiguration compilecache -o 'jsonpath={.webhooks[0].clientConfig.caBundle}')" ]
}

# The local cluster has one node and no storage: a folder on this machine stands for the shared volume.
make_local_volume() {
  volume=$(mktemp -d "${TMPDIR:-/var/tmp}/compilecache-demo.XXXXXX")
  chmod 755 "$volume"   # pods of any user reach the store in it
  kube apply -f - >/dev/null <<YAML
apiVersion: v1
kind: PersistentVolume
metadata: {name: compilecache-demo}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: $namespace, name: compile-caches}
  hostPath: {path: $volume, type: Directory}
YAML
}

claim() {
  if [ -n "$storage_class" ]; then
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
  say "a claim and a CompileCache (examples/torch-compile/)"
  kube get namespace "$namespace" >/dev/null 2>&1 &&
    die "the namespace $namespace exists: kubectl delete namespace $namespace"
  made_namespace=yes
  kube create namespace "$namespace" >/dev/null
  [ -n "$context" ] || make_local_volume
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
# What the CompileCache's status tells of a pod.
recent_field() { in_demo get cc transformer -o json | jq -er ".status.recent[] | select(.pod == \"$1\") | $2"; }

run_pod_one() {
  say "pod one: nothing is saved yet, so it compiles"
  in_demo apply -f "$examples/application.yaml" | sed 's/^/        /'
  deployment | in_demo apply -f - | sed 's/^/        /'
  eventually 60 "there is a pod" pod_name
  pod_one=$(pod_name)
  eventually 600 "pod one has compiled" result_of "$pod_one"
  result_one=$(result_of "$pod_one")
  echo "        $result_one"
  say "its cache is saved once the directory has been still for the quiet period"
  eventually 120 "the archive is saved" archive_field .status.head.manifestDigest
}

run_pod_two() {
  say "pod one goes; pod two, new, gets its cache before it starts"
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
  say "both pods"
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
  say "kubectl get cc,cca -n $namespace"
  in_demo get cc,cca
  say "Events"
  in_demo get events --field-selector reportingComponent=compilecache-operator \
    --sort-by=.metadata.creationTimestamp \
    -o 'custom-columns=OBJECT:.involvedObject.kind,NAME:.involvedObject.name,REASON:.reason,MESSAGE:.message'
}

check_that_pod_two_was_warm() {
  [ "$(jq -r .fxgraph_cache_miss <<<"$result_two")" = 0 ] && [ "$(jq -r .fxgraph_cache_hit <<<"$result_two")" -gt 0 ] ||
    die "pod two was not warm: Inductor counted $(jq -c '{fxgraph_cache_hit, fxgraph_cache_miss}' <<<"$result_two")"
  say "pod two was warm: Inductor counted no FX graph cache miss"
}

what_to_try() {
  cat <<TEXT

What to try next (with --keep):
  - another shape: change torch.ones(4, 64, 256) in the ConfigMap 'transformer', restart: the archive gets a second layer
  - kubectl explain cc.spec
  - kubectl get cc transformer -o jsonpath='{.status.recent}' -n $namespace: every pod's story
  - the annotation compilecache.dev/mode: ForceCold on the pod template: the pod compiles everything anew
  - README.md: your own application needs one annotation and a CompileCache
TEXT
}

parse_arguments "$@"
trap at_end EXIT
trap 'exit 130' INT TERM
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
