#!/usr/bin/env bash
# on_cluster gives a test the cluster that ctest allocated, and the current one where ctest allocated none.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
clusters_of() { "$here/on_cluster" bash -c 'echo "$KUBECONFIG ${KUBECTL-}"'; }
expect() { [ "$1" = "$2" ] || { printf 'FAILED: got "%s", not "%s"\n' "$2" "$1" >&2 && exit 1; }; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/clusters/2" "$folder/runs/integration-2"
touch "$folder/runs/integration-2/kubeconfig"
ln -s "$folder/runs/integration-2/kubeconfig" "$folder/clusters/2/kubeconfig"
export CC_CLUSTERS=$folder/clusters KUBECONFIG=/home/config
unset KUBECTL
expect "/home/config " "$(clusters_of)"
expect "$folder/runs/integration-2/kubeconfig $folder/clusters/2/kubectl" \
  "$(CTEST_RESOURCE_GROUP_0_CLUSTERS=id:2,slots:1 clusters_of)"
