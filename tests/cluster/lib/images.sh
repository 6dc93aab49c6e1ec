# Makes the images that no registry is asked for, and keeps them ready to use: pause, a Debian base, a
# Debian with PyTorch. Sourced.
# shellcheck shell=bash

# An image store is a containerd root folder with images imported and unpacked, made once. A cluster
# starts from a copy that shares the layers (fill_from_store), so that it does not unpack 2 GB.
#   image_store base    pause and the base image
#   image_store torch   the same, and the PyTorch image
#   image_store next    the same, and the image with a newer PyTorch
image_store() {
  local set=$1 archives=() archive kind torch
  if [ "$set" = next ]; then
    torch=$(image_store torch)
    archive=$(image_archive next)
    make_item images-next "$(hash_of "$torch $archive")" build_image_store "$torch" "$archive"
    return
  fi
  for kind in pause base torch; do
    [ "$set/$kind" != base/torch ] || continue
    archive=$(image_archive $kind)
    archives+=("$archive")
  done
  make_item "images-$set" "$(hash_of "${archives[*]}")" build_image_store "" "${archives[@]}"
}

# build_image_store INTO STORE ARCHIVE...: STORE, unless empty, is one to begin with; its files are shared.
build_image_store() {
  local into=$1 run=$1/run from=$2 archive
  shift 2
  [ -z "$from" ] || share_store "$from/root" "$into/root"
  log "unpacking images for clusters: ${*##*/}"
  mkdir -p "$run"
  write_containerd_config "$run" "$into/root" store
  start "$run" containerd containerd --config "$run/containerd.toml"
  wait_for 120 containerd "$run" containerd ctr --address "$run/containerd.sock" version
  for archive in "$@"; do import_image "$run" "$archive"; done
  stop "$run" containerd
  rm -rf "$run"
}

# share_store FROM INTO: a copy with hard links to what never changes, which is all but containerd's databases.
share_store() {
  local from=$1 into=$2 database
  cp -al "$from" "$into"
  while read -r database; do cp -a --remove-destination "$from/$database" "$into/$database"; done \
    < <(cd "$from" && find . -name '*.db')
}

# import_image RUN ARCHIVE: into the containerd of that run folder, under the name the archive carries.
import_image() {
  ctr --address "$1/containerd.sock" --namespace k8s.io images import --snapshotter overlayfs "$2" >/dev/null
}

# fill_from_store STORE ROOT: ROOT becomes a containerd root of its own: databases copied, the immutable
# blobs hard-linked, the immutable unpacked layers linked by name (deleting a layer deletes the link).
fill_from_store() {
  local store=$1/root root=$2 kind layer
  mkdir -p "$root"
  kind=io.containerd.snapshotter.v1.overlayfs
  mkdir -p "$root/$kind/snapshots"
  cp -a "$store/io.containerd.metadata.v1.bolt" "$root/"
  cp -a "$store/$kind/metadata.db" "$root/$kind/"
  for layer in "$store/$kind/snapshots/"*; do ln -s "$layer" "$root/$kind/snapshots/"; done
  cp -al "$store/io.containerd.content.v1.content" "$root/" 2>/dev/null ||
    cp -a "$store/io.containerd.content.v1.content" "$root/"
}

# image_archive pause|base|torch|next|registry|registry_before: makes the image once; prints its OCI archive's path.
image_archive() {
  local kind=$1 path hash
  case $kind in
    pause) hash=$(hash_of "$PAUSE_IMAGE" "$CLUSTER_HOME/pause.c" "$CLUSTER_HOME/lib/oci.sh") ;;
    base) hash=$(hash_of "$BASE_IMAGE $BASE_SUITE" "$CLUSTER_HOME/lib/"{debian,oci}.sh) ;;
    torch) hash=$(hash_of "$TORCH_IMAGE $TORCH_SUITE" "$CLUSTER_HOME/lib/"{debian,oci}.sh) ;;
    registry) hash=$(hash_of "$REGISTRY_IMAGE $BASE_SUITE $(go_program registry)" "$CLUSTER_HOME/lib/"{debian,oci}.sh) ;;
    registry_before)
      hash=$(hash_of "$REGISTRY_BEFORE_IMAGE $BASE_SUITE $(go_program registry_before)" "$CLUSTER_HOME/lib/"{debian,oci}.sh)
      ;;
    next)
      hash=$(hash_of "$NEXT_TORCH_IMAGE $NEXT_TORCH_SUITE ${NEXT_TORCH_PACKAGES[*]}" "$CLUSTER_HOME/lib/"{debian,oci}.sh)
      ;;
  esac
  path=$(make_item "image-$kind" "$hash" "build_$kind")
  printf '%s/%s.tar\n' "$path" "$kind"
}

