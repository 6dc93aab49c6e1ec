# Starts controllers of others on a cluster's node, as processes beside Kubernetes' own: controllers/README.md. Sourced.
# shellcheck shell=bash

# controller_folder CONTROLLER: where it is described.
controller_folder() {
  local folder=$CLUSTER_HOME/controllers/${1-}
  [[ ${1-} =~ ^[a-z0-9-]+$ ]] && [ -f "$folder/controller.json" ] ||
    die "there is no controller '${1-}'; there are: $(cd "$CLUSTER_HOME/controllers" && echo */)"
  printf '%s\n' "$folder"
}

told_of() { jq -r "$2" "$1/controller.json"; }

# controller_item CONTROLLER: a folder with the program, and the objects that its release installs.
controller_item() {
  local folder
  folder=$(controller_folder "$1")
  [ "$(told_of "$folder" '.package // empty')" ] || die "of $1 there are the resources alone (controller-manifests), no program to run"
  make_item "controller-$1" "$(hash_of "2 $(go_program kubectl)" "$folder/controller.json")" build_controller "$1" "$folder"
}

# manifests_item CONTROLLER: the objects alone, without building.
manifests_item() {
  local folder
  folder=$(controller_folder "$1")
  make_item "manifests-$1" "$(hash_of "2 $(go_program kubectl)" "$folder/controller.json")" write_manifests "$folder"
}

# Built within its module, so with the very dependencies that it was released with.
build_controller() {
  local into=$1 name=$2 folder=$3 module began=$SECONDS
  module=$(module_folder "$folder")
  write_manifests "$into" "$folder"
  log "building $name $(told_of "$folder" .version)"
  (cd "$module" && GOTOOLCHAIN=auto GOWORK=off CGO_ENABLED=1 nice "$(find_go)" build -mod=readonly -buildvcs=false -trimpath \
    -ldflags '-s -w' -o "$into/$name" "$(told_of "$folder" .package)" >&2)
  log "built $name in $((SECONDS - began)) s"
}

# module_folder FOLDER: the module's sources, which are those that the sum names.
module_folder() {
  local told module sum
  module=$(told_of "$1" '.module + "@" + .version')
  told=$(cd / && GOTOOLCHAIN=auto GOWORK=off GOFLAGS=-mod=mod "$(find_go)" mod download -json "$module") ||
    die "cannot get $module: $(jq -r '.Error // empty' <<<"$told")"
  sum=$(told_of "$1" .sum)
  [ "$(jq -r .Sum <<<"$told")" = "$sum" ] || die "$module has the sum $(jq -r .Sum <<<"$told"), not $sum as in $1/controller.json"
  jq -r .Dir <<<"$told"
}

# What of a release is not for a process: where it runs, who may reach it, its rights.
WANTED_KINDS='["CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Namespace", "ConfigMap"]'

write_manifests() {
  local into=$1 folder=$2 module kubectl one presets
  module=$(module_folder "$folder")
  kubectl=$(go_program kubectl)
  for one in $(told_of "$folder" '[.manifests] | flatten | .[]'); do
    echo ---
    kustomized "$module" "$one" "$into"
  done >"$into/manifests.yaml"
  "$kubectl" label --local --overwrite -f "$into/manifests.yaml" -o json compilecache.dev/test=controller |
    jq -s --argjson wanted "$WANTED_KINDS" '[.[] | if .kind == "List" then .items[] else . end | select(.kind as $kind | $wanted | index($kind))]
      | {apiVersion: "v1", kind: "List", items: .}' >"$into/manifests.json"
  presets=$(told_of "$folder" '.presets // empty')
  [ -z "$presets" ] || kustomized "$module" "$presets" "$into" >"$into/presets.yaml"
  rm "$into/manifests.yaml" "$into/kustomize.log"
}

# kustomized MODULE FOLDER LOGS: a kustomization of the module. From within: in an absolute path kustomize takes "github.com/" for a
# repository.
kustomized() {
  (cd "$1" && "$(go_program kubectl)" kustomize "$2") 2>"$3/kustomize.log" ||
    die "kustomize cannot build $2 of $1: $(tail -n 3 "$3/kustomize.log")"
}

