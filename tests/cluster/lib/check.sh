# Whether this machine can run containers. Sourced. shellcheck shell=bash

# check_containers: nothing when it can; else says what is missing and ends with 3.
check_containers() {
  local missing=() probe=cc-check-$$
  if ! is_root; then
    missing+=("root: run as root; containers, network namespaces and mounts need it")
  else
    command -v ip >/dev/null || install_packages iproute2 >&2
    if ip netns add "$probe" 2>/dev/null; then
      ip -n "$probe" link add probe type bridge 2>/dev/null || missing+=("bridge devices: the kernel has none (CONFIG_BRIDGE)")
      ip -n "$probe" link add probe0 type veth peer name probe1 2>/dev/null || missing+=("veth devices: the kernel has none (CONFIG_VETH)")
      ip netns delete "$probe"
    else
      missing+=("network namespaces: ip netns add failed; this may be a container without CAP_SYS_ADMIN")
    fi
    [ -n "$(cgroup_mounts)" ] || missing+=("control groups: none is mounted; mount -t cgroup2 none /sys/fs/cgroup")
    check_cgroups_writable "$probe" || missing+=("control groups: they cannot be changed here (read-only mount?)")
    grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || missing+=("the overlay file system: not in this kernel (CONFIG_OVERLAY_FS)")
    if command -v iptables >/dev/null; then
      iptables -t nat -nL >/dev/null 2>&1 || missing+=("iptables: iptables -t nat -nL fails; the kernel lacks NAT, or CAP_NET_ADMIN is missing")
    fi
  fi
  [ ${#missing[@]} -eq 0 ] && return
  echo "cluster: this machine cannot run containers. Missing:" >&2
  printf '  - %s\n' "${missing[@]}" >&2
  exit 3
}

check_cgroups_writable() {
  local mount
  for mount in $(cgroup_mounts); do
    mkdir "$mount/$1" 2>/dev/null && rmdir "$mount/$1" || return 1
  done
}