# The program that holds a pod's namespaces.
build_pause() {
  mkdir "$1/root"
  gcc -Os -static -s -o "$1/root/pause" "$CLUSTER_HOME/pause.c"
  oci_archive "$1/root" "$PAUSE_IMAGE" '{"Entrypoint":["/pause"],"User":"65535:65535"}' "$1/pause.tar"
  rm -rf "$1/root"
}

IMAGE_ENV='"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]'

build_base() {
  log "making $BASE_IMAGE from Debian $BASE_SUITE's packages (about 1 minute)"
  debian_root "$1/root" "$BASE_SUITE"
  oci_archive "$1/root" "$BASE_IMAGE" "{\"Cmd\":[\"bash\"],$IMAGE_ENV}" "$1/base.tar"
  rm -rf "$1/root"
}

build_registry() { registry_image "$1" registry "$REGISTRY_IMAGE"; }

build_registry_before() { registry_image "$1" registry_before "$REGISTRY_BEFORE_IMAGE"; }

# registry_image INTO PROGRAM NAME: the registry as its project's image has it: the program, a shell, and that user's files.
registry_image() {
  log "making $3 (about 1 minute)"
  debian_root "$1/root" "$BASE_SUITE"
  install -m 755 "$(go_program "$2")" "$1/root/bin/registry"
  oci_archive "$1/root" "$3" \
    "{\"Entrypoint\":[\"registry\"],\"Cmd\":[\"serve\",\"/etc/distribution/config.yml\"],$IMAGE_ENV}" "$1/$2.tar"
  rm -rf "$1/root"
}

# torch.compile for CPU compiles C++: it needs g++, Python's and torch's headers.
TORCH_PACKAGES=(python3-torch libtorch-dev g++ python3-dev)
# With the server and the client of PyTorch's own remote cache.
NEXT_TORCH_PACKAGES=("${TORCH_PACKAGES[@]}" python3-redis redis-server)

build_torch() {
  log "making $TORCH_IMAGE from Debian $TORCH_SUITE's packages (about 3 minutes, 350 MB to download)"
  torch_image "$1" "$TORCH_SUITE" "$TORCH_IMAGE" torch "${TORCH_PACKAGES[@]}"
}

build_next() {
  log "making $NEXT_TORCH_IMAGE from Debian $NEXT_TORCH_SUITE's packages (some minutes, 350 MB to download)"
  torch_image "$1" "$NEXT_TORCH_SUITE" "$NEXT_TORCH_IMAGE" next "${NEXT_TORCH_PACKAGES[@]}"
}

# torch_image FOLDER SUITE IMAGE KIND PACKAGE...
torch_image() {
  local root=$1/root suite=$2 image=$3 out=$1/$4.tar
  debian_root "$root" "$suite" "${@:5}"
  rm -rf "$root/usr/lib/libtorch-test"
  oci_archive "$root" "$image" "{\"Cmd\":[\"python3\"],$IMAGE_ENV}" "$out"
  rm -rf "$root"
}

# unpack_base FOLDER: the base image's files.
unpack_base() {
  local archive manifest layer
  [ -d "${1-}" ] || die "base-root needs a folder, not '${1-}'"
  install_packages "${CONTROL_PLANE_PACKAGES[@]}" "${NODE_PACKAGES[@]}"
  archive=$(image_archive base)
  manifest=$(tar -xOf "$archive" index.json | jq -r '.manifests[0].digest | sub(":"; "/")')
  layer=$(tar -xOf "$archive" "blobs/$manifest" | jq -r '.layers[0].digest | sub(":"; "/")')
  tar -xOf "$archive" "blobs/$layer" | zstd -dq | tar -C "$1" -x
}

# The PyTorch image's root file system as it was unpacked once; not to be written to.
torch_root() {
  local store folder
  install_packages "${CONTROL_PLANE_PACKAGES[@]}" "${NODE_PACKAGES[@]}"
  store=$(image_store torch)
  for folder in "$store"/root/io.containerd.snapshotter.v1.overlayfs/snapshots/*/fs; do
    [ ! -d "$folder/usr/lib/python3/dist-packages/torch" ] || { printf '%s\n' "$folder" && return; }
  done
  die "there is no PyTorch in $store; remove that folder and run prepare torch"
}
