#!/usr/bin/env bash
# version_test.sh BUILD PROGRAM...: that programs tell their version and commit, wherever the tree comes from, and that all that
# names the version names the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tree=$PWD
build=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
wrong() { echo "$*" >&2; failed=1; }

# expect WHAT PATTERN TEXT
expect() { [[ $3 =~ ^$2$ ]] || wrong "$1: '$3' is not like '$2'"; }

# commit_of TREE [COMMIT]: what a program that is built from there would tell.
commit_of() {
  cmake "-DTREE=$1" "-DCOMMIT=${2-}" "-DOUTPUT=$work/commit.cpp" -P "$1/cmake/commit.cmake"
  sed -n 's/.*return "\(.*\)".*/\1/p' "$work/commit.cpp"
}

mkdir -p "$work/tree/cmake"
cp cmake/commit.cmake cmake/commit.txt "$work/tree/cmake/"
cp .gitattributes "$work/tree/"
git=(git -C "$work/tree" -c user.name=test -c user.email=test@example.com -c commit.gpgsign=false)
export GIT_CEILING_DIRECTORIES=$work
expect "without git" unknown "$(commit_of "$work/tree")"
expect "where it is said" v2-rc1 "$(commit_of "$work/tree" v2-rc1)"
expect "where a whole name is said" 0123456789ab "$(commit_of "$work/tree" 0123456789abcdef0123456789abcdef01234567)"
expect "where what is said is no name" unknown "$(commit_of "$work/tree" 'x"; system("reboot')"
"${git[@]}" init -q
"${git[@]}" add .
"${git[@]}" commit -qm one
commit=$("${git[@]}" rev-parse --short=12 HEAD)
"${git[@]}" tag v1
expect "in a clone, whatever its tags" "$commit" "$(commit_of "$work/tree")"
before=$(find "$work/commit.cpp" -printf "%T@")
commit_of "$work/tree" >/dev/null
expect "written only when it has changed" "$before" "$(find "$work/commit.cpp" -printf "%T@")"
echo '#' >>"$work/tree/cmake/commit.cmake"
expect "with changes" "$commit-dirty" "$(commit_of "$work/tree")"
mkdir "$work/tarball"
"${git[@]}" archive HEAD | tar -x -C "$work/tarball"
expect "from a tarball" "$commit" "$(commit_of "$work/tarball")"
# In a folder of somebody else's repository.
mkdir -p "$work/tree/vendored/cmake"
cp cmake/commit.cmake cmake/commit.txt "$work/tree/vendored/cmake/"
expect "within another repository" unknown "$(commit_of "$work/tree/vendored")"

version=$(sed -n 's/^project(.* VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
for program in "$@"; do
  name=${program##*/}
  expect "$name" "$name $version [(]commit ([0-9a-f]{12}(-dirty)?|[0-9A-Za-z._-]+)[)]" "$("$program" --version)"
done

# The compiler's cache knows nothing of a commit: none is in a command.
if [ -e "$build/compile_commands.json" ] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
  ! grep -q "$commit" "$build/compile_commands.json" || wrong "the commit is part of how sources are compiled"
fi

expect "CHANGELOG.md's newest release" "$version" "$(sed -n 's/^## \[*\([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)"
expect "the image of config/" "$version" "$(sed -n "s#.*image: $(cat image/repository):\(.*\)#\1#p" config/operator/deployment.yaml)"
for key in version appVersion; do
  expect "the chart's $key" "$version" "$(sed -n "s/^$key: //p" charts/compile-cache/Chart.yaml)"
done
if tag=$(git -C "$tree" describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null); then
  expect "the tag of this commit" "v$version" "$tag"
fi

[ $failed -eq 0 ] || exit 1
echo "version $version, told by programs, image, chart and CHANGELOG.md alike"
