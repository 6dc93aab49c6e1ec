# Makes the images that no registry is asked for, and keeps them ready to use: pause, a Debian base, a
# Debian with PyTorch; and the operator's own image from the project's Dockerfile. Sourced.
# shellcheck shell=bash

# An image store is a containerd root folder with images imported and unpacked, made once. A cluster
# starts from a copy that shares the layers (fill_from_store), so that it does not unpack 2 GB.
#   image_store base    pause and the base image
#   image_store torch   the same, and the PyTorch image
image_store() {
  local set=$1 archives=() archive kind
  for kind in pause base torch; do
    [ "$set/$kind" != base/torch ] || continue
    archive=$(image_archive $kind)
    archives+=("$archive")
  done
  make_item "images-$set" "$(hash_of "${archives[*]}")" build_image_store "${archives[@]}"
}

build_image_store() {
  local into=$1 run=$1/run archive
  shift
  log "unpacking images for clusters: ${*##*/}"
  mkdir -p "$run"
  write_containerd_config "$run" "$into/root" store
  start "$run" containerd containerd --config "$run/containerd.toml"
  wait_for 20 containerd "$run" containerd ctr --address "$run/containerd.sock" version
  for archive in "$@"; do import_image "$run" "$archive"; done
  # The layers' tar files are what a push would need; clusters run from the unpacked copy. Their folders
  # hold no more than links to these.
  stop "$run" containerd
  rm -rf "$run"
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

# oci_archive FOLDER NAME_TAG CONFIG OUT: packs a root file system as an image of one layer.
#   CONFIG  the image's "config" object as JSON, e.g. {"Cmd":["bash"]}
oci_archive() {
  local folder=$1 name=$2 config=$3 out=$4 layout
  layout=$(mktemp -d "$out.XXXXXX")
  mkdir -p "$layout/blobs/sha256"
  mkfifo "$layout/plain"
  sha256sum <"$layout/plain" >"$layout/diff" &
  tar --sort=name --mtime=@0 --numeric-owner --xattrs --exclude='./dev/*' --exclude='./proc/*' \
    --exclude='./sys/*' -C "$folder" -cf - . | tee "$layout/plain" | zstd -q -1 -T0 >"$layout/layer"
  wait $!
  local diff layer_digest layer_size
  diff=$(cut -c1-64 "$layout/diff")
  layer_size=$(stat -c %s "$layout/layer")
  layer_digest=$(put_blob "$layout" "$layout/layer")
  jq -cn --argjson config "$config" --arg diff "sha256:$diff" --arg arch "$(dpkg --print-architecture)" \
    '{architecture: $arch, os: "linux", config: $config, rootfs: {type: "layers", diff_ids: [$diff]}}' >"$layout/config"
  local config_size config_digest manifest_size manifest_digest
  config_size=$(stat -c %s "$layout/config")
  config_digest=$(put_blob "$layout" "$layout/config")
  jq -cn --arg c "$config_digest" --argjson cs "$config_size" --arg l "$layer_digest" --argjson ls "$layer_size" \
    '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
      config: {mediaType: "application/vnd.oci.image.config.v1+json", digest: $c, size: $cs},
      layers: [{mediaType: "application/vnd.oci.image.layer.v1.tar+zstd", digest: $l, size: $ls}]}' >"$layout/manifest"
  manifest_size=$(stat -c %s "$layout/manifest")
  manifest_digest=$(put_blob "$layout" "$layout/manifest")
  jq -cn --arg m "$manifest_digest" --argjson ms "$manifest_size" \
    '{schemaVersion: 2, manifests: [{mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $m, size: $ms}]}' \
    >"$layout/index.json"
  rm "$layout/plain" "$layout/diff"
  echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
  pack_layout "$layout" "$name" "$out"
}

# put_blob LAYOUT FILE: moves the file among the blobs; prints its digest.
put_blob() {
  local digest
  digest=$(sha256sum <"$2" | cut -c1-64)
  mv "$2" "$1/blobs/sha256/$digest"
  printf 'sha256:%s\n' "$digest"
}

# pack_layout LAYOUT NAME_TAG OUT: names the image of a layout so that containerd, buildah and skopeo find
# it, and makes an archive of the layout; the layout is gone afterwards.
pack_layout() {
  local layout=$1 name=$2 out=$3
  jq -c --arg name "$name" '.manifests[].annotations += {"io.containerd.image.name": $name,
    "org.opencontainers.image.ref.name": ($name | split(":") | last)}' "$layout/index.json" >"$layout/index.new"
  mv "$layout/index.new" "$layout/index.json"
  tar -C "$layout" -cf "$out.part" oci-layout index.json blobs
  mv "$out.part" "$out"
  rm -rf "$layout"
}

# image_archive pause|base|torch: makes the image once; prints its OCI archive's path.
image_archive() {
  local kind=$1 path hash
  case $kind in
    pause) hash=$(hash_of "$PAUSE_IMAGE" "$CLUSTER_HOME/pause.c") ;;
    base) hash=$(hash_of "$BASE_IMAGE $BASE_SUITE" "$CLUSTER_HOME/lib/debian.sh") ;;
    torch) hash=$(hash_of "$TORCH_IMAGE $TORCH_SUITE" "$CLUSTER_HOME/lib/debian.sh") ;;
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

build_torch() {
  log "making $TORCH_IMAGE from Debian $TORCH_SUITE's packages (about 3 minutes, 350 MB to download)"
  # torch.compile for CPU compiles C++: it needs g++, Python's and torch's headers.
  debian_root "$1/root" "$TORCH_SUITE" python3-torch libtorch-dev g++ python3-dev
  oci_archive "$1/root" "$TORCH_IMAGE" "{\"Cmd\":[\"python3\"],$IMAGE_ENV}" "$1/torch.tar"
  rm -rf "$1/root"
}
