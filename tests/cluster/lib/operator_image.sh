# Builds the operator's image from the project's Dockerfile with buildah, as docker build does elsewhere.
# Sourced. shellcheck shell=bash

# build_image NAME_TAG: what `docker build .` makes of this tree; prints the OCI archive's path. The compiler's cache and
# the layers with Debian's packages are kept, so that only what changed is compiled again.
build_image() {
  local name=${1-} log=$CACHE/images/build.log out layout lock
  [[ $name == */*:* ]] || die "build-image needs a full name such as docker.io/local/compilecache:dev, not '$name'"
  install_packages "${NODE_PACKAGES[@]}"
  mkdir -p "$CACHE/images" "$CACHE/locks" "$CACHE/ccache-image"
  exec {lock}>"$CACHE/locks/buildah"
  flock "$lock"
  import_base_for_buildah
  log "building the image $name from the Dockerfile; its output is in $log"
  # The stage that compiles has a name too, by which its layers are kept.
  { build_stage --target build --tag localhost/compilecache-build && build_stage --tag "$name"; } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    tidy_buildah
    die "buildah failed; its whole output is in $log"
  }
  out=$CACHE/images/$(tr -c 'A-Za-z0-9._\n-' _ <<<"$name").tar
  layout=$(mktemp -d "$CACHE/images/layout.XXXXXX")
  buildah_here push -q --format oci --disable-compression "$name" "oci:$layout:${name##*:}"
  pack_layout "$layout" "$name" "$out"
  tidy_buildah
  exec {lock}>&-
  printf '%s\n' "$out"
}

# build_stage OPTION...: `docker build` of this tree.
build_stage() {
  buildah_here bud --isolation chroot --network host --pull-never --layers --volume "$CACHE/ccache-image:/ccache" \
    "$@" --file "$PROJECT/Dockerfile" "$PROJECT"
}

buildah_here() { buildah --root "$CACHE/buildah" --runroot "$CACHE/buildah-run" "$@"; }

# Working containers, which would stay mounted, and images that an earlier build left without a name.
tidy_buildah() {
  buildah_here rm --all >/dev/null 2>&1 || true
  buildah_here rmi --prune >/dev/null 2>&1 || true
  umount "$CACHE/buildah/overlay" 2>/dev/null || true
}

import_base_for_buildah() {
  local archive
  archive=$(image_archive base)
  [ "$(cat "$CACHE/buildah/base-is" 2>/dev/null)" != "$archive" ] || return 0
  buildah_here pull -q "oci-archive:$archive" >"$CACHE/images/base-id"
  buildah_here tag "$(cat "$CACHE/images/base-id")" "$BASE_IMAGE"
  echo "$archive" >"$CACHE/buildah/base-is"
}
