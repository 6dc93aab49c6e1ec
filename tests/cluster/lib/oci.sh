# Packs a root file system as an OCI image of one layer, in an archive that containerd, buildah and skopeo
# read. Sourced. shellcheck shell=bash

# oci_archive FOLDER NAME_TAG CONFIG OUT
#   CONFIG  the image's "config" object as JSON, e.g. {"Cmd":["bash"]}
oci_archive() {
  local folder=$1 name=$2 config=$3 out=$4 layout diff layer
  layout=$(mktemp -d "$out.XXXXXX")
  mkdir -p "$layout/blobs/sha256"
  mkfifo "$layout/plain"
  sha256sum <"$layout/plain" >"$layout/diff" &
  # The files keep their times: Python recompiles a module whose time is not the one in its .pyc.
  tar --sort=name --numeric-owner --xattrs --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' \
    -C "$folder" -cf - . | tee "$layout/plain" | zstd -q -1 -T0 >"$layout/layer"
  wait $!
  diff=sha256:$(cut -c1-64 "$layout/diff")
  rm "$layout/plain" "$layout/diff"

  layer=$(put_blob "$layout" "$layout/layer" layer.v1.tar+zstd)
  # Without a history as long as the list of layers, buildah refuses to build on the image.
  jq -cn --argjson config "$config" --arg diff "$diff" --arg arch "$(dpkg --print-architecture)" \
    '{architecture: $arch, os: "linux", config: $config, rootfs: {type: "layers", diff_ids: [$diff]},
      history: [{created_by: "debootstrap"}]}' >"$layout/config"
  config=$(put_blob "$layout" "$layout/config" config.v1+json)
  jq -cn --argjson config "$config" --argjson layer "$layer" \
    '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config, layers: [$layer]}' \
    >"$layout/manifest"
  jq -cn --argjson manifest "$(put_blob "$layout" "$layout/manifest" manifest.v1+json)" \
    '{schemaVersion: 2, manifests: [$manifest]}' >"$layout/index.json"
  echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
  pack_layout "$layout" "$name" "$out"
}

# put_blob LAYOUT FILE TYPE: moves the file among the blobs; prints its descriptor.
put_blob() {
  local digest size
  digest=$(sha256sum <"$2" | cut -c1-64)
  size=$(stat -c %s "$2")
  mv "$2" "$1/blobs/sha256/$digest"
  printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s}\n' "$3" "$digest" "$size"
}

# pack_layout LAYOUT NAME_TAG OUT: names the image of a layout so that containerd, buildah and skopeo find
# it, and makes an archive of the layout; the layout is removed.
pack_layout() {
  local layout=$1 name=$2 out=$3
  jq -c --arg name "$name" '.manifests[].annotations += {"io.containerd.image.name": $name,
    "org.opencontainers.image.ref.name": ($name | split(":") | last)}' "$layout/index.json" >"$layout/index.new"
  mv "$layout/index.new" "$layout/index.json"
  tar -C "$layout" -cf "$out.part" oci-layout index.json blobs
  mv "$out.part" "$out"
  rm -rf "$layout"
}
