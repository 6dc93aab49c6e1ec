# The control groups of a cluster: every process it starts is below one group, by which down finds them
# all. Sourced. shellcheck shell=bash

cgroup_of() { printf 'cc-%s\n' "$1"; }

# The mount points of control groups here: each controller of version 1, or the one of version 2.
cgroup_mounts() {
  awk '$3 == "cgroup" { print $2; found = 1 } $3 == "cgroup2" { two = $2 } END { if (!found) print two }' /proc/mounts
}

# Groups may exist here: runc also makes them in version 2's mount beside version 1.
all_cgroup_mounts() { awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts; }

# make_cgroups NAME NODES: for each node a group, which the kubelet wants to find, and one for our programs.
make_cgroups() {
  local name=$1 nodes=$2 mount group index
  for mount in $(cgroup_mounts); do
    group=$mount/$(cgroup_of "$name")
    if [ -e "$mount/cgroup.controllers" ]; then
      enable_controllers "$mount"
      mkdir -p "$group" && enable_controllers "$group"
    fi
    for index in $(seq 0 $((nodes - 1))); do mkdir -p "$group/node$index"; done
    mkdir -p "$group/programs"
    fill_cpuset "$mount" "$group"
  done
}

enable_controllers() {
  local controller
  for controller in $(cat "$1/cgroup.controllers"); do
    echo "+$controller" >"$1/cgroup.subtree_control" 2>/dev/null || true
  done
}

# A new cpuset of version 1 is empty, and nothing may run in it.
fill_cpuset() {
  local mount=$1 group=$2 file below
  [ -e "$mount/cpuset.cpus" ] && [ ! -e "$mount/cgroup.controllers" ] || return 0
  for below in "$group" "$group"/*/; do
    for file in cpuset.cpus cpuset.mems; do cat "$mount/$file" >"$below/$file"; done
  done
}

# Where programs write their pid to be counted as the cluster's.
cgroup_procs_files() {
  local mount
  for mount in $(cgroup_mounts); do
    case $mount in
      */pids | */unified | /sys/fs/cgroup) echo "$mount/$(cgroup_of "$1")/programs/cgroup.procs" ;;
    esac
  done
}

cgroup_pids() {
  local mount
  for mount in $(all_cgroup_mounts); do
    find "$mount/$(cgroup_of "$1")" -name cgroup.procs -exec cat {} + 2>/dev/null || true
  done | sort -u
}

# kill_cgroup NAME: all processes in the cluster's groups, then the groups.
kill_cgroup() {
  local name=$1 mount pids tries=0
  while pids=$(cgroup_pids "$name") && [ -n "$pids" ] && [ $((tries++)) -lt 100 ]; do
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null || true
    sleep 0.05
  done
  for mount in $(all_cgroup_mounts); do
    [ ! -d "$mount/$(cgroup_of "$name")" ] ||
      find "$mount/$(cgroup_of "$name")" -depth -type d -exec rmdir {} \; 2>/dev/null || true
  done
}
