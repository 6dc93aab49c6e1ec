# The release before this tree's, as those have it who come from there. Sourced. shellcheck shell=bash

# Prints a folder with image.tar, the OCI archive of its image, and with its manifests, config/.
previous_release() {
  make_item previous "$(hash_of "1 $PREVIOUS_COMMIT $PREVIOUS_VERSION $BASE_SUITE")" build_previous_release
}

# What its Dockerfile makes of its tree. Its programs are compiled here, by the compiler's cache, and not in an image without one.
build_previous_release() {
  local into=$1 source=$1/source name=docker.io/library/compilecache:$PREVIOUS_VERSION log=$1/build.log lock program
  git -C "$PROJECT" cat-file -e "$PREVIOUS_COMMIT^{commit}" 2>/dev/null ||
    die "the release $PREVIOUS_VERSION is commit $PREVIOUS_COMMIT, which this clone does not have; get it: git fetch --unshallow"
  install_packages "${NODE_PACKAGES[@]}"
  log "building the release $PREVIOUS_VERSION (about 10 minutes on 2 cores); its output is in $log"
  mkdir -p "$source" "$CACHE/images" "$CACHE/locks"
  git -C "$PROJECT" archive "$PREVIOUS_COMMIT" | tar -x -C "$source"
  (
    export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content
    cmake -S "$source" -B "$into/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOMPILECACHE_TESTS=OFF &&
      ninja -C "$into/build" compilecache-operator compilecache-agent
  ) >"$log" 2>&1 || die "compiling the release $PREVIOUS_VERSION failed; its whole output: $(tail -n 20 "$log")"
  mkdir "$source/prebuilt"
  for program in operator agent; do
    strip -o "$source/prebuilt/compilecache-$program" "$into/build/$program/compilecache-$program"
  done
  exec {lock}>"$CACHE/locks/buildah"
  flock "$lock"
  import_base_for_buildah
  buildah_here bud --isolation chroot --network host --pull-never --build-arg BINARIES=prebuilt --tag "$name" \
    --file "$source/Dockerfile" "$source" >>"$log" 2>&1 || die "buildah failed: $(tail -n 20 "$log")"
  buildah_here push -q --format oci --disable-compression "$name" "oci:$into/layout:$PREVIOUS_VERSION"
  pack_layout "$into/layout" "$name" "$into/image.tar"
  buildah_here rmi "$name" >/dev/null
  tidy_buildah
  exec {lock}>&-
  mv "$source/config" "$into/config"
  rm -rf "$source" "$into/build" "$into/layout"
}
