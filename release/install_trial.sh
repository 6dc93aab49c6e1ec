# What release/publish --dry-run does around the publishing: a registry and a web server on this machine, and a user who installs from there.
# Sourced. shellcheck shell=bash disable=SC2154
#
# By: cluster, work, out, version, repository, digest, image, charts, chart_digest. Sets registry, plain_http, key, and HELM and COSIGN where
# they are not set.

trial_pids=()
trial_cluster=

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# answers URL: within half a minute.
answers() {
  local tries
  for tries in $(seq 150); do
    ! curl -fsS -o /dev/null "$1" 2>"$work/curl.log" || return 0
    sleep 0.2
  done
  die "nothing answers at $1 after $tries tries: $(cat "$work/curl.log" "$work"/*-server.log)"
}

begin_trial() {
  local port
  export COSIGN_PASSWORD=
  HELM=${HELM:-$("$cluster" helm)} COSIGN=${COSIGN:-$("$cluster" cosign)}
  port=$(free_port)
  registry=127.0.0.1:$port plain_http=yes
  cat >"$work/registry.yml" <<END
version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $work/registry}}
http: {addr: "$registry"}
END
  OTEL_TRACES_EXPORTER=none "$("$cluster" registry)" serve "$work/registry.yml" >"$work/registry-server.log" 2>&1 &
  trial_pids+=($!)
  answers "http://$registry/v2/"
  if [ -z "$key" ]; then
    (cd "$work" && "$COSIGN" generate-key-pair 2>/dev/null)
    key=$work/cosign.key
  fi
}

end_trial() {
  local pid
  for pid in "${trial_pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  [ -z "$trial_cluster" ] || "$cluster" down "$trial_cluster"
}

# This machine's architecture, in Docker's words.
machine() { (source "$here/../image/target.sh" && target "" && echo "$native"); }

# step WHAT COMMAND...
step() {
  local what=$1
  shift
  if "$@" >"$work/said" 2>&1; then
    say "ok     $what"
  else
    sed 's/^/       /' "$work/said"
    die "$what: failed"
  fi
}

# A user's own programs, and nothing that compiles.
make_users_programs() {
  local name
  bin=$work/bin
  mkdir "$bin"
  for name in bash sh cat curl grep gzip mkdir readlink dirname sed sha256sum tar skopeo; do ln -s "$(command -v "$name")" "$bin/$name"; done
  ln -s "$HELM" "$bin/helm"
  ln -s "$COSIGN" "$bin/cosign"
  printf '#!%s\nHOME=%q PATH=%q exec %q kubectl %q "$@"\n' "$(command -v bash)" "$HOME" "$PATH" "$cluster" "$trial_cluster" >"$bin/kubectl"
  chmod +x "$bin/kubectl"
  ! PATH=$bin command -v cc gcc g++ c++ clang cmake ninja make go || die "the user has a compiler"
}

# as_user SCRIPT: with those programs, in a folder of the user's; stops at the first error.
as_user() {
  mkdir -p "$work/home"
  (cd "$work/home" && env -i PATH="$bin" HOME="$work/home" KUBECONFIG="$kubeconfig" "$bin/bash" -euo pipefail -c "$1")
}

# The image that the installed operator asks for is in the registry, and one of its architectures is this machine's.
names_the_image() {
  local named
  named=$(as_user 'kubectl get deployment compilecache-operator -n compilecache-system -o "jsonpath={.spec.template.spec.containers[0].image}"')
  [ "$named" = "$repository@$digest" ] || { echo "the operator asks for $named, not for $repository@$digest"; return 1; }
  skopeo inspect --tls-verify=false --raw "docker://$image@$digest" >"$work/index.json"
  grep -qE "\"architecture\": ?\"$(machine)\"" "$work/index.json" || { echo "it is not for $(machine)"; return 1; }
}

install_with_helm() {
  as_user "helm install compile-cache oci://$charts/compile-cache --version $version --plain-http \
    --namespace compilecache-system --create-namespace --set registry.enabled=true"
}
install_with_kubectl() {
  as_user "curl -fsSO $site/SHA256SUMS -O $site/install.yaml && sha256sum -c --ignore-missing SHA256SUMS && kubectl apply -f $site/install.yaml"
}
uninstall_with_helm() {
  as_user 'helm uninstall compile-cache --namespace compilecache-system
    kubectl delete crd compilecaches.compilecache.dev compilecachearchives.compilecache.dev'
}
takes_a_cache() {
  as_user 'printf "%s\n" "apiVersion: compilecache.dev/v1alpha1" "kind: CompileCache" "metadata: {name: mine, namespace: default}" \
    "spec: {storage: {}}" | kubectl apply -f -'
}
verify_signatures() {
  local offline="--key $work/verify.pub --insecure-ignore-tlog --allow-http-registry --allow-insecure-registry"
  "$COSIGN" public-key --key "$key" >"$work/verify.pub"
  as_user "cosign verify $offline $image@$digest >/dev/null
    cosign verify $offline $charts/compile-cache@$chart_digest >/dev/null
    cosign verify-attestation $offline --type slsaprovenance1 $image@$digest >/dev/null
    cosign verify-attestation $offline --type spdxjson $image@$digest >/dev/null"
}
run_plugin() {
  local architecture
  architecture=$(machine)
  as_user "curl -fsSO $site/kubectl-compilecache-$version-linux-$architecture.tar.gz
    mkdir -p plugin && tar -xzf kubectl-compilecache-$version-linux-$architecture.tar.gz -C plugin
    PATH=\$PWD/plugin:\$PATH kubectl-compilecache --version | grep -F $version"
}

try_as_a_user() {
  local bin kubeconfig site
  site=http://127.0.0.1:$(free_port)
  python3 -m http.server --bind 127.0.0.1 --directory "$out" "${site##*:}" >"$work/files-server.log" 2>&1 &
  trial_pids+=($!)
  answers "$site/image.txt"
  trial_cluster=publish-$$
  "$cluster" up "$trial_cluster" --control-plane
  kubeconfig=$("$cluster" dir "$trial_cluster")/kubeconfig
  make_users_programs
  step "signatures of image, chart, provenance and SBOM hold" verify_signatures
  step "helm install oci://$charts/compile-cache" install_with_helm
  step "the operator's image is there, by its digest" names_the_image
  step "a CompileCache is taken" takes_a_cache
  step "helm uninstall" uninstall_with_helm
  step "kubectl apply -f $site/install.yaml" install_with_kubectl
  step "the operator's image is there, by its digest" names_the_image
  step "a CompileCache is taken" takes_a_cache
  step "the plugin runs" run_plugin
  say "published $version to a registry on this machine, and installed it from there"
}
