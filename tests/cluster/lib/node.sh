# A node: a network namespace with containerd, kubelet and kube-proxy in it. Sourced.
# shellcheck shell=bash
#
# Addresses of the cluster with number I (the bridge cc-I belongs to it; 1 to 250):
#   10.231.I.1      this machine, as the nodes see it      10.231.I.2, .3  node0, node1
#   10.232.I.0/24   pods of node0                          10.233.I.0/24   pods of node1
#   10.234.I.0/24   Services (.1 the API, .10 DNS)

# make_network RUN NAME: the first number that is free; written to RUN/number.
make_network() {
  local run=$1 number
  for number in $(seq 1 250); do
    # Making the bridge is what takes the number: of two runs side by side only one succeeds.
    ip link add "cc-$number" type bridge 2>/dev/null || continue
    echo "$number" >"$run/number"
    ip address add "10.231.$number.1/24" dev "cc-$number"
    ip link set "cc-$number" up
    return
  done
  die "all 250 cluster numbers are in use: see ip link show type bridge, and cluster list"
}

# make_node_network NAME NUMBER INDEX: the namespace cc-NAME-INDEX, joined to the cluster's bridge.
make_node_network() {
  local space=cc-$1-$3 number=$2 index=$3 other=$((1 - $3)) setting
  ip netns add "$space"
  # The veth is made in the namespace, so that its other names never meet in the root namespace.
  ip link add "ccv-$number-$index" type veth peer name eth0 netns "$space"
  ip link set "ccv-$number-$index" master "cc-$number" up
  ip -n "$space" link set lo up
  ip -n "$space" address add "10.231.$number.$((2 + index))/24" dev eth0
  ip -n "$space" link set eth0 up
  ip -n "$space" route add default via "10.231.$number.1"
  ip -n "$space" route add "10.$((232 + other)).$number.0/24" via "10.231.$number.$((2 + other))"
  for setting in net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables; do
    nsenter --net="/run/netns/$space" sysctl -qw "$setting=1" 2>/dev/null ||
      log "could not set $setting in $space; Services may not answer from pods"
  done
  # From this machine, pods and Services are reached through their nodes.
  ip route add "10.$((232 + index)).$number.0/24" via "10.231.$number.$((2 + index))"
  [ "$index" -ne 0 ] || ip route add "10.234.$number.0/24" via "10.231.$number.2"
}

# write_containerd_config FOLDER ROOT MODE [SHIM]: FOLDER/containerd.toml; MODE is store (images only) or node, SHIM runc's where it
# is not the one on the PATH.
write_containerd_config() {
  local folder=$1 root=$2 shim=${4-} disabled=''
  [ -z "$shim" ] || shim="runtime_path = \"$shim\""
  [ "$3" = node ] || disabled='"io.containerd.grpc.v1.cri"'
  mkdir -p "$folder/certs.d/_default" "$folder/cni"
  # No registry: a pull is refused at once, where it would otherwise wait for names to resolve.
  printf 'server = "http://127.0.0.1:1"\n[host."http://127.0.0.1:1"]\n  capabilities = ["pull", "resolve"]\n' \
    >"$folder/certs.d/_default/hosts.toml"
  cat >"$folder/containerd.toml" <<EOF
version = 2
root = "$root"
state = "$folder/state"
oom_score = 0
disabled_plugins = [$disabled]
[grpc]
  address = "$folder/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$folder/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE_IMAGE"
  netns_mounts_under_state_dir = true
  # Where a process may not lower its oom_score_adj, runc would die with "can't get final child's PID from pipe".
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      $shim
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$folder/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$folder/certs.d"
EOF
}

write_cni_config() {
  cat >"$1/cni/10-bridge.conflist" <<EOF
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$1/ipam", "ranges": [[{"subnet": "$2"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
EOF
}

# start_containerd RUN NAME NUMBER INDEX IMAGE_SET: in RUN/nodeINDEX.
start_containerd() {
  local run=$1 name=$2 number=$3 index=$4 node=$1/node$4 program=containerd shim=
  if needs_newer_containerd; then program=$(go_program containerd) shim=$(go_program containerd-shim-runc-v2); fi
  mkdir -p "$node"
  fill_from_store "$(image_store "$5")" "$node/containerd"
  write_containerd_config "$node" "$node/containerd" node "$shim"
  write_cni_config "$node" "10.$((232 + index)).$number.0/24"
  START_PREFIX=(nsenter --net="/run/netns/cc-$name-$index")
  start "$run" "containerd-$index" "$program" --config "$node/containerd.toml"
  START_PREFIX=()
}

# start_kubelet RUN NAME NUMBER INDEX SERVER: kubelet and kube-proxy of nodeINDEX.
start_kubelet() {
  local run=$1 name=$2 number=$3 index=$4 server=$5 node=$1/node$4
  wait_for 120 "containerd of node$index" "$run" "containerd-$index" ctr --address "$node/containerd.sock" version
  make_cert "$run" "kubelet-$index" "/O=system:nodes/CN=system:node:node$index" "DNS:node$index,IP:10.231.$number.$((2 + index))"
  write_kubeconfig "$run" "$server" "kubelet-$index" "$node/kubeconfig"
  make_cert "$run" "kube-proxy-$index" /CN=system:kube-proxy
  write_kubeconfig "$run" "$server" "kube-proxy-$index" "$node/kube-proxy.kubeconfig"
  : >"$node/resolv.conf"   # nodes have no DNS server of their own: nothing leaves this machine
  cat >"$node/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 10.231.$number.$((2 + index))
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $run/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $run/pki/kubelet-$index.crt
tlsPrivateKeyFile: $run/pki/kubelet-$index.key
containerRuntimeEndpoint: unix://$node/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$(cgroup_of "$name")/node$index
failCgroupV1: false
failSwapOn: false
clusterDomain: cluster.local
clusterDNS: [10.234.$number.10]
resolvConf: $node/resolv.conf
podLogsDir: $node/podlogs
volumePluginDir: $node/flex
oomScoreAdj: 0
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
EOF
  START_PREFIX=(nsenter --net="/run/netns/cc-$name-$index")
  start "$run" "kubelet-$index" "$(go_program kubelet)" --config "$node/kubelet.yaml" --kubeconfig "$node/kubeconfig" \
    --root-dir "$node/kubelet" --cert-dir "$node/pki" --hostname-override "node$index" \
    --node-ip "10.231.$number.$((2 + index))"
  start "$run" "kube-proxy-$index" "$(go_program kube-proxy)" --kubeconfig "$node/kube-proxy.kubeconfig" \
    --proxy-mode iptables --conntrack-max-per-core 0 --hostname-override "node$index" --oom-score-adj 0 \
    --detect-local-mode BridgeInterface --pod-bridge-interface cni0
  START_PREFIX=()
}
