#!/usr/bin/env bash
# Builds everything and runs the tests.
#
#   tests/run.sh                    all of these, in this order:
#   tests/run.sh unit               no root needed, once the packages are there
#   tests/run.sh fresh              README's and CONTRIBUTING's lines in a new Debian with nothing but git: tests/fresh/README.md
#   tests/run.sh sanitized|threads|fuzz
#   tests/run.sh integration        real etcd and kube-apiserver
#   tests/run.sh e2e                real kubelet, containers and PyTorch, with the image that the Dockerfile makes
#   tests/run.sh [PART] -k PATTERN  only the tests whose name matches
#   tests/run.sh fresh --no-compiler-cache
#   tests/run.sh sources            every source file by itself, since the other builds join them, and with clang, which looks for
#                                   state that threads share and no lock guards (base/thread_annotations.hpp)
#   tests/run.sh tidy               clang-tidy on the sources that changed last: tests/support/tidy
#   tests/run.sh prose              docs, comments and messages in plain English: Vale with a style of our own (tests/prose)
#   tests/run.sh mutate             a few small wrong changes of the code, each of which a test has to notice (tests/mutate)
#   tests/run.sh simulate [SEED [DAYS]]  the whole installation under one seed (tests/simulation); without a seed: those that CI runs;
#                             --hours N in place of it: new seeds, what they found is kept in build/simulated
#   tests/run.sh engines [NAME...]  real engines from PyPI, cold and warm (tests/engines); in all of it vllm and jax
#   tests/run.sh controllers [NAME...]  real controllers (tests/controllers): what they make of annotated objects
#   tests/run.sh engines --in-pods [RELEASE...]
#                                   vLLM's server in pods of the real cluster, killed and replaced; not in all of it
#   tests/run.sh release            a release of the commit, made twice, compared, verified (tests/release); not in all of it
#   tests/run.sh arm64              what runs in pods, cross-compiled, its unit tests under qemu (tests/arm64); not in all of it
#   tests/run.sh first-hour         docs/start/first-hour.md on a real cluster, as it is written (tests/first_hour); not in all of it
#   tests/run.sh faults             plain, cold and warm pods while a part is broken, on a real cluster (tests/faults); not in all of it
#   tests/run.sh matrix [RELEASE...]
#                                   integration and some of e2e on other releases of Kubernetes, whose API server and kubelet they are (1.30 1.33
#                                   1.35 1.37); all of it has the integration tests of the oldest and the newest
#   tests/run.sh --anew             also what an interrupted run of the same tree had finished
#
# All of it is what CI runs: there a test that is skipped fails (CC_NO_SKIPS=1, which is the default; CC_NO_SKIPS= lets it pass).
# Parts that only compute run beside the rest. After 40 minutes (COMPILECACHE_MINUTES) no further one begins; it is listed as left out.
# Each step says how long it will take; all output is in a log below ${COMPILECACHE_CACHE:-~/.cache/compilecache}, where also
# is kept what is built once. Needs Debian 12; root for installing packages, and for fresh and e2e.
set -Eeuo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$project/tests/support/steps.sh"
source "$project/tests/support/install_manifest.sh"
source "$project/tests/support/test_log.sh"
source "$project/tests/support/registry_volume.sh"
cluster=$project/tests/cluster/cluster
cache=${COMPILECACHE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/compilecache}
build=${COMPILECACHE_BUILD:-$project/build}
results=${COMPILECACHE_RESULTS:-$build/results}   # a file for each part that has run; set for parts that run beside others
part=all
pattern=
engines=()
controllers=()
releases=()
simulated=()   # seed and days of `simulate`
in_pods=
anew=
compiler_cache=--compiler-cache   # what fresh uses

usage() { sed -n '2,34s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      engines)
        part=$1
        if [ "${2-}" = --in-pods ]; then in_pods=yes; shift; fi
        while [ $# -gt 1 ] && [[ $2 != -* ]]; do engines+=("$2"); shift; done ;;
      controllers)
        part=$1
        while [ $# -gt 1 ] && [[ $2 != -* ]]; do controllers+=("$2"); shift; done ;;
      matrix)
        part=$1
        while [ $# -gt 1 ] && [[ $2 != -* ]]; do releases+=("$2"); shift; done ;;
      all | release | arm64 | first-hour | faults | unit | fresh | sanitized | threads | fuzz | sources | tidy | prose | mutate | integration | e2e) part=$1 ;;
      simulate)
        part=$1
        if [ "${2-}" = --hours ]; then simulated=("$2" "${3?--hours needs a number}"); shift 2; fi
        while [ $# -gt 1 ] && [[ $2 != -* ]]; do simulated+=("$2"); shift; done ;;
      -k) pattern=${2?-k needs a pattern}; shift ;;
      --anew) anew=yes ;;
      --no-compiler-cache) compiler_cache= ;;
      -h | --help) usage; exit 0 ;;
      *) usage >&2; exit 2 ;;
    esac
    shift
  done
}

wants() { [ "$part" = all ] || [ "$part" = "$1" ]; }
# As CI runs it: some parts go beside others then.
whole() { [ "$part" = all ] && [ -z "$pattern" ]; }
needs_programs() { wants unit || wants integration || wants e2e || [ "$part" = matrix ]; }

# ---- what is needed

