# shellcheck shell=bash disable=SC2034
# Long work, reported step by step: what is done now, how long it took, how long all will take. Sourced by tests/run.sh and
# examples/demo.sh.
#
#   steps_begin demo "$cache"                     # before all else; $steps_log is where everything is written
#   trap steps_clean_up EXIT
#   steps_plan kubernetes 480 "Kubernetes from its Go modules"
#   steps_plan image 240 "the operator's image from the Dockerfile"
#   steps_undo "$cluster" down demo               # when this shell ends, however it ends, kill -9 included
#   step kubernetes "$cluster" prepare node       # ends this shell when it fails, with the log's last lines
#   try_step image build_the_image                # goes on; steps_failed tells
#
# A step's command runs in a subshell and a process group of its own, with its output in the log: it leaves files, not
# variables. How long it took is kept for the next run's forecast; the seconds of a plan are for the first. None of these
# functions belongs into a condition, where bash would let a step's function go on after an error.

steps_begin() {
  steps_cache=$2
  steps_times=$steps_cache/times/$1
  steps_log=$steps_cache/logs/$1-$(date +%Y%m%d-%H%M%S)-$$.log
  steps_state=$(mktemp -d "${TMPDIR:-/tmp}/compilecache-$1.XXXXXX")
  steps_order=() steps_failed=0
  declare -gA steps_seconds=() steps_what=()
  mkdir -p "$steps_times" "${steps_log%/*}"
  find "${steps_log%/*}" -name "$1-*.log" -mtime +14 -delete
  : >"$steps_log"
  # Cleans up when this shell cannot: it waits until the shell has ended.
  setsid bash -c 'trap "" INT TERM HUP; tail --pid="$1" -f /dev/null; source "$2"; steps_state=$3; steps_clean_up' \
    guard $$ "${BASH_SOURCE[0]}" "$steps_state" >/dev/null 2>&1 </dev/null &
  disown $!
}

# steps_plan NAME SECONDS WHAT
steps_plan() {
  steps_order+=("$1")
  steps_what[$1]=$3
  steps_seconds[$1]=$(cat "$steps_times/$1" 2>/dev/null || echo "$2")
}

steps_skip() {
  local name kept=()
  for name in "${steps_order[@]}"; do [ "$name" = "$1" ] || kept+=("$name"); done
  steps_order=("${kept[@]}")
}

# Seconds that the planned steps will take.
steps_left() {
  local name sum=0
  for name in "${steps_order[@]}"; do sum=$((sum + steps_seconds[$name])); done
  echo "$sum"
}

# in_words SECONDS
in_words() {
  if [ "$1" -lt 90 ]; then echo "$1 s"; else echo "$((($1 + 30) / 60)) min"; fi
}

# say WORDS...: a line with the time since the beginning.
say() { printf '[%3d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

step() {
  try_step "$@"
  [ "$steps_code" -eq 0 ] || exit 1
}

# try_step NAME COMMAND...: its exit status is in steps_code.
try_step() {
  # Names of its own, as the command sees these variables too.
  local steps_step=$1 steps_began=$SECONDS steps_from
  shift
  # Steps come in the order of their plan: what stands before this one was left out.
  while [ ${#steps_order[@]} -gt 0 ] && [ "${steps_order[0]}" != "$steps_step" ]; do steps_skip "${steps_order[0]}"; done
  say "${steps_what[$steps_step]} (about $(in_words "${steps_seconds[$steps_step]}"), all that is left $(in_words "$(steps_left)"))"
  steps_from=$(($(wc -l <"$steps_log") + 1))
  printf '==== %s %s\n' "$(date +%T)" "${steps_what[$steps_step]}" >>"$steps_log"
  set -m
  "$@" >>"$steps_log" 2>&1 </dev/null &
  set +m
  echo $! >"$steps_state/group"
  steps_wait $! "$steps_step" "$steps_began"
  steps_end_group "$(cat "$steps_state/group")"
  rm "$steps_state/group"
  steps_skip "$steps_step"
  if [ "$steps_code" -ne 0 ]; then
    steps_failed=1
    say "FAILED after $(in_words $((SECONDS - steps_began))): ${steps_what[$steps_step]}; the end of $steps_log:"
    tail -n "+$steps_from" "$steps_log" | grep -vE ' +Passed +[0-9.]+ sec$|^ +Start +[0-9]+:' | tail -n 120 | sed 's/^/        | /'
    return
  fi
  [ $((SECONDS - steps_began)) -lt 3 ] || say "    done in $(in_words $((SECONDS - steps_began)))"
  echo $((SECONDS - steps_began)) >"$steps_times/$steps_step"
}

# steps_wait PID NAME BEGAN: sets steps_code; on a terminal with a line that moves.
steps_wait() {
  local line
  while [ -t 1 ] && kill -0 "$1" 2>/dev/null; do
    line=$(tail -n 1 "$steps_log" | tr -d '\000-\037' | cut -c 1-$((${COLUMNS:-80} - 34)))
    printf '\r\033[K        %s of about %s  %s' "$(in_words $((SECONDS - $3)))" "$(in_words "${steps_seconds[$2]}")" "$line"
    sleep 0.5
  done
  [ ! -t 1 ] || printf '\r\033[K'
  steps_code=0
  wait "$1" || steps_code=$?
}

# steps_undo COMMAND...: a program and its arguments, no function; what was said last is done first.
steps_undo() { { printf '%q ' "$@" && echo; } >>"$steps_state/undo"; }

# Ends what still runs and does what was said to steps_undo, once. For the trap of EXIT.
steps_clean_up() {
  local undo
  [ -d "$steps_state" ] || return 0
  [ ! -e "$steps_state/group" ] || steps_end_group "$(cat "$steps_state/group")"
  [ ! -e "$steps_state/undo" ] || while read -r undo; do
    eval "$undo" </dev/null >>"${steps_log:-/dev/null}" 2>&1 || echo "could not be done: $undo" >&2
  done < <(tac "$steps_state/undo")
  rm -rf "$steps_state"
}

# steps_end_group PGID: TERM, and KILL for what is there 10 s later.
steps_end_group() {
  local tries
  kill -TERM -- "-$1" 2>/dev/null || return 0
  for tries in $(seq 100); do
    steps_group_lives "$1" || return 0
    sleep 0.1
  done
  kill -KILL -- "-$1" 2>/dev/null || true
}

# Zombies, which nobody may wait for any more, do not count.
steps_group_lives() {
  cat /proc/[0-9]*/stat 2>/dev/null |
    awk -v group="$1" '{ sub(/.*\) /, "") } $3 == group && $1 != "Z" { lives = 1 } END { exit !lives }'
}
