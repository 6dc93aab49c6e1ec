#!/usr/bin/env bash
# tests/support/tidy in a tree of its own with two sources. A finding fails and is printed. A clean source is checked again only after a
# change, and the last change comes first.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
failed=0
git=(git -C "$tree" -c user.name=test -c user.email=test@example.com -c commit.gpgsign=false)

commit() { "${git[@]}" add . && "${git[@]}" commit -qm "$1"; }

# run ARGUMENT...: what it prints in $said, its exit status in $code.
run() {
  code=0
  said=$("$here/tidy" --tree "$tree" --build "$work/build" --remember "$work/clean" "$@" 2>&1) || code=$?
}

# expect WHAT CODE PATTERN...: of the last run.
expect() {
  local what=$1 wanted=$2 pattern
  shift 2
  [ "$code" = "$wanted" ] || { printf '%s: exit status %s, not %s:\n%s\n' "$what" "$code" "$wanted" "$said" >&2; failed=1; }
  for pattern in "$@"; do
    grep -Eq -- "$pattern" <<<"$said" || { printf "%s: nothing like '%s' in:\n%s\n" "$what" "$pattern" "$said" >&2; failed=1; }
  done
}

mkdir -p "$tree/part" "$work/build"
cat >"$tree/.clang-tidy" <<'END'
Checks: '-*,modernize-use-nullptr'
WarningsAsErrors: '*'
HeaderFilterRegex: '.*'
END
echo 'int* none();' >"$tree/part/none.hpp"
printf '#include "part/none.hpp"\nint* none() { return nullptr; }\n' >"$tree/part/old.cpp"
echo 'int one() { return 1; }' >"$tree/part/new.cpp"
cat >"$work/build/compile_commands.json" <<END
[{"directory": "$work/build", "file": "$tree/part/old.cpp", "command": "clang++ -I$tree -c $tree/part/old.cpp"},
 {"directory": "$work/build", "file": "$tree/part/new.cpp", "command": "clang++ -I$tree -c $tree/part/new.cpp"},
 {"directory": "$work/build", "file": "made.cpp", "command": "clang++ -c made.cpp"}]
END
"${git[@]}" init -q
commit one
echo '// again' >>"$tree/part/new.cpp"
commit two

run --at-most 1
expect "with a bound the source that was changed last comes first" 0 'not looked at this time: part/old.cpp' \
  '^0 of 2 sources have findings; 1 were looked at, 0 are known to be clean, 1 are left'
run --seconds 0
expect "without time nothing is begun" 0 '0 were looked at, 1 are known to be clean, 1 are left'
run
expect "the rest follows" 0 '1 were looked at, 1 are known to be clean, 0 are left'
run
expect "what is clean is remembered" 0 '0 were looked at, 2 are known to be clean'

sed -i 's/nullptr/0/' "$tree/part/old.cpp"
run
expect "a finding fails and is printed" 1 'part/old.cpp:2:.*modernize-use-nullptr' '^1 of 2 .*; 1 were looked at'
run
expect "a finding is not remembered as clean" 1 'modernize-use-nullptr'
sed -i 's/0/nullptr/' "$tree/part/old.cpp"
run
expect "the state that was clean before is known" 0 '0 were looked at, 2 are known'

echo 'inline int* other() { return 0; }' >>"$tree/part/none.hpp"
run
expect "a header's change is looked at with the sources that include it, and its finding is told" 1 \
  'part/none.hpp:2:.*modernize-use-nullptr' '; 1 were looked at, 1 are known'
"${git[@]}" checkout -q part/none.hpp
sed -i 's/-\*/-*,bugprone-assert-side-effect/' "$tree/.clang-tidy"
run
expect "other checks look at all again" 0 '2 were looked at'
sed -i 's/-c/-O1 -c/' "$work/build/compile_commands.json"
run
expect "so do other settings of the compiler" 0 '2 were looked at'

# Where a source lies makes no difference, and a clone without history will do.
"${git[@]}" commit -qam three
git clone -q --depth 1 "file://$tree" "$work/clone"
sed -i "s|$tree|$work/clone|g" "$work/build/compile_commands.json"
tree=$work/clone
run
expect "in another place" 0 '0 were looked at, 2 are known'
echo 'int broken(' >"$tree/part/new.cpp"
run --seconds 60 "$tree/part/new.cpp"
expect "what does not compile is a finding" 1 'part/new.cpp:1:.*error' '^1 of 1 '

[ $failed -eq 0 ] || exit 1
echo ok
