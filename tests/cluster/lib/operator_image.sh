# Builds the operator's image from the project's Dockerfile with buildah, as docker build does elsewhere.
# Sourced. shellcheck shell=bash

# build_image NAME_TAG BINDIR: from programs that are built already; prints the OCI archive's path.
build_image() {
  local name=${1-} bin=${2-} context program out layout lock
  [[ $name == */*:* ]] || die "build-image needs a full name such as docker.io/local/compilecache:dev, not '$name'"
  for program in compilecache-{operator,agent,supervise}; do
    [ -x "$bin/$program" ] || die "there is no program $program in '$bin': build the project first, then name its folder"
  done
  install_packages "${NODE_PACKAGES[@]}"
  mkdir -p "$CACHE/images" "$CACHE/locks"
  exec {lock}>"$CACHE/locks/buildah"
  flock "$lock"
  import_base_for_buildah
  context=$(mktemp -d "$CACHE/images/context.XXXXXX")
  mkdir "$context/prebuilt"
  for program in compilecache-{operator,agent,supervise}; do
    strip -o "$context/prebuilt/$program" "$bin/$program" 2>/dev/null || cp "$bin/$program" "$context/prebuilt/"
  done
  cp "$PROJECT/Dockerfile" "$context/"
  log "building the image $name"
  buildah_here bud --isolation chroot --network host --pull-never --layers --build-arg BINARIES=prebuilt \
    --tag "$name" --file "$context/Dockerfile" "$context" >"$CACHE/images/build.log" 2>&1 || {
    tail -n 20 "$CACHE/images/build.log" >&2
    tidy_buildah
    rm -rf "$context"
    die "buildah failed; its whole output is in $CACHE/images/build.log"
  }
  out=$CACHE/images/$(tr -c 'A-Za-z0-9._\n-' _ <<<"$name").tar
  layout=$context/layout
  buildah_here push -q --format oci --disable-compression "$name" "oci:$layout:${name##*:}"
  pack_layout "$layout" "$name" "$out"
  tidy_buildah
  rm -rf "$context"
  exec {lock}>&-
  printf '%s\n' "$out"
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
