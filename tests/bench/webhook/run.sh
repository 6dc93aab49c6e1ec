#!/usr/bin/env bash
# Builds the operator, the peer and the benchmark, and measures both in turns. Needs root (the peer looks for a service
# account at a fixed place, which is made in a mount namespace of its own) and Go 1.21 or newer, which fetches the peer's
# modules; go.sum pins them.
#
#   tests/bench/webhook/run.sh [--rounds 5] [--seconds 8] ...     bench_webhook --help has all
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$here/../../..
build=${COMPILECACHE_BUILD:-$project/build}

[ "$(id -u)" -eq 0 ] || { echo "run.sh: needs root" >&2; exit 3; }
go=$(command -v go || ls /usr/local/go/bin/go /usr/lib/go-*/bin/go 2>/dev/null | tail -n 1) ||
  { echo "run.sh: needs Go; Debian's backports have golang-go" >&2; exit 3; }

export CCACHE_BASEDIR=$project CCACHE_NOHASHDIR=1
cmake -S "$project" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOMPILECACHE_BENCH=ON >/dev/null
ninja -C "$build" --quiet compilecache-operator bench_webhook
(cd "$here/peer" && GOTOOLCHAIN=auto GOWORK=off GOFLAGS='' "$go" build -mod=readonly -buildvcs=false -trimpath \
  -ldflags '-s -w' -o "$build/vault-k8s" github.com/hashicorp/vault-k8s)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=webhook.system.svc \
  -keyout "$work/tls.key" -out "$work/tls.crt" 2>/dev/null
cp "$build/operator/compilecache-operator" "$work/operator"
strip "$work/operator"

echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
# Nobody listens at the peer's API server: it asks once for its version and does without.
unshare --mount -- bash -c '
  mount -t tmpfs none /run
  mkdir -p /run/secrets/kubernetes.io/serviceaccount
  cp "$1/tls.crt" /run/secrets/kubernetes.io/serviceaccount/ca.crt
  echo token >/run/secrets/kubernetes.io/serviceaccount/token
  export SSL_CERT_FILE=/dev/null   # as config/operator/deployment.yaml has it
  export KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=1 NAMESPACE=system
  work=$1; bench=$2; peer=$3; shift 3
  "$bench" --operator "$work/operator" --peer "$peer" --certificate "$work/tls.crt" \
    --key "$work/tls.key" "$@"
' bash "$work" "$build/tests/bench/webhook/bench_webhook" "$build/vault-k8s" "$@"
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