# objects_of ITEM RUN ADDRESS PORT CONDITION: those that hold, as a List; the controller answers at the address.
objects_of() {
  jq --arg at "https://$3:$4" --arg ca "$(base64 -w0 "$2/pki/ca.crt")" '
    def at_address: if .service then {url: ($at + (.service.path // "/")), caBundle: $ca} else . end;
    .items |= map(select('"$5"')
      | del(.metadata.annotations["cert-manager.io/inject-ca-from"])
      | if .webhooks then .webhooks |= map(.clientConfig |= at_address) else . end
      | if .spec.conversion.webhook then .spec.conversion.webhook.clientConfig |= at_address else . end)' "$1/manifests.json"
}

# needs_of CONTROLLER: others that it does not work without.
needs_of() { told_of "$(controller_folder "$1")" '.needs // [] | .[]'; }

# add_controller NAME CONTROLLER: its resources, its webhooks and itself, on a cluster with a node; what it needs before it.
add_controller() {
  local run name=${2-} other folder item number address home arguments environment port
  run=$(existing_run "${1-}")
  folder=$(controller_folder "$name")
  number=$(cat "$run/number" 2>/dev/null) || die "the cluster '$1' has no node, and so no controllers"
  for other in $(needs_of "$name"); do
    [ -e "$run/controllers/$other" ] || (add_controller "$1" "$other")
  done
  item=$(controller_item "$name")
  address=10.231.$number.2
  port=$(told_of "$folder" '.webhookPort // 0')
  home=$run/controllers/$name
  mkdir -p "$home/tls" "$run/pki/$name"
  make_cert "$run" "$name/tls" "/CN=$name" "IP:$address"
  cp "$run/pki/$name"/tls.* "$home/tls"
  [ ! -f "$folder/config.yaml" ] || in_place "$home" "$address" <"$folder/config.yaml" >"$home/config.yaml"
  mapfile -t arguments < <(told_of "$folder" '.arguments[]' | in_place "$home" "$address")
  mapfile -t environment < <(told_of "$folder" '.environment // {} | to_entries[] | .key + "=" + .value' | in_place "$home" "$address")
  objects_of "$item" "$run" "$address" "$port" '.webhooks | not' | kubectl_in "$run" apply --server-side --force-conflicts -f - >/dev/null
  # A controller that finds its own kinds not served yet ends, and nobody here starts it again. `kubectl wait` itself ends at a new one
  # that has no conditions yet.
  wait_for 240 "the resources of $name" "$run" kube-apiserver kubectl_in "$run" wait --for=condition=Established crd --all --timeout=5s
  [ ! -f "$folder/before.yaml" ] || kubectl_in "$run" apply --server-side --force-conflicts -f "$folder/before.yaml" >/dev/null
  [ ! -f "$item/presets.yaml" ] || kubectl_in "$run" apply --server-side --force-conflicts -f "$item/presets.yaml" >/dev/null
  # shellcheck disable=SC2034  # both are read by start
  START_CGROUPS=$(cgroup_procs_files "$1" | tr '\n' ' ')
  START_PREFIX=(nsenter --net="/run/netns/cc-$1-0" env "KUBECONFIG=$run/kubeconfig" "${environment[@]}")
  files_at_root "$folder" "$home"
  start "$run" "$name" "$item/$name" "${arguments[@]}"
  [ "$port" = 0 ] ||
    objects_of "$item" "$run" "$address" "$port" .webhooks | kubectl_in "$run" apply --server-side --force-conflicts -f - >/dev/null
  wait_for 240 "the controller $name" "$run" "$name" kubectl_in "$run" create --dry-run=server -f "$folder/asks.yaml"
}

# A program that takes its certificates from one folder of /etc alone sees it there, and nobody else does; a folder of its own is
# simply made.
files_at_root() {
  local wanted
  wanted=$(told_of "$1" '.certificates // empty' | in_place "$2" "")
  [ -n "$wanted" ] || return 0
  if [[ $wanted == "$2/"* ]]; then
    mkdir -p "$wanted"
    cp "$2"/tls/tls.* "$wanted"
    return 0
  fi
  mkdir -p "$2/root/${wanted#/etc/}"
  cp "$2"/tls/tls.* "$2/root/${wanted#/etc/}"
  # shellcheck disable=SC2016
  START_PREFIX+=(unshare --mount bash -c 'mount -t overlay -o "ro,lowerdir=$0:/etc" none /etc && exec "$@"' "$2/root")
}

in_place() { sed "s|{folder}|$1|g; s|{address}|$2|g"; }
