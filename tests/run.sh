#!/usr/bin/env bash
# Builds everything and runs the tests.
#
#   tests/run.sh                    all: unit, sanitized, threads, fuzz (every target for a short while), integration
#                                   (real etcd and kube-apiserver), end to end (real kubelet, containers and PyTorch)
#   tests/run.sh unit|sanitized|threads|fuzz|integration|e2e
#   tests/run.sh [PART] -k PATTERN  only the tests whose name matches
#
# What is built once is kept in ${COMPILECACHE_CACHE:-~/.cache/compilecache}; the first run on a new machine takes
# more than an hour on 2 cores, later ones less. Needs Debian 12; root for installing packages and for the
# end-to-end tests.
set -Eeuo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cluster=$project/tests/cluster/cluster
build=${COMPILECACHE_BUILD:-$project/build}
part=all
pattern=
running=()      # clusters to take down at the end
summary=()
debug=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-g1)  # lines are enough to read a stack
failed=0
ran=0
beside=         # the process group of what runs in the background
missing=        # what keeps this machine from running containers

usage() { sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

step() { printf '\n==== [%4d s] %s\n' "$SECONDS" "$*"; }

take_down() {
  local name
  [ -z "$beside" ] || kill -- "-$beside" 2>/dev/null || true
  for name in "${running[@]}"; do "$cluster" down "$name" || true; done
  rm -rf "${volumes:-/nonexistent}"
}
trap take_down EXIT
trap 'exit 130' INT TERM

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      all | unit | sanitized | threads | fuzz | integration | e2e) part=$1 ;;
      -k) pattern=${2?-k needs a pattern}; shift ;;
      -h | --help) usage; exit 0 ;;
      *) usage >&2; exit 2 ;;
    esac
    shift
  done
}

wants() { [ "$part" = all ] || [ "$part" = "$1" ]; }

