# Starts a cluster: the API server alone, or a whole one. Sourced. shellcheck shell=bash

# up NAME [--control-plane | [--with-torch | --with-next-torch] [--nodes N]]
up() {
  local name=${1-} mode=full images=base nodes=1 run lock began=$SECONDS
  check_name "$name"
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --control-plane) mode=control-plane ;;
      --with-torch) images=torch ;;
      --with-next-torch) images=next ;;
      --nodes) nodes=${2-} && shift ;;
      *) die "up does not know '$1'; see cluster help" ;;
    esac
    shift
  done
  [[ $nodes =~ ^[12]$ ]] || die "--nodes is 1 or 2, not '$nodes'"
  [ $mode = control-plane ] || check_containers
  if [ $mode = full ]; then prepare_node; else prepare_control_plane; fi
  case $images in
    torch) prepare_torch ;;
    next) prepare_next ;;
  esac

  mkdir -p "$CACHE/locks" "$RUNS"
  exec {lock}>"$CACHE/locks/cluster-$name"
  flock -n "$lock" || die "another run is starting or stopping the cluster '$name'"
  run=$(run_dir "$name")
  [ ${#run} -le 80 ] || die "the folder $run is too long a path for the sockets in it; set COMPILECACHE_CACHE to a shorter one"
  if [ -d "$run" ]; then
    ! alive "$run" kube-apiserver || die "the cluster '$name' is up already; cluster down $name takes it down"
    remove_cluster "$name"
  fi
  mkdir "$run"
  if [ $mode = full ]; then up_full "$run" "$name" "$images" "$nodes"; else up_control_plane "$run"; fi
  exec {lock}>&-
  log "cluster $name is ready after $((SECONDS - began)) s: export KUBECONFIG=$run/kubeconfig"
}

# On loopback, without root: for tests of what the API server does. There are no controllers, so that
# nothing makes the namespaces' default service accounts, and pods are admitted without one.
up_control_plane() {
  local run=$1 ports
  mapfile -t ports < <(free_ports)
  start_api "$run" 127.0.0.1 "${ports[0]}" "${ports[1]}" 10.234.0 \
    --endpoint-reconciler-type none --disable-admission-plugins ServiceAccount
}

# free_ports: a port for the API server, and two neighbours for etcd, in which no one listens now.
free_ports() {
  local used port
  used=$(ss -Hltn | awk '{ sub(/.*:/, "", $4); print $4 }')
  while true; do
    port=$((20000 + RANDOM % 10000 / 4 * 4))
    if ! grep -qxE "$port|$((port + 1))|$((port + 2))" <<<"$used"; then
      printf '%s\n' "$port" "$((port + 1))"
      return
    fi
  done
}

up_full() {
  local run=$1 name=$2 images=$3 nodes=$4 number server index
  make_network "$run"
  number=$(cat "$run/number")
  server=https://10.231.$number.2:6443
  make_cgroups "$name" "$nodes"
  START_CGROUPS=$(cgroup_procs_files "$name" | tr '\n' ' ')
  for index in $(seq 0 $((nodes - 1))); do
    make_node_network "$name" "$number" "$index"
    start_containerd "$run" "$name" "$number" "$index" "$images"
  done
  START_PREFIX=(nsenter --net="/run/netns/cc-$name-0")
  start_api "$run" "10.231.$number.2" 6443 2379 "10.234.$number"
  start_controllers "$run" "$server"
  start_dns "$run" "$server" "10.231.$number.2" "10.234.$number"
  for index in $(seq 0 $((nodes - 1))); do start_kubelet "$run" "$name" "$number" "$index" "$server"; done
  for index in $(seq 0 $((nodes - 1))); do
    wait_for 240 "node$index" "$run" "kubelet-$index" node_is_ready "$run" "node$index"
  done
  wait_for 120 "the default service account" "$run" kube-controller-manager \
    kubectl_in "$run" get serviceaccount default
}

node_is_ready() {
  kubectl_in "$1" get node "$2" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -qx True
}