missing_packages() {
  local package
  cat "$project/cmake/debian-packages.txt" "$project/tests/"*debian-packages.txt | while read -r package; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

install_packages() {
  apt-get update -qq
  missing_packages | DEBIAN_FRONTEND=noninteractive xargs apt-get install -y -qq --no-install-recommends
}

# Known at once, so that nobody waits for the build to hear it.
check_machine() {
  local missing
  if [ "$(id -u)" -ne 0 ] && [ -n "$(missing_packages)" ]; then
    echo "tests/run.sh: missing packages; as root: apt-get install $(missing_packages | tr '\n' ' ')" >&2
    exit 3
  fi
  if { wants e2e || wants fresh || [ "$part" = release ] || [ "$part" = arm64 ] || [ "$part" = first-hour ] || [ "$part" = faults ] || [ "$part" = controllers ] ||
    [ "$part" = matrix ] || [ -n "$in_pods" ]; } && ! missing=$("$cluster" check 2>&1); then
    printf '%s\nWhat needs no containers runs here: tests/run.sh unit, sanitized, threads, fuzz or integration.\n' "$missing" >&2
    exit 3
  fi
  check_room
}

# For all tests: their build trees, and a running cluster with its images.
gigabytes_of_all=20

# A disk that is full in the middle of it makes tests fail that have nothing to do with it.
check_room() {
  local free has
  [ "$part" = all ] || return 0
  mkdir -p "$build"
  free=$(df --output=avail -k "$build" | tail -n 1)
  has=$(du -sk "$build" | cut -f 1)
  if [ $(((free + has) / 1000000)) -lt $gigabytes_of_all ]; then
    echo "tests/run.sh: all tests need $gigabytes_of_all GB for $build and what is kept in $cache; it has $((has / 1000000)), and" \
      "$((free / 1000000)) are free: make room, or run a part (tests/run.sh -h)" >&2
    exit 3
  fi
}

# ---- building

# Objects are found again by ccache in any copy of this tree, since nothing that is compiled names its place.
# configure_and_build FOLDER PRESET [TARGET...]: a preset of CMakePresets.json.
configure_and_build() {
  local folder=$1 preset=$2
  shift 2
  export CCACHE_BASEDIR=$project CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content CCACHE_MAXSIZE=20G
  configure "$folder" "$preset"
  ninja -C "$folder" "$@"
}

# configure FOLDER PRESET: again if the presets have changed.
configure() {
  local folder=$1 arguments
  arguments="$2 $(sha256sum <"$project/CMakePresets.json")"
  if ! [ -e "$folder/build.ninja" ] || [ "$(cat "$folder/arguments" 2>/dev/null)" != "$arguments" ]; then
    mkdir -p "$folder"
    cmake -S "$project" -B "$folder" --preset "$2"
    echo "$arguments" >"$folder/arguments"
  fi
}

build_all() { configure_and_build "$build" release; }

# ---- the parts; what each has to say at the end is in its file in $results

# How many test programs run at a time. An integration test has a control plane to itself; the others wait as much as they compute.
at_once() { case $1 in integration) echo "$integration_clusters" ;; e2e) nproc ;; *) echo $(($(nproc) * 3 / 2)) ;; esac }

# run_tests NAME FOLDER LABEL [OPTION...]: runs the tests with a label, with these options of ctest, and records the result.
# Several may run at once on one build folder: each has a test folder, and so a log, of its own.
run_tests() {
  local name=$1 folder=$2 label=$3 log=$2/$1.log tests=$2/ctest-$1 code=0
  shift 3
  mkdir -p "$tests"
  echo "subdirs(\"$folder\")" >"$tests/CTestTestfile.cmake"
  ctest --test-dir "$tests" -L "^$label\$" ${pattern:+-R "$pattern"} --output-on-failure \
    --no-tests="$([ -n "$pattern" ] && echo ignore || echo error)" -j "$(at_once "$label")" "$@" 2>&1 | tee "$log" || code=$?
  {
    echo "$name: $(grep -E 'tests passed|No tests were found' "$log" | tail -n 1 || echo none matches)"
    not_run <"$tests/Testing/Temporary/LastTest.log"
    sed -n 's/^.* \([0-9]*\) tests failed out of \([0-9]*\)$/count \1 \2/p' "$log"
  } >"$results/$name"
  return $code
}

run_unit() { run_tests unit "$build" unit; }

run_fresh() {
  local code=0
  "$project/tests/fresh/run" ${compiler_cache:+"$compiler_cache"} || code=$?
  echo "fresh: in a new Debian the documented lines $([ $code -eq 0 ] && echo hold || echo "do NOT hold")" >"$results/fresh"
  echo "count $((code != 0)) 1" >>"$results/fresh"
  return $code
}

run_arm64() {
  local log=$build/arm64.log code=0
  "$project/tests/arm64/run" 2>&1 | tee "$log" || code=1
  {
    echo "arm64: $(grep -E 'tests passed' "$log" | tail -n 1 || echo it does not build)"
    sed -n 's/^.* \([0-9]*\) tests failed out of \([0-9]*\)$/count \1 \2/p' "$log" | grep . || echo "count 1 1"
  } >"$results/arm64"
  return $code
}

run_release() {
  local log=$build/release.log code=0
  "$project/tests/release/run" 2>&1 | tee "$log" || code=1
  {
    echo "release: of this commit"
    grep '^FAILED: ' "$log" | sed 's/^/  /' || true
    sed -n 's/^\([0-9]*\) of \([0-9]*\) checks failed$/count \1 \2/p' "$log" | grep . || echo "count 1 1"
  } >"$results/release"
  return $code
}

run_sanitized() {
  configure_and_build "$build/sanitized" address
  run_tests sanitized "$build/sanitized" unit
}

