#!/usr/bin/env bash
# plugin_test.sh TREE: what the release has for those who install the plugin: the manifest for krew and the script that runs it in a container, made for
# archives of a few bytes. tests/release/run looks at the real archives.
set -euo pipefail

tree=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$tree out=$work/out epoch=1700000000 repository=ghcr.io/somebody/compilecache version=1.2.3 digest=sha256:$(printf 0%.0s {1..64})
die() { echo "FAILED: $*" >&2; exit 1; }
source "$tree/release/files.sh"

# refused WORDS COMMAND...
refused() {
  local words=$1
  shift
  ! "$@" >"$work/said" 2>&1 || die "$* went well"
  grep -qF -- "$words" "$work/said" || { cat "$work/said" && die "$* did not say: $words"; }
}

mkdir "$out" "$work/plugin"
printf '#!/bin/sh\n' >"$work/plugin/kubectl-compilecache"
chmod +x "$work/plugin/kubectl-compilecache"
for architecture in amd64 arm64; do
  echo "$architecture" >"$work/plugin/licences"
  pack "$work/plugin" "$work/plugin.tar"
  gzip -9n <"$work/plugin.tar" >"$out/kubectl-compilecache-$version-linux-$architecture.tar.gz"
done
make_plugin_papers
[ ! -e "$out/compilecache.yaml" ] || die "there is a manifest for krew, and nobody knows where it downloads from"
SOURCE_URI=git+https://forge.example.com/somebody/compile-cache make_plugin_papers

# krew takes the manifest, and would notice an archive of another release.
"$tree/tests/release/krew_manifest.py" "$out/compilecache.yaml"
grep -qxF "    uri: \"https://forge.example.com/somebody/compile-cache/releases/download/v$version/kubectl-compilecache-$version-linux-arm64.tar.gz\"" \
  "$out/compilecache.yaml" || die "krew is not told where the plugin for arm64 is"
cp -r "$out" "$work/krew"
echo >>"$work/krew/kubectl-compilecache-$version-linux-amd64.tar.gz"
refused "kubectl-compilecache-$version-linux-amd64.tar.gz has another checksum" "$tree/tests/release/krew_manifest.py" "$work/krew/compilecache.yaml"
# krew_refuses SED WORDS: a manifest that is changed so.
krew_refuses() {
  sed "$1" "$out/compilecache.yaml" >"$work/krew/compilecache.yaml"
  ! cmp -s "$out/compilecache.yaml" "$work/krew/compilecache.yaml" || die "$1 changes nothing"
  refused "$2" "$tree/tests/release/krew_manifest.py" "$work/krew/compilecache.yaml"
}
krew_refuses s/v1alpha2/v1alpha1/ "is not a Plugin"
krew_refuses 's/name: compilecache/name: cc/' "the plugin is named"
krew_refuses 's/version: "v/version: "/' "the version is"
krew_refuses 's/os: linux/node: linux/' "krew knows os and arch"
krew_refuses 's/bin: .*/bin: kubectl-cc/' "has no program kubectl-cc"
krew_refuses 's/arch: arm64/arch: amd64/' "the same selector"
krew_refuses 's/shortDescription: /&Rather a long description of it, /' "50 characters"

# Where there is no program for the system, a container runs it: the kubeconfig and the folder are there, and its status is the program's.
tool() {
  printf '#!/usr/bin/env bash\nprintf "%%s\\n" "${0##*/}" "$@" >>%q\n%s\n' "$work/asked" "$2" >"$work/tools/$1"
  chmod +x "$work/tools/$1"
}
mkdir "$work/tools"
tool kubectl 'echo "the kubeconfig"'
tool podman 'while [ "$1" != -v ]; do shift; done; cat "${2%%:*}" >&2; exit 7'
container=$out/kubectl-compilecache-in-container.sh
[ "$(wc -l <"$container")" -le 5 ] || die "$container is longer than it is said to be"
code=0
(cd "$work/tools" && PATH=$work/tools:$PATH "$container" status "a cache" -n ml) 2>"$work/said" || code=$?
[ $code = 7 ] || die "the container's status 7 became $code"
[ "$(cat "$work/said")" = "the kubeconfig" ] || die "the container has no kubeconfig"
printf '%s\n' "$repository@$digest" kubectl-compilecache status "a cache" -n ml | cmp - <(tail -n 6 "$work/asked") || die "the program was called otherwise"
grep -qxF "$work/tools:$work/tools" "$work/asked" || die "the container has not the folder"

echo "krew takes the plugin's manifest, and a container runs the plugin"
