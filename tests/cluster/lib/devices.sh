# Devices for ResourceClaims on a cluster's node, of a driver that runs as a process beside the kubelet. Sourced.
# shellcheck shell=bash

# add_devices NAME DRIVER FILE: FILE has node0's devices, a list as in a ResourceSlice, in JSON.
add_devices() {
  local run driver=${2-} file=${3-}
  run=$(existing_run "${1-}")
  [ -d "$run/node0" ] || die "the cluster '$1' has no node for devices"
  [[ $driver == *.* ]] || die "add-devices needs the driver's name, e.g. gpu.nvidia.com, not '$driver'"
  jq -e 'type == "array"' "$file" >/dev/null || die "add-devices needs a file with a list of devices, not '$file'"
  cp "$file" "$run/$driver.json"
  # shellcheck disable=SC2034  # both are read by start
  START_CGROUPS=$(cgroup_procs_files "$1" | tr '\n' ' ')
  START_PREFIX=(nsenter --net="/run/netns/cc-$1-0")
  start "$run" "driver-$driver" "$(go_program dra)" -driver "$driver" -node node0 -kubeconfig "$run/node0/kubeconfig" \
    -kubelet "$run/node0/kubelet" -devices "$run/$driver.json"
  wait_for 240 "the devices of $driver" "$run" "driver-$driver" devices_are_published "$run" "$driver" "$(jq length "$file")"
}

devices_are_published() {
  kubectl_in "$1" get resourceslices -o json |
    jq -e --arg driver "$2" '[.items[].spec | select(.driver == $driver).devices[]] | length == '"$3" >/dev/null
}