install_packages() {
  local absent=() package
  while read -r package; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || absent+=("$package")
  done < <(cat "$project/cmake/debian-packages.txt" "$project/tests/debian-packages.txt")
  [ ${#absent[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    echo "tests/run.sh: missing packages; as root: apt-get install ${absent[*]}" >&2
    exit 3
  fi
  step "installing ${absent[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${absent[@]}" >/dev/null
}

# Objects are found again by ccache at the same path; elsewhere only those that are compiled one by one, as a unity source
# names its files by their whole path.
# configure_and_build FOLDER [TARGET...] -- CMAKE_ARGUMENT...
configure_and_build() {
  local folder=$1 targets=()
  shift
  while [ "$1" != -- ]; do targets+=("$1"); shift; done
  shift
  mkdir -p "$folder"
  export CCACHE_BASEDIR=$project CCACHE_NOHASHDIR=1
  cmake -S "$project" -B "$folder" -G Ninja -DCMAKE_UNITY_BUILD=ON "$@" >"$folder/cmake.log" 2>&1 || { cat "$folder/cmake.log"; exit 1; }
  ninja -C "$folder" --quiet "${targets[@]}"
}

build_all() {
  step "building"
  configure_and_build "$build" -- -DCMAKE_BUILD_TYPE=Release
}

# GoogleTest's output in, a line for each skipped test with its reason out: a program whose tests are skipped passes.
skipped_tests() {
  awk '/: Skipped$/ { getline reason } /^\[  SKIPPED \] .* ms\)$/ { printf "  skipped: %s: %s\n", $4, reason }'
}

# run_tests NAME FOLDER LABEL: ctest on one label; its summary is printed again at the end.
run_tests() {
  local name=$1 folder=$2 label=$3 log=$2/$1.log count
  step "$name tests"
  if ! ctest --test-dir "$folder" -L "^$label\$" ${pattern:+-R "$pattern"} --output-on-failure --no-tests=ignore \
    -j "$([ "$label" = unit ] && nproc || echo 1)" 2>&1 | tee "$log"; then
    failed=1
  fi
  summary+=("$name: $(grep -E 'tests passed|No tests were found' "$log" | tail -n 1 || echo none matches)")
  mapfile -t -O "${#summary[@]}" summary < <(skipped_tests <"$folder/Testing/Temporary/LastTest.log")
  count=$(sed -n 's/.* out of \([0-9]*\)$/\1/p' "$log" | tail -n 1)
  ran=$((ran + ${count:-0}))
}

# The parts that read what strangers wrote, and those with threads, once more under sanitizers.
run_sanitized() {
  step "building with AddressSanitizer and UndefinedBehaviorSanitizer"
  configure_and_build "$build/sanitized" -- "${debug[@]}" -DCOMPILECACHE_SANITIZE=address,undefined \
    "-DCOMPILECACHE_FOLDERS=base;frameworks;archive;api;kube;http;webhook;agent"
  run_tests sanitized "$build/sanitized" unit
}

# Archives are read and written on several threads, and the Kubernetes client has some.
run_threads() {
  local programs=() program
  for program in archive_test archive_faults_test archive_power_loss_test archive_crowd_test archive_property_test \
    archive_sweep_property_test kube_test; do
    if [[ $program =~ $pattern ]]; then programs+=("$program"); fi
  done
  [ ${#programs[@]} -gt 0 ] || return 0
  local pattern="^($(IFS="|"; echo "${programs[*]}"))\$"
  step "building with ThreadSanitizer"
  configure_and_build "$build/thread" "${programs[@]}" -- "${debug[@]}" \
    -DCOMPILECACHE_SANITIZE=thread "-DCOMPILECACHE_FOLDERS=base;archive;api;kube"
  run_tests threads "$build/thread" unit
}

# Every fuzz target for ${COMPILECACHE_FUZZ_SECONDS:-20} s, from its corpus; tests/fuzz/README.md.
run_fuzz() {
  local folder=$build/fuzz programs=() program
  step "building the fuzz targets"
  configure_and_build "$folder" -- -DCMAKE_CXX_COMPILER=clang++-14 "-DCMAKE_CXX_FLAGS=-O1 -gline-tables-only" \
    -DCMAKE_BUILD_TYPE=None -DCOMPILECACHE_FUZZ=ON -DCOMPILECACHE_TESTS=OFF \
    -DCOMPILECACHE_SANITIZE=address,undefined,fuzzer-no-link \
    "-DCOMPILECACHE_FOLDERS=base;frameworks;archive;api;http;webhook"
  for program in "$folder"/tests/fuzz/fuzz_*; do
    if [ -x "$program" ] && [[ ${program##*/} =~ $pattern ]]; then programs+=("$program"); fi
  done
  [ ${#programs[@]} -gt 0 ] || return 0
  step "fuzzing ${#programs[@]} targets"
  rm -f "$folder"/fuzz_*.failed
  printf '%s\0' "${programs[@]}" | xargs -0 -n 1 -P "$(nproc)" "$project/tests/fuzz/fuzz" || failed=1
  ran=$((ran + ${#programs[@]}))
  summary+=("fuzz: $((${#programs[@]} - $(find "$folder" -maxdepth 1 -name '*.failed' | wc -l))) of ${#programs[@]} targets hold")
}

# The former two need nothing but processors, and the integration tests hardly any: all at once saves ten minutes.
run_threads_fuzz_and_integration() {
  local log=$build/beside.log
  step "threads and fuzz run beside the integration tests; what they print follows"
  setsid nice -n 19 bash -c 'status=0; for part in threads fuzz; do "$0" $part || status=1; done; exit $status' \
    "$project/tests/run.sh" >"$log" 2>&1 </dev/null &
  beside=$!
  run_integration
  wait "$beside" || failed=1
  beside=
  cat "$log"
  mapfile -t -O "${#summary[@]}" summary < <(awk '/^==== /{ on = /summary$/; next } on && NF' "$log")
}

run_integration() {
  local name=integration-$$
  step "starting etcd and kube-apiserver"
  "$cluster" prepare control-plane
  running+=("$name")
  "$cluster" up "$name" --control-plane
  use_cluster "$name"
  run_tests integration "$build" integration
}

use_cluster() {
  KUBECONFIG=$("$cluster" dir "$1")/kubeconfig
  KUBECTL=$build/kubectl-$1
  printf '#!/bin/sh\nexec "%s" kubectl "%s" "$@"\n' "$cluster" "$1" >"$KUBECTL"
  chmod +x "$KUBECTL"
  export KUBECONFIG KUBECTL
}

# Known at once, so that nobody waits for the build to hear it.
check_containers() {
  if ! missing=$("$cluster" check 2>&1); then
    printf '%s\nThe end-to-end tests will not run here; the others do.\n' "$missing"
  else
    missing=
  fi
}

run_e2e() {
  local name=e2e-$$ archive image
  if [ -n "$missing" ]; then
    summary+=("e2e: NOT RUN, as this machine cannot run containers: $(tail -n +2 <<<"$missing" | tr '\n' ' ')")
    mapfile -t -O "${#summary[@]}" summary < <(ctest --test-dir "$build" -N -L '^e2e$' |
      sed -n 's/^ *Test *#[0-9]*: /  not run: /p')
    [ "$part" = all ] || failed=1
    return
  fi
  step "starting a cluster"
  "$cluster" prepare all
  running+=("$name")
  image=$(sed -n 's/^ *image: *//p' "$project/config/install.yaml" | head -n 1)
  archive=$("$cluster" build-image "$image" "$(programs)")
  "$cluster" up "$name" --with-next-torch
  "$cluster" load-image "$name" "$archive"
  use_cluster "$name"
  volumes=$(mktemp -d)
  chmod 755 "$volumes"
  CC_TORCH_IMAGE=$("$cluster" torch-image)
  CC_NEXT_TORCH_IMAGE=$("$cluster" torch-image --next)
  # As users install it, but for the grace of condemned blobs and the breaker's times, which outlast any test.
  CC_INSTALL_MANIFEST=$volumes/install.yaml
  sed 's/^\( *grace:\) 15m /\1 10s /; s/^\( *patience:\) 30s /\1 10s /; s/^\( *pause:\) 1m /\1 15s /' "$project/config/install.yaml" >"$CC_INSTALL_MANIFEST"
  CC_VOLUMES=$volumes
  export CC_VOLUMES CC_TORCH_IMAGE CC_NEXT_TORCH_IMAGE CC_INSTALL_MANIFEST
  "$KUBECTL" apply -f "$CC_INSTALL_MANIFEST"
  "$KUBECTL" rollout status deployment/compilecache-operator -n compilecache-system --timeout=120s
  run_tests e2e "$build" e2e
}

# The image's programs in one folder, as build-image wants them.
programs() {
  mkdir -p "$build/programs"
  cp "$build/operator/compilecache-operator" "$build"/agent/compilecache-{agent,supervise} "$build/programs/"
  strip "$build/programs/"*
  echo "$build/programs"
}

parse_arguments "$@"
if wants e2e; then check_containers; fi
install_packages
build_all
if wants unit; then run_tests unit "$build" unit; fi
if wants sanitized; then run_sanitized; fi
if [ "$part" = all ] && [ -z "$pattern" ]; then
  run_threads_fuzz_and_integration
else
  if wants threads; then run_threads; fi
  if wants fuzz; then run_fuzz; fi
  if wants integration; then run_integration; fi
fi
if wants e2e; then run_e2e; fi

step "summary"
printf '%s\n' "${summary[@]}"
if [ "$ran" -eq 0 ]; then
  echo "no test was run${pattern:+; none matches '$pattern'}"
  exit 1
fi
exit "$failed"
