#!/usr/bin/env bash
# What steps.sh promises: a failure is shown with its log, and nothing is left, however the shell ended.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch
mark=$RANDOM$RANDOM   # an argument by which the processes of this test are found

fail() { echo "FAILED: $*" >&2 && exit 1; }

# eventually WHAT COMMAND...
eventually() {
  local what=$1
  shift
  for _ in $(seq 600); do
    ! "$@" || return 0
    sleep 0.1
  done
  fail "$what"
}
processes() { grep -lsz -- "$mark" /proc/[0-9]*/cmdline; }
none_left() { ! processes >/dev/null && ! ls -d "$scratch"/compilecache-* >/dev/null 2>&1; }

cat >"$scratch/work" <<'WORK'
set -Eeuo pipefail
source "$1/steps.sh"
scratch=$2 mark=$3
name=mine
fails() { echo "a line of the log, $name"; false; echo "not reached"; }
lasts() { tail -f /dev/null --pid=$$ & echo "$mark" >"$scratch/lasting"; exec tail -f "$scratch/lasting" "$scratch/$mark"; }
steps_begin try "$scratch/cache"
trap steps_clean_up EXIT
trap 'exit 130' INT TERM HUP
touch "$scratch/$mark"
steps_plan left-out 1000 "what is left out"
steps_plan fails 60 "what fails"
steps_plan lasts 60 "what lasts"
steps_plan ends 60 "what ends the shell"
steps_undo cp "$scratch/first-undone" "$scratch/undone"
steps_undo touch "$scratch/first-undone"
try_step fails fails
echo "failed: $steps_failed, exit $steps_code"
[ "${4-}" != lasts ] || step lasts lasts
step ends fails
echo "the shell went on"
WORK
work=(bash "$scratch/work" "$here" "$scratch" "$mark")

# A failure: with its output, nothing after it; try_step goes on, step does not.
code=0
"${work[@]}" >"$scratch/out" 2>&1 || code=$?
[ $code -eq 1 ] || fail "the shell ended with $code"
[ "$(grep -c '| a line of the log, mine$' "$scratch/out")" = 2 ] || fail "the log's end is not shown: $(cat "$scratch/out")"
! grep -E 'not reached|went on' "$scratch/out" || fail "it went on after an error"
grep -q '^failed: 1, exit 1$' "$scratch/out" || fail "try_step tells nothing: $(cat "$scratch/out")"
grep -q 'what fails (about 60 s, all that is left 3 min)' "$scratch/out" || fail "no forecast: $(cat "$scratch/out")"
[ -e "$scratch/undone" ] || fail "nothing was undone, or not in order"
none_left || fail "left: $(ls "$scratch")"

# Ended by a signal in the middle of a step: the same is undone, and no process is left.
for signal in TERM HUP KILL; do
  rm -f "$scratch/undone" "$scratch/first-undone" "$scratch/lasting"
  "${work[@]}" lasts >"$scratch/out" 2>&1 &
  eventually "the step began" test -s "$scratch/lasting"
  kill -$signal $!
  wait $! 2>/dev/null || true
  eventually "undone after $signal" test -e "$scratch/undone"
  eventually "all is gone after $signal; there is: $(ls "$scratch")" none_left
done
echo "ok"