# Archives are read and written on several threads; clients, servers, agents and the operator have some. The tests of sweeps and of power
# failures are not here: a store sweeps and recovers on one thread.
run_threads() {
  local programs=() program
  for program in archive_test archive_property_test store_test store_property_test store_faults_test \
    store_crowd_test kube_test http_test webhook_pool_test agent_test operator_saves_test operator_breaker_test \
    operator_control_test operator_reasons_test operator_webhook_test; do
    if [[ $program =~ $pattern ]]; then programs+=("$program"); fi
  done
  [ ${#programs[@]} -gt 0 ] || return 0
  local pattern="^($(IFS="|"; echo "${programs[*]}"))\$"
  configure_and_build "$build/thread" thread "${programs[@]}"
  # Other trees have the same threads.
  TSAN_OPTIONS=suppressions=$project/tests/unit/tsan-suppressions.txt RC_PARAMS=${RC_PARAMS:-max_success=20} run_tests threads "$build/thread" unit
}

# Every fuzz target for ${COMPILECACHE_FUZZ_SECONDS:-20} s, from its corpus; tests/fuzz/README.md.
run_fuzz() {
  local folder=$build/fuzz programs=() program code=0 broken
  configure_and_build "$folder" fuzz
  for program in "$folder"/tests/fuzz/fuzz_*; do
    if [ -x "$program" ] && [[ ${program##*/} =~ $pattern ]]; then programs+=("$program"); fi
  done
  [ ${#programs[@]} -gt 0 ] || return 0
  rm -f "$folder"/fuzz_*.failed
  printf '%s\0' "${programs[@]}" | xargs -0 -n 1 -P "$(nproc)" "$project/tests/fuzz/fuzz" || code=1
  broken=$(find "$folder" -maxdepth 1 -name '*.failed' | wc -l)
  echo "fuzz: $((${#programs[@]} - broken)) of ${#programs[@]} targets hold" >"$results/fuzz"
  echo "count $broken ${#programs[@]}" >>"$results/fuzz"
  return $code
}

# Finds a file that needs declarations of others which a unity build happens to put before it. With clang, so that it also finds
# accesses without their lock (an error: cmake/CompilerSettings.cmake).
run_sources() {
  local code=0
  configure_and_build "$build/sources" sources compilecache-operator compilecache-agent kubectl-compilecache || code=1
  if [ $code -eq 0 ]; then
    echo "sources: each file of the programs compiles by itself and without a warning; what a lock guards is touched with it held"
  else
    echo "sources: NOT every file of the programs compiles by itself and without a warning, or what a lock guards is touched without it"
  fi >"$results/sources"
  echo "count $code 1" >>"$results/sources"
  return $code
}

# .clang-tidy's checks, for what has changed since it was clean, newest first, until ${COMPILECACHE_TIDY_SECONDS:-300} are over:
# tests/support/tidy.
run_tidy() {
  local code=0
  configure "$build/sources" sources
  "$project/tests/support/tidy" --build "$build/sources" --remember "$cache/tidy" \
    --seconds "${COMPILECACHE_TIDY_SECONDS:-300}" 2>&1 | tee "$build/tidy.log" || code=1
  echo "tidy: $(tail -n 1 "$build/tidy.log")" >"$results/tidy"
  echo "count $code 1" >>"$results/tidy"
  return $code
}

run_prose() {
  local code=0 vale
  vale=$("$cluster" vale)
  { "$project/tests/prose/check_test.py" "$vale" && "$project/tests/prose/check" --vale "$vale"; } 2>&1 | tee "$build/prose.log" || code=1
  grep '^prose: ' "$build/prose.log" >"$results/prose" || echo "prose: the check itself fails" >"$results/prose"
  echo "count $code 1" >>"$results/prose"
  return $code
}

# ${COMPILECACHE_DRAW:---count 20 --one-folder} of the changes that nobody chose: others for each commit. Those that were written down
# are tried by hand: tests/mutate/run.
run_mutate() {
  local code=0 drawn seed=$((16#$(git -C "$project" rev-parse --short=6 HEAD | cut -c1-6)))
  read -ra drawn <<<"${COMPILECACHE_DRAW:---count 20 --one-folder --seed $seed}"
  "$project/tests/mutate/draw" "${drawn[@]}" 2>&1 | tee "$build/draw.log" || code=1
  {
    echo "mutate: $(grep -E '^[0-9]+ changes that nobody chose: ' "$build/draw.log" || tail -n 1 "$build/draw.log") (seed $seed)"
    echo "count $code 1"
  } >"$results/mutate"
  return $code
}

run_simulate() {
  local log=$build/simulate.log code=0
  configure_and_build "$build" release simulate
  if [ "${simulated[0]-}" = --hours ]; then
    "$project/tests/simulation/seeds" "$build/tests/simulation/simulate" "${simulated[@]}" "$build/simulated" 2>&1 | tee "$log" || code=1
  elif [ ${#simulated[@]} -gt 0 ]; then
    "$project/tests/simulation/seeds" "$build/tests/simulation/simulate" "${simulated[0]}" 1 "${simulated[1]:-2}" 2>&1 | tee "$log" || code=1
  else
    run_tests simulate "$build" unit || code=1
    return $code
  fi
  echo "simulate: $(tail -n 1 "$log")" >"$results/simulate"
  echo "count $code 1" >>"$results/simulate"
  return $code
}

run_engines() {
  local log=$build/engines.log code=0
  configure_and_build "$build" release compilecache-agent
  "$project/tests/engines/run.py" "${engines[@]}" --agent "$build/agent/compilecache-agent" --table "$build/engines.md" 2>&1 | tee "$log" || code=$?
  if [ $code -eq 77 ]; then code=0; fi
  {
    echo "engines: $(sed -n 's/^RUN: //p' "$log" | paste -sd, | sed 's/,/, /g; s/^$/none was run/')"
    sed -n 's/^\(FAILED: .*\)/  \1/p; s/^NOT RUN: /  left out: /p' "$log"
    sed -n 's/^\([0-9]*\) of \([0-9]*\) engines are not as they must be$/count \1 \2/p' "$log" | grep . || echo "count 1 1"
  } >"$results/engines"
  return $code
}

# run_controllers CLUSTER VOLUMES: on a cluster as run_e2e's, without PyTorch.
run_controllers() {
  local log=$build/controllers.log code=0 name
  "$project/tests/controllers/examples.py" --cluster "$1-examples" 2>&1 | tee "$log" || code=1
  "$cluster" up "$1"
  "$cluster" load-image "$1" "$(cat "$build/image")"
  use_cluster "$1"
  "$KUBECTL" apply -f "$project/config/install.yaml"
  "$KUBECTL" rollout status deployment/compilecache-operator -n compilecache-system --timeout=120s
  for name in "${controllers[@]}"; do "$cluster" add-controller "$1" "$name"; done
  CC_VOLUMES=$2 "$project/tests/controllers/run.py" "${controllers[@]}" 2>&1 | tee -a "$log" || code=1
  {
    echo "controllers: $(IFS=,; echo "${controllers[*]}")"
    sed -n 's/^\(FAILED: .*\)/  \1/p' "$log"
    sed -n 's/^\([0-9]*\) of \([0-9]*\) \(controllers\|examples\) .*$/count \1 \2/p' "$log" | grep . || echo "count 1 1"
  } >"$results/controllers"
  return $code
}

# run_engines_in_pods CLUSTER VOLUMES: of each release that is asked for; of vLLM's newest, when none is.
run_engines_in_pods() {
  local release code=0
  configure_and_build "$build" release engines_in_pods_test
  "$cluster" up "$1"
  "$cluster" load-image "$1" "$(cat "$build/image")"
  use_cluster "$1"
  export CC_VOLUMES=$2 CC_VLLM_IMAGE
  "$KUBECTL" apply -f "$project/config/install.yaml"
  "$KUBECTL" rollout status deployment/compilecache-operator -n compilecache-system --timeout=120s
  for release in "${engines[@]}"; do
    "$cluster" load-image "$1" "$("$cluster" vllm-image "$release")"
    CC_VLLM_IMAGE=docker.io/local/vllm:$release
    run_tests "vllm-$release" "$build" in_pods || code=$?
    sed "s/^vllm-$release: /engines: vllm $release in pods: /" "$results/vllm-$release" >>"$results/engines"
  done
  return $code
}

newest_vllm() { python3 -c 'import json, sys; print(next(iter(json.load(open(sys.argv[1]))["releases"])))' "$project/tests/engines/vllm/engine.json"; }

vllm_images() {
  local release
  for release in "${engines[@]}"; do "$cluster" vllm-image "$release"; done
}

# on_release RELEASE COMMAND...: with programs of Kubernetes of that release (tests/cluster/kubernetes/RELEASE.mod).
on_release() {
  local release=$1
  shift
  [ "$release" != 1.35 ] || release=go
  COMPILECACHE_KUBERNETES=$release "$@"
}

# Integration tests mostly wait, and CRDs and webhooks belong to a whole cluster: so several control planes run at once, and
# ctest gives each test one of them (tests/support/on_cluster).
integration_clusters=3

# run_integration CLUSTER [NAME [RELEASE]]: NAME is that of the results. The control planes are CLUSTER-1, CLUSTER-2, ...
run_integration() {
  local n ids=()
  export CC_CLUSTERS=$build/clusters-$1
  for n in $(seq "$integration_clusters"); do
    on_release "${3:-$newest_api}" "$cluster" up "$1-$n" --control-plane
    mkdir -p "$CC_CLUSTERS/$n"
    ln -sfn "$("$cluster" dir "$1-$n")/kubeconfig" "$CC_CLUSTERS/$n/kubeconfig"
    kubectl_of "$1-$n" "$CC_CLUSTERS/$n/kubectl"
    ids+=("{\"id\": \"$n\"}")
  done
  echo "{\"version\": {\"major\": 1, \"minor\": 0}, \"local\": [{\"clusters\": [$(IFS=,; echo "${ids[*]}")]}]}" >"$CC_CLUSTERS/resources.json"
  CC_REGISTRY=$("$cluster" registry)
  HELM=$("$cluster" helm)
  CC_COSIGN=$("$cluster" cosign)
  export CC_REGISTRY HELM CC_COSIGN
  run_tests "${2:-integration}" "$build" integration --resource-spec-file "$CC_CLUSTERS/resources.json"
}

# undo_integration CLUSTER: at the end, whatever it is.
undo_integration() {
  local n
  steps_undo rm -rf "$build/clusters-$1"
  for n in $(seq "$integration_clusters"); do steps_undo "$cluster" down "$1-$n"; done
}

oldest_api=1.30 newest_api=1.37
# What depends on the API server most; `matrix` runs all of them.
of_the_api='^(kube|injection|operator|config)_integration_test$'

# run_oldest CLUSTER
run_oldest() {
  local pattern=$of_the_api integration_clusters=1
  run_integration "$1" oldest "$oldest_api"
}

# run_both_apis CLUSTER: on the newest and, at the same time, on the oldest release.
run_both_apis() {
  local code=0 oldest
  run_oldest "$1-oldest" &
  oldest=$!
  # Not in a condition, so that it ends at its first error.
  run_integration "$1" &
  wait $! || code=$?
  wait "$oldest" || code=$?
  return $code
}

# What pods see of a kubelet: both deliveries, saves, claims that do not exist, a saver and a loader that are killed.
of_the_kubelet='^e2e[.](sidecar[.])?(WarmStart[.](Cold|More)|Injection|Saves|Modes|SaverFails|Faults[.]ASaver|Uninstall)'
# run_matrix CLUSTER VOLUMES RELEASE: its API server, and its node.
run_matrix() {
  local release=$3 pattern="" code=0 api node n
  run_integration "$1-api" "api-$release" "$release" || code=1
  api=$(said_of "api-$release")
  for n in $(seq "$integration_clusters"); do "$cluster" down "$1-api-$n"; done
  pattern=$of_the_kubelet
  on_release "$release" run_e2e "$1" "$2" "node-$release" || code=1
  node=$(said_of "node-$release")
  "$cluster" down "$1"
  echo "| $release | $api | $node |" | tee -a "$build/matrix.md"
  return $code
}

# said_of NAME: "21 of 22 passed"
said_of() { sed -n 's/^count \([0-9]*\) \([0-9]*\)$/\1 \2/p' "$results/$1" | awk '{ print $2 - $1 " of " $2 " passed" }'; }

lanes=()   # processes of start_beside

# start_beside LANE...: goes on under the steps that follow, at the lowest priority, since tests on a cluster mostly wait. A lane
# is parts that come one after the other; PART+WORD: with that word.
start_beside() {
  local lane
  for lane in "$@"; do
    rm -f "$results/lane-${#lanes[@]}"
    set -m
    run_lane "$lane" "$results/lane-${#lanes[@]}" 3>&1 >"$build/beside-${#lanes[@]}.log" 2>&1 </dev/null &
    set +m
    lanes+=($!)
    steps_undo bash -c "kill -TERM -- -$! 2>/dev/null || true"
  done
}

# run_lane PARTS FILE: whether all passed is in the file; 3 is where steps are reported. Where little was compiled before, the lanes
# would end long after everything else: what would begin after ${COMPILECACHE_MINUTES:-40} minutes is left out, and listed.
run_lane() {
  local part began code=0 how
  for part in $1; do
    if [ "$SECONDS" -gt $((${COMPILECACHE_MINUTES:-40} * 60)) ]; then
      printf '%s: not in this run\n  left out: %s: the run had taken %s; COMPILECACHE_MINUTES=600 waits for it, as does tests/run.sh %s\n' \
        "${part%%+*}" "${part%%+*}" "$(in_words "$SECONDS")" "${part//+/ }" >"$results/${part%%+*}"
      say "    beside: ${part%%+*}: left out" >&3
      continue
    fi
    began=$SECONDS how="done in"
    # shellcheck disable=SC2086
    COMPILECACHE_RESULTS=$results nice -n 19 "$project/tests/run.sh" ${part//+/ } 3>&- || code=1 how="FAILED after"
    say "    beside: ${part%%+*}: $how $(in_words $((SECONDS - began)))" >&3
  done
  echo "$code" >"$2"
}

# A killed lane leaves no file. The output of failed lanes comes last, where it is seen.
wait_beside() {
  local lane failed=()
  for lane in "${!lanes[@]}"; do
    until [ -e "$results/lane-$lane" ] || ! [ -e "/proc/${lanes[$lane]}" ]; do sleep 1; done
    if [ "$(cat "$results/lane-$lane")" = 0 ]; then cat "$build/beside-$lane.log"; else failed+=("$build/beside-$lane.log"); fi
  done
  [ ${#failed[@]} -eq 0 ] || { cat "${failed[@]}" && return 1; }
}

# kubectl_of CLUSTER FILE: a program that is kubectl on that cluster.
kubectl_of() {
  printf '#!/bin/sh\nexec "%s" kubectl "%s" "$@"\n' "$cluster" "$1" >"$2"
  chmod +x "$2"
}

use_cluster() {
  KUBECONFIG=$("$cluster" dir "$1")/kubeconfig
  KUBECTL=$build/kubectl-$1
  kubectl_of "$1" "$KUBECTL"
  export KUBECONFIG KUBECTL
}

# run_first_hour CLUSTER VOLUMES
run_first_hour() {
  local code=0
  configure_and_build "$build" release kubectl-compilecache
  "$cluster" up "$1" --with-next-torch
  "$cluster" load-image "$1" "$(cat "$build/image")" "$("$cluster" registry-image)"
  "$project/tests/first_hour/run" "$1" "$2" || code=1
  echo "first-hour: docs/start/first-hour.md $([ $code -eq 0 ] && echo holds || echo "does NOT hold")" >"$results/first-hour"
  echo "count $code 1" >>"$results/first-hour"
  return $code
}

# run_faults CLUSTER VOLUMES
run_faults() {
  local log=$build/faults.log code=0 broken good
  "$cluster" up "$1"
  "$cluster" load-image "$1" "$(cat "$build/image")" "$("$cluster" registry-image)" "$("$cluster" base-archive)"
  use_cluster "$1"
  registry_volume "$2/registry" | "$KUBECTL" apply -f -
  mount -t tmpfs -o size=256m,mode=777 faults "$2/registry"   # so that it can be full
  "$KUBECTL" apply -f "$project/config/install-with-registry.yaml"
  "$KUBECTL" rollout status deployment/compilecache-operator -n compilecache-system --timeout=180s
  "$KUBECTL" rollout status deployment/compilecache-registry -n compilecache-system --timeout=180s
  # shellcheck disable=SC2086
  "$project/tests/faults/run" "$1" "$2" ${pattern//|/ } 2>&1 | tee "$log" || code=1
  {
    echo "faults"
    sed -n 's/^\([a-z-]*: .*\(MISSED\|FAILED\).*\)/  \1/p' "$log"
    broken=$(grep -c 'MISSED\|FAILED' "$log" || true)
    good=$(grep -c ': good$' "$log" || true)
    if [ $code -ne 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi   # it ended before it could say which
    echo "count $broken $((good + broken))"
  } >"$results/faults"
  return $code
}

# run_e2e CLUSTER VOLUMES [NAME [OPTION...]]: with these options of ctest.
run_e2e() {
  "$cluster" up "$1" --with-next-torch
  "$cluster" add-controller "$1" lws
  if "$cluster" kubectl "$1" get --raw /apis/resource.k8s.io/v1 >/dev/null 2>&1; then   # since 1.34
    "$cluster" add-devices "$1" gpu.nvidia.com "$project/tests/e2e/devices.json"
  fi
  "$cluster" load-image "$1" "$(cat "$build/image")" "$("$cluster" registry-image)" "$("$cluster" registry-image --before)"
  use_cluster "$1"
  CC_TORCH_IMAGE=$("$cluster" torch-image)
  CC_NEXT_TORCH_IMAGE=$("$cluster" torch-image --next)
  HELM=$("$cluster" helm)
  CC_PREVIOUS_RELEASE=$("$cluster" previous-release)
  "$cluster" load-image "$1" "$CC_PREVIOUS_RELEASE/image.tar"
  # As users install it, but for the grace of condemned blobs and the breaker's times, which outlast any test.
  CC_INSTALL_MANIFEST=$2/install.yaml
  sed 's/^\( *grace:\) 15m /\1 10s /; s/^\( *patience:\) 30s /\1 10s /; s/^\( *pause:\) 1m /\1 15s /' "$project/config/install-with-registry.yaml" >"$CC_INSTALL_MANIFEST"
  CC_VOLUMES=$2
  export CC_VOLUMES CC_TORCH_IMAGE CC_NEXT_TORCH_IMAGE CC_INSTALL_MANIFEST HELM CC_PREVIOUS_RELEASE
  registry_volume "$2/registry" | "$KUBECTL" apply -f -
  "$KUBECTL" apply -f "$CC_INSTALL_MANIFEST"
  "$KUBECTL" rollout status deployment/compilecache-operator -n compilecache-system --timeout=120s
  "$KUBECTL" rollout status deployment/compilecache-registry -n compilecache-system --timeout=120s
  run_tests "${3:-e2e}" "$build" e2e "${@:4}"
}

# run_e2e_on_two CLUSTER VOLUMES: the tests that need a cluster to themselves have a second one, CLUSTER-alone: they mostly wait.
run_e2e_on_two() {
  local code=0 alone
  mkdir -p -m 755 "$2/alone" "$2/shared"
  run_e2e "$1-alone" "$2/alone" e2e-alone -L '^alone$' &
  alone=$!
  # Not in a condition, so that it ends at its first error.
  run_e2e "$1" "$2/shared" e2e -LE '^alone$' &
  wait $! || code=$?
  wait "$alone" || code=$?
  return $code
}

build_image() { "$cluster" build-image "$(operator_image "$project/config/install.yaml")" >"$build/image"; }

# ---- all of it

# The seconds are of a machine with two cores on which nothing was built before.
plan() {
  local name
  [ -z "$(missing_packages)" ] || steps_plan packages 90 "Debian packages of cmake/ and tests/"
  if needs_programs; then steps_plan build 900 "building programs and tests"; fi
  if wants unit; then steps_plan unit 240 "unit tests"; fi
  if [ "$part" = sources ]; then steps_plan sources 600 "every source file by itself"; fi
  if [ "$part" = tidy ]; then steps_plan tidy 330 "clang-tidy on what has changed"; fi
  if [ "$part" = release ]; then steps_plan release 900 "a release of this commit, made twice"; fi
  if [ "$part" = arm64 ]; then steps_plan arm64 1500 "what runs in pods, for arm64 and under qemu"; fi
  if [ "$part" = simulate ]; then steps_plan simulate 900 "the whole installation under one seed"; fi
  if wants prose && [ -z "$pattern" ]; then
    steps_plan vale "$(unless_ready prose 180)" "Vale from its Go module"
    steps_plan prose 20 "docs, comments and messages in plain English"
  fi
  if [ "$part" = mutate ]; then steps_plan mutate 600 "small wrong changes, each to be noticed"; fi
  if [ "$part" = engines ] && [ -z "$in_pods" ]; then steps_plan engines 300 "real engines, cold and warm"; fi
  if [ "$part" = controllers ]; then
    steps_plan node "$(unless_ready node 590)" "Kubernetes"
    for name in "${controllers[@]}"; do
      steps_plan "controller-$name" "$(unless_ready "controller $name" 300)" "the controller $name from its Go module"
    done
    steps_plan image 400 "the operator's image from the Dockerfile"
    steps_plan controllers $((200 + 240 * ${#controllers[@]})) "what controllers make of annotated objects"
  fi
  if [ "$part" = matrix ]; then
    for name in "${releases[@]}"; do steps_plan "kubernetes-$name" "$(unless_ready_on "$name" 500)" "Kubernetes $name"; done
    steps_plan cosign "$(unless_ready cosign 300)" "cosign from its Go module"
    steps_plan node "$(unless_ready node 590)" "the rest of Kubernetes"
    steps_plan torch "$(unless_ready next 500)" "images with PyTorch from Debian's packages"
    steps_plan lws "$(unless_ready "controller lws" 150)" "LeaderWorkerSet's controller from its Go module"
    steps_plan previous "$(unless_ready previous 600)" "the release before this one, from its commit"
    steps_plan image 400 "the operator's image from the Dockerfile"
    for name in "${releases[@]}"; do steps_plan "matrix-$name" 2200 "integration and end-to-end tests on Kubernetes $name"; done
  fi
  if [ "$part" = first-hour ]; then
    steps_plan node "$(unless_ready node 590)" "Kubernetes"
    steps_plan torch "$(unless_ready next 500)" "images with PyTorch from Debian's packages"
    steps_plan image 400 "the operator's image from the Dockerfile"
    steps_plan first-hour 400 "docs/start/first-hour.md, as it is written"
  fi
  if [ "$part" = faults ]; then
    steps_plan node "$(unless_ready node 590)" "Kubernetes"
    steps_plan image 400 "the operator's image from the Dockerfile"
    steps_plan faults 2400 "plain, cold and warm pods while a part is broken"
  fi
  if [ -n "$in_pods" ]; then
    steps_plan node "$(unless_ready node 590)" "Kubernetes from its Go modules"
    steps_plan image 400 "the operator's image from the Dockerfile"
    steps_plan vllm 300 "images of vLLM from PyPI"
    steps_plan in-pods 900 "vLLM's server in pods, killed and replaced"
  fi
  if [ "$part" = fresh ]; then steps_plan fresh 1500 "the documented lines in a new Debian (tests/fresh)"; fi
  if wants integration; then steps_plan control-plane "$(unless_ready control-plane 330)" "etcd, kube-apiserver, a registry and helm from Go modules"; fi
  if wants integration; then
    for name in "$oldest_api" "$newest_api"; do steps_plan "kubernetes-$name" "$(unless_ready_on "$name" 300)" "the API server of Kubernetes $name"; done
  fi
  if wants integration; then steps_plan cosign "$(unless_ready cosign 300)" "cosign from its Go module"; fi
  if wants integration; then steps_plan linters "$(unless_ready linters 120)" "Helm 3, helm-docs and actionlint from their Go modules"; fi
  if whole; then
    steps_plan integration 700 "integration tests on the newest and the oldest API server"
  else
    if wants sanitized; then steps_plan sanitized 700 "tests under AddressSanitizer and UndefinedBehaviorSanitizer"; fi
    if wants threads; then steps_plan threads 700 "tests under ThreadSanitizer"; fi
    if wants fuzz; then steps_plan fuzz 500 "fuzzing"; fi
    if wants integration; then steps_plan integration 500 "integration tests"; fi
  fi
  if [ "$part" = integration ] && [ -z "$pattern" ]; then steps_plan oldest 300 "integration tests on the oldest API server"; fi
  if wants e2e; then
    steps_plan node "$(unless_ready node 260)" "the rest of Kubernetes"
    steps_plan torch "$(unless_ready next 500)" "images with PyTorch from Debian's packages"
    steps_plan lws "$(unless_ready "controller lws" 150)" "LeaderWorkerSet's controller from its Go module"
    steps_plan previous "$(unless_ready previous 600)" "the release before this one, from its commit"
    steps_plan image 400 "the operator's image from the Dockerfile"
    if whole; then
      steps_plan e2e 1600 "end-to-end tests on two clusters"
      steps_plan beside 600 "what ran beside: sanitizers, fuzzing, a new Debian (tests/fresh), every source by itself, real engines, clang-tidy, small wrong changes"
    else
      steps_plan e2e 1400 "end-to-end tests"
    fi
  fi
}

# unless_ready PART SECONDS: what `cluster prepare PART` will take.
unless_ready() { if "$cluster" ready $1; then echo 0; else echo "$2"; fi; }   # shellcheck disable=SC2086

# unless_ready_on RELEASE SECONDS
unless_ready_on() { if on_release "$1" "$cluster" ready control-plane; then echo 0; else echo "$2"; fi; }

# part_step PART COMMAND...: unless an interrupted run of this tree has finished it.
part_step() {
  if [ -e "$results/$1.done" ]; then
    say "${steps_what[$1]}: passed before the run was interrupted (--anew runs all again)"
    steps_skip "$1"
    return
  fi
  try_step "$@"
  [ "$steps_code" -ne 0 ] || touch "$results/$1.done"
}

# What of this tree is built and tested.
fingerprint() {
  git -C "$project" rev-parse HEAD
  git -C "$project" diff HEAD | sha256sum
  git -C "$project" ls-files -z --others --exclude-standard | (cd "$project" && xargs -0r sha256sum)
}

# Results are of one run; of an interrupted one when the tree is still the same.
open_results() {
  [ -z "${COMPILECACHE_RESULTS-}" ] || return 0
  local tree
  tree="$part $in_pods ${engines[*]} $pattern $(fingerprint 2>/dev/null || date +%s%N)"
  if [ -n "$anew" ] || [ "$(cat "$results/tree" 2>/dev/null)" != "$tree" ]; then
    rm -rf "$results"
    mkdir -p "$results"
    echo "$tree" >"$results/tree"
  fi
}

summary() {
  local file passed=0 failed=0 count name ran=0 total skipped=0 left_out=0
  echo
  for name in unit release arm64 first-hour faults engines controllers fresh sources tidy prose mutate simulate sanitized threads fuzz oldest integration \
    e2e e2e-alone \
    "${releases[@]/#/api-}" "${releases[@]/#/node-}"; do
    file=$results/$name
    [ -e "$file" ] || continue
    grep -v '^count ' "$file" || true
    skipped=$((skipped + $(grep -c '^  skipped: ' "$file" || true)))
    left_out=$((left_out + $(grep -c '^  left out: ' "$file" || true)))
    while read -r _ count total; do
      failed=$((failed + count)) passed=$((passed + total - count)) ran=$((ran + total))
    done < <(grep '^count ' "$file")
  done
  [ $((ran + left_out)) -gt 0 ] || { echo "no test was run${pattern:+; none matches '$pattern'}" && exit 1; }
  # Programs; what is skipped or left out are single tests, named above.
  echo "$passed passed, $failed failed, $skipped skipped, $left_out left out"
}

prepare_matrix() {
  local release
  for release in "${releases[@]}"; do step "kubernetes-$release" on_release "$release" "$cluster" prepare control-plane; done
  step cosign "$cluster" prepare cosign
  step node "$cluster" prepare node
  step torch "$cluster" prepare next
  step lws "$cluster" prepare controller lws
  step previous "$cluster" prepare previous
  step image build_image
  rm -f "$build/matrix.md"
}

# matrix_step RELEASE
matrix_step() {
  local name volumes
  name=matrix-${1//./-}-$$ volumes=$(mktemp -d)
  chmod 755 "$volumes"
  steps_undo rm -f "$build/kubectl-$name"
  steps_undo rm -rf "$volumes"
  steps_undo "$cluster" down "$name"
  undo_integration "$name-api"
  part_step "matrix-$1" run_matrix "$name" "$volumes" "$1"
}

main() {
  local name volumes release
  parse_arguments "$@"
  if whole; then export CC_NO_SKIPS=${CC_NO_SKIPS-1}; fi
  if [ "$part" = controllers ] && [ ${#controllers[@]} -eq 0 ]; then controllers=(kueue jobset argo-rollouts kuberay kserve kserve-llm trainer); fi
  if [ "$part" = matrix ] && [ ${#releases[@]} -eq 0 ]; then releases=(1.30 1.33 1.35 1.37); fi
  check_machine
  mkdir -p "$build"
  steps_begin tests "$cache"
  trap steps_clean_up EXIT
  trap 'exit 130' INT TERM HUP
  open_results
  plan
  say "tests/run.sh $part: about $(in_words "$(steps_left)"); everything is written to $steps_log"

  [ -z "$(missing_packages)" ] || step packages install_packages
  if needs_programs; then step build build_all; fi
  if whole; then start_beside "threads sanitized fuzz tidy" "fresh engines+vllm+jax sources mutate"; fi
  if wants unit; then part_step unit run_unit; fi
  if wants prose && [ -z "$pattern" ]; then
    step vale "$cluster" prepare prose
    part_step prose run_prose
  fi
  if [ "$part" = fresh ]; then part_step fresh run_fresh; fi
  if [ "$part" = engines ] && [ -z "$in_pods" ]; then part_step engines run_engines; fi
  if [ "$part" = release ]; then part_step release run_release; fi
  if [ "$part" = arm64 ]; then part_step arm64 run_arm64; fi
  if [ "$part" = mutate ]; then part_step mutate run_mutate; fi
  if [ "$part" = simulate ]; then
    [ ${#simulated[@]} -gt 0 ] || pattern='^simulation_'
    part_step simulate run_simulate
  fi
  if [ "$part" = sources ]; then part_step sources run_sources; fi
  if [ "$part" = tidy ]; then part_step tidy run_tidy; fi
  name=integration-$$
  if wants integration; then
    undo_integration "$name"
    step control-plane "$cluster" prepare control-plane
    for release in "$oldest_api" "$newest_api"; do step "kubernetes-$release" on_release "$release" "$cluster" prepare control-plane; done
    step cosign "$cluster" prepare cosign
    step linters "$cluster" prepare linters
  fi
  if whole; then
    undo_integration "$name-oldest"
    part_step integration run_both_apis "$name"
  else
    if wants sanitized; then part_step sanitized run_sanitized; fi
    if wants threads; then part_step threads run_threads; fi
    if wants fuzz; then part_step fuzz run_fuzz; fi
    if wants integration; then part_step integration run_integration "$name"; fi
  fi
  if [ "$part" = integration ] && [ -z "$pattern" ]; then
    undo_integration "$name-oldest"
    part_step oldest run_oldest "$name-oldest"
  fi
  if [ "$part" = matrix ]; then prepare_matrix && for release in "${releases[@]}"; do matrix_step "$release"; done; fi
  if [ "$part" = controllers ]; then
    step node "$cluster" prepare node
    for name in "${controllers[@]}"; do step "controller-$name" "$cluster" prepare controller "$name"; done
    step image build_image
    name=controllers-$$ volumes=$(mktemp -d)
    chmod 755 "$volumes"
    steps_undo rm -f "$build/kubectl-$name"
    steps_undo rm -rf "$volumes"
    steps_undo "$cluster" down "$name"
    part_step controllers run_controllers "$name" "$volumes"
  fi
  if [ "$part" = first-hour ]; then
    step node "$cluster" prepare node
    step torch "$cluster" prepare next
    step image build_image
    name=first-hour-$$ volumes=$(mktemp -d)
    chmod 755 "$volumes"
    steps_undo rm -rf "$volumes"
    steps_undo "$cluster" down "$name"
    part_step first-hour run_first_hour "$name" "$volumes"
  fi
  if [ "$part" = faults ]; then
    step node "$cluster" prepare node
    step image build_image
    name=faults-$$ volumes=$(mktemp -d)
    chmod 755 "$volumes"
    steps_undo rm -rf "$volumes"
    steps_undo bash -c "! mountpoint -q '$volumes/registry' || umount '$volumes/registry'"
    steps_undo "$cluster" down "$name"
    part_step faults run_faults "$name" "$volumes"
  fi
  if [ -n "$in_pods" ]; then
    [ ${#engines[@]} -gt 0 ] || engines=("$(newest_vllm)")
    step node "$cluster" prepare node
    step image build_image
    step vllm vllm_images
    name=in-pods-$$ volumes=$(mktemp -d)
    chmod 755 "$volumes"
    steps_undo rm -f "$build/kubectl-$name"
    steps_undo rm -rf "$volumes"
    steps_undo "$cluster" down "$name"
    part_step in-pods run_engines_in_pods "$name" "$volumes"
  fi
  if wants e2e; then
    step node "$cluster" prepare node
    step torch "$cluster" prepare next
    step lws "$cluster" prepare controller lws
    step previous "$cluster" prepare previous
    step image build_image
    name=e2e-$$ volumes=$(mktemp -d)
    chmod 755 "$volumes"
    steps_undo rm -f "$build/kubectl-$name"
    steps_undo rm -rf "$volumes"
    steps_undo "$cluster" down "$name"
    steps_undo rm -f "$build/kubectl-$name-alone"
    steps_undo "$cluster" down "$name-alone"
    if [ -n "$pattern" ]; then
      part_step e2e run_e2e "$name" "$volumes"
    else
      part_step e2e run_e2e_on_two "$name" "$volumes"
    fi
  fi
  if whole; then try_step beside wait_beside; fi

  [ -n "${COMPILECACHE_RESULTS-}" ] || summary
  [ -n "${COMPILECACHE_RESULTS-}" ] || rm -f "$results/tree"   # a run that ended is not gone on with
  exit "$steps_failed"
}

main "$@"
