#!/usr/bin/env bash
# No folder of this tree includes from one that its CMakeLists.txt does not name; and includes.py notices where one does.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# fails_with TEXT: the planted tree is refused, and so.
fails_with() {
  local said
  if said=$("$here/includes.py" "$scratch") || [[ $said != *"$1"* ]]; then
    printf 'FAILED: includes.py was to say\n  %s\nbut said\n  %s\n' "$1" "$said" >&2
    failed=1
  fi
}

plant() { mkdir -p "$scratch/$(dirname "$1")" && printf '%s\n' "${@:2}" >"$scratch/$1"; }

plant lower/CMakeLists.txt 'add_library(cc_lower STATIC lower.cpp)' 'target_link_libraries(cc_lower PUBLIC Threads::Threads)'
plant lower/lower.hpp '#pragma once'
plant lower/lower.cpp '#include "lower/lower.hpp"'
plant upper/room/CMakeLists.txt 'add_library(cc_upper_room STATIC' '  room.cpp)' 'target_link_libraries(cc_upper_room' '  PRIVATE cc_lower)'
plant upper/room/room.hpp '#pragma once'
plant upper/room/room.cpp '#include "upper/room/room.hpp"' '' '#include "lower/lower.hpp"'
"$here/includes.py" "$scratch" || failed=1

plant lower/lower.cpp '#include "upper/room/room.hpp"'
fails_with 'lower/lower.cpp:1: upper/room/room.hpp, but lower/CMakeLists.txt does not name the library of upper/room/'
plant lower/CMakeLists.txt 'add_library(cc_lower STATIC lower.cpp)' 'target_link_libraries(cc_lower PUBLIC cc_upper_room)'
fails_with 'these need each other: lower -> upper/room -> lower'
plant lower/lower.cpp '#include "lower.hpp"'
fails_with 'lower/lower.cpp:1: there is no lower.hpp; includes start at the root'
fails_with 'lower/CMakeLists.txt: cc_upper_room, of which nothing is included'

# A program beside a library, which others may need.
plant lower/CMakeLists.txt 'add_library(cc_lower STATIC lower.cpp)' 'add_executable(tool main.cpp)' 'target_link_libraries(tool PRIVATE cc_lower)'
plant lower/lower.cpp '#include "lower/lower.hpp"'
plant lower/main.cpp '#include "upper/room/room.hpp"'
fails_with 'lower/main.cpp:1: upper/room/room.hpp, but lower/CMakeLists.txt does not name the library of upper/room/'
plant lower/CMakeLists.txt 'add_library(cc_lower STATIC lower.cpp)' 'add_executable(tool main.cpp)' 'target_link_libraries(tool PRIVATE cc_upper_room)'
"$here/includes.py" "$scratch" || failed=1

"$here/includes.py" >&2 || failed=1
exit $failed
