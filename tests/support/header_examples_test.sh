#!/usr/bin/env bash
# Every example in a header's comment is compiled; and header_examples.py notices one that is not.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

plant() { mkdir -p "$scratch/$(dirname "$1")" && printf '%s\n' "${@:2}" >"$scratch/$1"; }

# fails_with TEXT: the planted tree is refused, and so.
fails_with() {
  local said
  if said=$("$here/header_examples.py" "$scratch") || [[ $said != *"$1"* ]]; then
    printf 'FAILED: header_examples.py was to say\n  %s\nbut said\n  %s\n' "$1" "$said" >&2
    failed=1
  fi
}
passes() { "$here/header_examples.py" "$scratch" >&2 || failed=1; }

plant lower/table.hpp '// A table is no example:' '//' '//   name{a, b}     what it is; and more' '//   {}             nothing'
passes

plant lower/room/thing.hpp '// A thing.' '//' '//   Thing thing(4);   // four' '//   if (thing.works()) ...' '//' '//   thing.stop();' 'class Thing;'
fails_with 'lower/room/thing.hpp:3: its example is not in tests/unit/lower/examples.cpp, from here on: Thingthing(4)'
plant tests/unit/lower/examples.cpp 'void f() {' '  Thing  thing(' '      4);' '  if (thing.works()) return;' '  thing.stop();' '}'
passes

# A method got another name: the compiler wants it here, and this test there.
plant tests/unit/lower/examples.cpp 'void f() {' '  Thing thing(4);' '  if (thing.works()) return;' '  thing.end();' '}'
fails_with 'from here on: thing.stop();'
plant tests/unit/lower/examples.cpp 'void f() {' '  if (thing.works()) return;' '  thing.stop();' '  Thing thing(4);' '}'
fails_with 'from here on: Thingthing(4)'

"$here/header_examples.py" >&2 || failed=1
exit $failed
