#!/usr/bin/env bash
# An image made of an archive (`export --image`) is one that containerd imports, unpacks and mounts, as it does for an
# image volume, and the files in it are those of a load. With a containerd of its own; needs root.
#
#   tests/e2e/image_volume.sh AGENT
set -Eeuo pipefail

agent=$1
work=$(mktemp -d)
containerd=
image=registry.example.com/caches/demo:image

clean_up() {
  umount "$work/mounted" 2>/dev/null || true
  if [ -n "$containerd" ]; then
    kill "$containerd" || true
    wait "$containerd" || true
  fi
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'echo "FAILED: $BASH_COMMAND" >&2; tail -n 5 "$work"/*.log >&2' ERR

# Two saves: a copy of what the first layer has, and a file that changes.
mkdir -p "$work/pod/torch/fxgraph/ab/KEY" "$work/mounted"
cat >"$work/agent.json" <<END
{"cache": "demo", "store": {"volume": {}}, "store_mount": "$work/store", "control_path": "$work/pod/control", "key_basis": {"parts": ["Architecture"]},
 "directories": [{"path": "$work/pod/torch", "framework": {"name": "torch", "entry_directories": ["fxgraph/*/*"]}}]}
END
head -c 3000000 /dev/urandom >"$work/pod/torch/fxgraph/ab/KEY/entry"
printf '#!/bin/sh\n' >"$work/pod/torch/run.sh"
chmod +x "$work/pod/torch/run.sh"
echo first >"$work/pod/torch/autotune"
"$agent" save --once --config "$work/agent.json" 2>"$work/save.log"
cp "$work/pod/torch/fxgraph/ab/KEY/entry" "$work/pod/torch/copy"
echo second >"$work/pod/torch/autotune"
"$agent" save --once --config "$work/agent.json" 2>>"$work/save.log"

name=$("$agent" inspect "$work/store" --json | sed -n 's/^ *"name": "\(.*\)".*/\1/p')
"$agent" export --image "$work/store" "$name" "$work/image.tar"

cat >"$work/containerd.toml" <<END
version = 2
root = "$work/root"
state = "$work/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$work/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$work/opt"
END
containerd --config "$work/containerd.toml" >"$work/containerd.log" 2>&1 &
containerd=$!
ctr=(ctr --address "$work/containerd.sock" --namespace test)
for _ in $(seq 300); do
  ! "${ctr[@]}" version >/dev/null 2>&1 || break
  sleep 0.1
done
# The native snapshotter needs no overlay under the folder for temporary files.
"${ctr[@]}" images import --snapshotter native --index-name "$image" "$work/image.tar"
"${ctr[@]}" images mount --snapshotter native "$image" "$work/mounted"
diff -r "$work/pod/torch" "$work/mounted/torch"
[ -x "$work/mounted/torch/run.sh" ] && [ ! -x "$work/mounted/torch/autotune" ]
! touch "$work/mounted/torch/new" 2>/dev/null || { echo "FAILED: the mount is not read-only" >&2 && exit 1; }
"${ctr[@]}" images unmount "$work/mounted" >/dev/null
echo "containerd imported, unpacked and mounted the image"
