#!/bin/sh
config=$(mktemp) && trap 'rm -f "$config"' EXIT && kubectl config view --raw --flatten >"$config" || exit 1
tool=$(command -v podman || command -v docker) || { echo "kubectl-compilecache: install podman or docker" >&2; exit 1; }
case $tool in *podman) user=0:0 ;; *) user=$(id -u):$(id -g) ;; esac
"$tool" run --rm -i --network host --user "$user" -v "$config:/kubeconfig:ro" -v "$PWD:$PWD" -w "$PWD" -e KUBECONFIG=/kubeconfig @IMAGE@ kubectl-compilecache "$@"
