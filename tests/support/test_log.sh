# shellcheck shell=bash
# Reads from ctest's log which tests did not run. Sourced by tests/run.sh.

# not_run <LastTest.log: prints a line for each test that was skipped, with its reason; its program may have passed. Also for
# each test that was left out, or whose script could not run.
not_run() {
  awk '
    /^[0-9]+\/[0-9]+ Testing: / { program = $3 }
    /^\[ RUN      \] / { test = $4 }
    /^left out: / { sub(/^left out: /, ""); printf "  left out: %s: %s\n", test, $0 }
    /^NOT RUN: / { sub(/^NOT RUN: /, ""); printf "  not run: %s: %s\n", program, $0 }
    /: Skipped$/ { getline reason }
    /^\[  SKIPPED \] .* ms\)$/ { printf "  skipped: %s: %s\n", $4, reason }'
}
