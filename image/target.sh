# What an architecture in Docker's words (amd64, arm64) is called elsewhere. Sourced; sets
#   architecture   the one that the image is for; Debian's word is the same
#   native         the one of this machine
#   triplet        of the target: aarch64-linux-gnu
#   prefix         of the tools that make programs for it: empty, or "aarch64-linux-gnu-"
# shellcheck shell=bash disable=SC2034

# target ARCHITECTURE: empty for this machine's
target() {
  native=$(dpkg --print-architecture)
  architecture=${1:-$native}
  case $architecture in
    amd64) processor=x86_64 ;;
    arm64) processor=aarch64 ;;
    *) echo "image: $architecture is not known; amd64 and arm64 are" >&2; exit 1 ;;
  esac
  triplet=$processor-linux-gnu
  prefix=
  if [ "$architecture" != "$native" ]; then prefix=$triplet-; fi
}
