# Takes a cluster down, whatever state it is in, and leaves nothing of it. Sourced. shellcheck shell=bash

# remove_cluster NAME: ends the kubelets first, because they would restart the rest, then all programs. These are killed: their files are
# removed anyway. Then go the containers, which are in the cluster's control groups, the mounts, the network and the files.
remove_cluster() {
  local name=$1 run pid_file
  run=$(run_dir "$name")
  for pid_file in "$run"/pids/kubelet-* "$run"/pids/*; do
    [ ! -e "$pid_file" ] || stop "$run" "${pid_file##*/}" 0
  done
  if is_root; then
    kill_cgroup "$name"
    unmount_below "$run"
    remove_network "$name" "$run"
    remove_traces "$run"
  fi
  rm -rf --one-file-system "$run"
}

# Mounts of containers and volumes, the innermost first.
unmount_below() {
  local mounted
  awk -v top="$1/" 'index($5, top) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
    while read -r mounted; do umount -l "$(printf '%b' "$mounted")" 2>/dev/null || true; done
}

remove_network() {
  local name=$1 run=$2 space number link
  for space in $(ip netns list 2>/dev/null | awk '{ print $1 }' | grep -E "^cc-$name-[0-9]$" || true); do
    ip netns delete "$space" || true
  done
  number=$(cat "$run/number" 2>/dev/null || true)
  for link in $(ip -o link show 2>/dev/null | grep -o "ccv-${number:-none}-[0-9]" || true); do
    ip link delete "$link" 2>/dev/null || true
  done
  [ -z "$number" ] || ip link delete "cc-$number" 2>/dev/null || true   # its routes go with it
}

# What containerd's shims, the network plugins and the kubelet put outside their folders.
remove_traces() {
  local run=$1 bundle link
  for bundle in "$run"/node*/state/io.containerd.runtime.v2.task/k8s.io/*/; do
    rm -f /var/lib/cni/results/*-"$(basename "$bundle")"-*
    [ ! -f "$bundle/address" ] || rm -f "$(sed 's|^unix://||' "$bundle/address")"
  done
  for link in /var/log/containers/*.log; do
    [[ "$(readlink "$link" 2>/dev/null || true)" != "$run"/* ]] || rm -f "$link"
  done
}
