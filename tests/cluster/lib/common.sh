# What every part of the cluster command uses: progress lines, the cache folder and its items, the run
# folder of a cluster, and starting and stopping programs. Sourced, not run.
# shellcheck shell=bash

# shellcheck source=../versions
source "$CLUSTER_HOME/versions"

CACHE=${COMPILECACHE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/compilecache}
RUNS=$CACHE/clusters

log() { printf '[%4d s] %s\n' "$SECONDS" "$*" >&2; }

# Ends with 64, which the trap in the main script takes as "said already".
die() {
  printf 'cluster: %s\n' "$*" >&2
  exit 64
}

# Set: what is missing is not made, but ends this program.
ONLY_LOOK=

is_root() { [ "$(id -u)" -eq 0 ]; }

# hash_of TEXT FILE... -> 12 hex digits that change when any of them does.
hash_of() {
  local text=$1
  shift
  { printf '%s\n' "$text" && { [ $# -eq 0 ] || cat "$@"; }; } | sha256sum | cut -c1-12
}

# The folder of a cache item, whether it exists or not: item_path NAME HASH
item_path() { printf '%s/items/%s-%s\n' "$CACHE" "$1" "$2"; }

# make_item NAME HASH BUILDER [ARGS...]: unless the item exists, runs BUILDER with an empty folder as its
# first argument and moves the folder into place when it is whole. A lock for each name lets two runs
# side by side build it once. Prints the item's folder.
make_item() {
  local name=$1 hash=$2 path lock building
  shift 2
  path=$(item_path "$name" "$hash")
  if [ ! -d "$path" ]; then
    [ -z "$ONLY_LOOK" ] || exit 64
    mkdir -p "$CACHE/items" "$CACHE/locks"
    exec {lock}>"$CACHE/locks/$name"
    flock -n "$lock" || { log "waiting for another run that makes $name" && flock "$lock"; }
    if [ ! -d "$path" ]; then
      building=$CACHE/items/.building-$name
      clear_unfinished "$building"
      mkdir "$building"
      "$1" "$building" "${@:2}"   # not in a condition: that would switch set -e off inside it
      drop_old_items "$name"
      mv "$building" "$path"
    fi
    exec {lock}>&-
  fi
  printf '%s\n' "$path"
}

# Leftovers of a killed run: maybe a containerd, maybe debootstrap's mounts.
clear_unfinished() {
  [ -d "$1" ] || return 0
  stop "$1/run" containerd 0
  unmount_below "$1"
  rm -rf --one-file-system "$1"
}

# Items that an older recipe left. Kept while any cluster is up: it may be using them.
drop_old_items() {
  local name=$1 old
  [ -z "$(ls "$RUNS" 2>/dev/null)" ] || return 0
  for old in "$CACHE/items/$name-"????????????; do
    [ ! -d "$old" ] || rm -rf "$old"
  done
}

# A cluster's name goes into device, namespace and control group names.
check_name() {
  [[ ${1-} =~ ^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$ ]] ||
    die "'${1-}' is not a cluster name: use 1 to 40 lower-case letters, digits and dashes"
}

run_dir() { printf '%s/%s\n' "$RUNS" "$1"; }

# existing_run NAME: the run folder, or an error that says which clusters there are.
existing_run() {
  local run
  check_name "${1-}"
  run=$(run_dir "$1")
  [ -d "$run" ] || die "there is no cluster '$1'; cluster list shows: $(ls "$RUNS" 2>/dev/null | tr '\n' ' ')"
  printf '%s\n' "$run"
}

# start RUN NAME PROGRAM ARGS...: starts a program in the background, detached from this shell. Its
# output goes to RUN/logs/NAME.log, its pid and start time to RUN/pids/NAME, and the command to
# RUN/commands/NAME. START_PREFIX (an array) goes before the program, e.g. nsenter; START_CGROUPS are the
# cgroup.procs files that it is entered in.
start() {
  local run=$1 name=$2
  shift 2
  mkdir -p "$run/logs" "$run/pids" "$run/commands"
  rm -f "$run/pids/$name"
  printf '%q ' "${START_PREFIX[@]}" "$@" >"$run/commands/$name"
  setsid --fork bash -c '
    echo "$$ $(cut -d" " -f22 /proc/$$/stat)" >"$1"
    for procs in $2; do echo $$ >"$procs"; done
    for fd in /proc/$$/fd/*; do   # a lock of the caller must not live as long as the program
      fd=${fd##*/}
      [ "$fd" -le 2 ] || eval "exec $fd>&-"
    done
    exec "${@:3}"' start "$run/pids/$name" "$START_CGROUPS" "${START_PREFIX[@]}" "$@" \
    >>"$run/logs/$name.log" 2>&1 </dev/null
  until [ -s "$run/pids/$name" ]; do sleep 0.01; done
}
START_PREFIX=()
START_CGROUPS=

# alive RUN NAME: is it still the process that was started?
alive() {
  local pid began
  read -r pid began 2>/dev/null <"$1/pids/$2" || return 1
  [ "$(awk '$3 != "Z" { print $22 }' "/proc/$pid/stat" 2>/dev/null)" = "$began" ]
}

# stop RUN NAME [SECONDS]: TERM, then KILL when it has not ended after SECONDS (default 5; 0: KILL at once).
stop() {
  local run=$1 name=$2 tries=$((${3:-5} * 20)) pid
  if alive "$run" "$name"; then
    read -r pid _ <"$run/pids/$name"
    [ "$tries" -eq 0 ] || kill "$pid" 2>/dev/null || true
    while [ $((tries--)) -gt 0 ] && alive "$run" "$name"; do sleep 0.05; done
    kill -KILL "$pid" 2>/dev/null || true
    while alive "$run" "$name"; do sleep 0.01; done
  fi
  rm -f "$run/pids/$name"
}

# wait_for SECONDS WHAT RUN PROGRAM COMMAND...: until COMMAND succeeds; ends with the program's last log
# lines when it died or the time is over.
wait_for() {
  local limit=$1 what=$2 run=$3 program=$4 end
  shift 4
  end=$(($(date +%s) + limit))
  until "$@" >/dev/null 2>&1; do
    if ! [ -e "$run/pids/$program" ] || ! alive "$run" "$program" || [ "$(date +%s)" -gt "$end" ]; then
      tail -n 15 "$run/logs/$program.log" >&2 || true
      die "$what did not come up within $limit s; logs are in $run/logs"
    fi
    sleep 0.1
  done
}
