#!/usr/bin/env bash
# Builds the operator and the peer, starts a control plane of its own, fills it and measures one program after another.
# Needs what tests/cluster/cluster needs, and Go 1.25 or newer, which fetches the peer's modules; go.sum pins them.
#
#   tests/bench/control_plane/run.sh [--scale 0.1] [--rounds 3] [--idle SECONDS] [--settle SECONDS] [--only operator ...]
#
# CLUSTER=NAME uses a control plane that runs already, and the objects that an earlier run has left there.
set -Eeuo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../../.." && pwd)
cluster=$project/tests/cluster/cluster
build=${COMPILECACHE_BUILD:-$project/build}
go=$(command -v go || ls /usr/local/go/bin/go /usr/lib/go-*/bin/go 2>/dev/null | tail -n 1) ||
  { echo "run.sh: needs Go; Debian's backports have golang-go" >&2; exit 3; }

export CCACHE_BASEDIR=$project CCACHE_NOHASHDIR=1
cmake -S "$project" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
ninja -C "$build" --quiet compilecache-operator
(cd "$here/controller_runtime" && GOTOOLCHAIN=auto GOWORK=off GOFLAGS='' "$go" build -mod=readonly -buildvcs=false \
  -trimpath -ldflags '-s -w' -o "$build/controller_runtime_peer" .)

name=${CLUSTER:-bench-$$}
work=$(mktemp -d)
trap 'rm -rf "$work"; [ -n "${CLUSTER:-}" ] || "$cluster" down "$name" >/dev/null' EXIT
[ -n "${CLUSTER:-}" ] || "$cluster" up "$name" --control-plane
kubeconfig=$("$cluster" dir "$name")/kubeconfig
printf '#!/bin/sh\nexec "%s" kubectl "%s" "$@"\n' "$cluster" "$name" >"$work/kubectl"
chmod +x "$work/kubectl"

# Installed as a user would, but for the webhook, which would be asked about the pods that are made here, and for the
# Deployment: the operator runs beside the cluster, with the rights and the environment that it has there.
config=$project/config/operator
"$work/kubectl" apply -f "$project/crds/compilecaches.yaml" -f "$project/crds/compilecachearchives.yaml" \
  -f "$config/namespace.yaml" -f "$config/rbac.yaml" -f "$config/certificates-rbac.yaml" -f "$config/job-policy.yaml" \
  -f "$config/services.yaml" -f "$config/deployment.yaml" >/dev/null
"$work/kubectl" create --dry-run=client -o json -f "$config/webhook.yaml" |
  sed 's/"namespaceSelector": {/&"matchLabels": {"never": "matches"},/' | "$work/kubectl" apply -f - >/dev/null
# It fails at once where a new one has no conditions yet.
established=("$work/kubectl" wait --for=condition=Established crd --all --timeout=30s)
for _ in $(seq 30); do "${established[@]}" >/dev/null 2>&1 && break || sleep 1; done
"${established[@]}" >/dev/null
token=$("$work/kubectl" create token compilecache-operator -n compilecache-system --duration=12h)
"$work/kubectl" config view --raw --minify --flatten -o json |
  python3 -c 'import json, sys; c = json.load(sys.stdin); c["users"][0]["user"] = {"token": sys.argv[1]}; print(json.dumps(c))' \
  "$token" >"$work/kubeconfig"
environment=$("$work/kubectl" create --dry-run=client -o json -f "$config/deployment.yaml" | python3 -c '
import json, sys
text, end = sys.stdin.read(), 0
variables = {}
while text[end:].strip():
    found, end = json.JSONDecoder().raw_decode(text, end + len(text[end:]) - len(text[end:].lstrip()))
    if found["kind"] == "Deployment":
        variables = {v["name"]: v["value"] for v in found["spec"]["template"]["spec"]["containers"][0]["env"] if "value" in v}
print(json.dumps(variables))')

cp "$build/operator/compilecache-operator" "$work/operator"
strip "$work/operator"
echo "$(nproc) cores, load before: $(cut -d' ' -f1-3 /proc/loadavg)"
PYTHONPATH=$here python3 -B "$here/measure.py" --root "$project" --kubectl "$work/kubectl" --kubeconfig "$kubeconfig" \
  --operator "$work/operator" --operator-kubeconfig "$work/kubeconfig" --operator-environment "$environment" \
  --peer "$build/controller_runtime_peer" "$@"
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
