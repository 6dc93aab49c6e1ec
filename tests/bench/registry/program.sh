#!/usr/bin/env bash
# program.sh registry|oras: builds it once, as tests/cluster keeps what it builds, and prints its path.
set -Eeuo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CLUSTER_HOME=$(cd "$here/../../cluster" && pwd)
for part in common prepare; do
  # shellcheck disable=SC1090
  source "$CLUSTER_HOME/lib/$part.sh"
done

case ${1-} in
  registry) go_program registry ;;
  oras)
    package=oras.land/oras/cmd/oras
    path=$(make_item oras "$(hash_of "$package" "$here/peer"/go.*)" build_go_program oras ../bench/registry/peer "$package" '-s -w')
    printf '%s/oras\n' "$path"
    ;;
  *) die "program.sh knows registry and oras, not '${1-}'" ;;
esac
