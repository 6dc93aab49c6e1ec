#!/usr/bin/env bash
# install_manifest.sh finds the operator's image in the manifest as it is.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/install_manifest.sh"

image=$(operator_image "$here/../../config/install.yaml")
repository=$(cat "$here/../../image/repository")
[[ $image =~ ^"$repository":[0-9.]+$ ]] || { echo "FAILED: the image is '$image'" >&2 && exit 1; }
