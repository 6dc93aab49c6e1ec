# Files of a release that only copy from the tree and name the image: manifests, the chart, what installs the plugin, the list of all. Sourced.
# shellcheck shell=bash disable=SC2154
#
# By: source (the tree), out (the release's folder), work (a scratch folder), version, repository and digest (of the image), epoch (the
# commit's time), and die.

# One file, by any user at any time. pack FOLDER FILE [NAME]: all of the folder, or what has that name there
pack() {
  tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mode=go=u-w --mtime="@$epoch" -C "$1" -c "${3:-.}" >"$2"
}

# The image by its digest, wherever it is named.
make_manifests() {
  local name default
  default=$(cat "$source/image/repository")
  for name in install install-with-registry operator operator-with-registry crds; do
    sed "s|$default:$version|$repository@$digest|g" "$source/config/$name.yaml" >"$out/$name.yaml"
    if grep -nE "image: [^ ]*/compilecache:" "$out/$name.yaml"; then die "$name.yaml names an image without its digest"; fi
  done
}

# home_of SOURCE_URI: "git+https://forge/me/it" as the page of a project; nothing where that is not known.
home_of() { case ${1-} in git+https://*) printf '%s\n' "${1#git+}" ;; esac; }

# With what Artifact Hub shows: the image, and where the project is ($SOURCE_URI).
make_chart() {
  local chart=$work/chart/compile-cache home
  mkdir -p "${chart%/*}"
  cp -r "$source/charts/compile-cache" "$chart"
  sed -i -e "0,/^  repository: /s|^  repository: .*|  repository: $repository|" -e "0,/^  digest: /s|^  digest: .*|  digest: $digest|" "$chart/values.yaml"
  grep -q "^  digest: $digest\$" "$chart/values.yaml" || die "the chart's values.yaml has no image.digest to set"
  printf '  artifacthub.io/images: |\n    - name: compilecache\n      image: %s@%s\n' "$repository" "$digest" >>"$chart/Chart.yaml"
  case $version in *-*) sed -i 's|^  artifacthub.io/prerelease: .*|  artifacthub.io/prerelease: "true"|' "$chart/Chart.yaml" ;; esac
  home=$(home_of "${SOURCE_URI-}")
  [ -z "$home" ] || printf 'home: %s\nsources: [%s]\n' "$home" "$home" >>"$chart/Chart.yaml"
  # Users of the chart do not need it.
  rm -f "$chart/README.md.gotmpl"
  pack "${chart%/*}" "$work/chart.tar" compile-cache
  gzip -9n <"$work/chart.tar" >"$out/compile-cache-$version.tgz"
}

# The plugin's manifest for krew, which downloads from the forge's release: only where that is known ($SOURCE_URI). And the script that runs the
# plugin in a container.
make_plugin_papers() {
  local home
  sed "s|@IMAGE@|$repository@$digest|" "$source/image/kubectl-compilecache-in-container.sh" >"$out/kubectl-compilecache-in-container.sh"
  chmod +x "$out/kubectl-compilecache-in-container.sh"
  home=$(home_of "${SOURCE_URI-}")
  [ -z "$home" ] || "$source/release/krew.py" "$out" --version "$version" --home "$home" --downloads "$home/releases/download/v$version"
}

make_sums() {
  printf '%s@%s\n' "$repository" "$digest" >"$out/image.txt"
  (cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >"$work/sums" && mv "$work/sums" SHA256SUMS)
}
