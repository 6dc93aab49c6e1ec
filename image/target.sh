# Other names of an architecture that Docker calls amd64 or arm64. Sourced; target() sets
#   architecture   the one that the image is for; Debian's word is the same
#   native         the one of this machine
#   triplet        of the target: aarch64-linux-gnu
#   prefix         of the tools that make programs for it: empty, or "aarch64-linux-gnu-"
#   cross          CMake's arguments where it is another machine's; PKG_CONFIG_LIBDIR is set then
# shellcheck shell=bash disable=SC2034

# target ARCHITECTURE: empty for this machine's
target() {
  local processor
  case $(uname -m) in
    x86_64) native=amd64 ;;
    aarch64) native=arm64 ;;
    *) native=$(uname -m) ;;
  esac
  architecture=${1:-$native}
  case $architecture in
    amd64) processor=x86_64 ;;
    arm64) processor=aarch64 ;;
    *) echo "image: $architecture is not known; amd64 and arm64 are" >&2; exit 1 ;;
  esac
  triplet=$processor-linux-gnu
  prefix= cross=()
  if [ "$architecture" != "$native" ]; then
    prefix=$triplet-
    cross=(-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$processor" "-DCMAKE_CXX_COMPILER=${prefix}g++")
    export PKG_CONFIG_LIBDIR=/usr/lib/$triplet/pkgconfig:/usr/share/pkgconfig
  fi
}
