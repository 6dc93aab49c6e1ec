#!/usr/bin/env bash
# publish_test.sh TREE: release/publish --dry-run with this tree's manifests and chart and an image of a few bytes: pushed, signed, verified and
# installed. And what it refuses. tests/release/run does the same with the real image.
set -euo pipefail

tree=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$tree out=$work/out epoch=1700000000 repository=ghcr.io/somebody/compilecache
version=$(sed -n 's/^project(compile-cache VERSION \([^ ]*\).*/\1/p' "$tree/CMakeLists.txt")
die() { echo "FAILED: $*" >&2; exit 1; }
source "$tree/release/files.sh"

# refused WORDS COMMAND...
refused() {
  local words=$1
  shift
  ! "$@" >"$work/said" 2>&1 || die "$* went well"
  grep -qF -- "$words" "$work/said" || { cat "$work/said" && die "$* did not say: $words"; }
}

# A plugin that prints its version, and papers that are JSON.
make_release() {
  local architecture
  mkdir "$out" "$work/plugin"
  "$tree/tests/release/tiny_layout.py" "$work/layout" "$version"
  digest=$("$tree/release/oci_layout.py" digest "$work/layout")
  pack "$work/layout" "$out/compilecache-$version-image.tar"
  make_manifests
  SOURCE_URI=git+https://forge.example.com/somebody/compile-cache make_chart
  printf '#!/bin/sh\necho "kubectl-compilecache %s"\n' "$version" >"$work/plugin/kubectl-compilecache"
  chmod +x "$work/plugin/kubectl-compilecache"
  pack "$work/plugin" "$work/plugin.tar"
  for architecture in amd64 arm64; do gzip -9n <"$work/plugin.tar" >"$out/kubectl-compilecache-$version-linux-$architecture.tar.gz"; done
  SOURCE_URI=git+https://forge.example.com/somebody/compile-cache make_plugin_papers
  "$tree/release/provenance.py" --version "$version" --commit 0123456789ab --ref "refs/tags/v$version" --repository "$repository" >"$out/provenance.json"
  echo '{"spdxVersion": "SPDX-2.3", "SPDXID": "SPDXRef-DOCUMENT", "name": "compilecache"}' >"$out/compilecache-$version.spdx.json"
  make_sums
}

make_release
tar -xzOf "$out/compile-cache-$version.tgz" compile-cache/Chart.yaml >"$work/Chart.yaml"
grep -qxF "      image: $repository@$digest" "$work/Chart.yaml" || die "Artifact Hub is not told the image"
grep -qxF "home: https://forge.example.com/somebody/compile-cache" "$work/Chart.yaml" || die "the chart has no home"
"$tree/release/publish" "$out" --dry-run

# The forge's release has every file and the newest section of the changelog. Programs that only note what they are asked stand for the others.
tool() {
  printf '#!/usr/bin/env bash\nprintf "%%s\\n" "${0##*/}" "$@" >>%q\n%s\n' "$work/asked" "$2" >"$work/tools/$1"
  chmod +x "$work/tools/$1"
}
mkdir "$work/tools"
tool skopeo ''
tool helm 'echo "Digest: sha256:0123"'
tool gh 'while [ $# -gt 1 ]; do [ "$1" != --notes-file ] || cp "$2" "${0%/*}/notes"; shift; done'
HELM=helm GH=gh PATH=$work/tools:$PATH "$tree/release/publish" "$out" --forge github
for file in "$out"/* "docker://$repository:$version" oci://ghcr.io/somebody/charts "v$version"; do
  grep -qxF -- "$file" "$work/asked" || { cat "$work/asked" && die "$file was not published"; }
done
[ "$(head -n 1 "$work/asked")" = skopeo ] || die "the forge's release came before the image"
[ -s "$work/tools/notes" ] && ! grep -q '^## ' "$work/tools/notes" || die "the notes are not one section of CHANGELOG.md"

refused "no compilecache-VERSION-image.tar" "$tree/release/publish" "$(mkdir "$work/empty" && echo x@y >"$work/empty/image.txt" && echo "$work/empty")"
refused "make the release first" "$tree/release/publish" "$work"
refused "--dry-run asks no forge" "$tree/release/publish" "$out" --dry-run --forge github
refused "--forge knows github" "$tree/release/publish" "$out" --forge elsewhere
echo >>"$out/install.yaml"
refused "are not what SHA256SUMS says" "$tree/release/publish" "$out" --registry 127.0.0.1:1
echo "release/publish pushes, signs and installs, and refuses what it should"
