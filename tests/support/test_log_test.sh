#!/usr/bin/env bash
# test_log.sh on a log as ctest and GoogleTest write it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/test_log.sh"

expected='  skipped: Disk.Full: may not mount
  left out: SlowVolumes.Hang: takes minutes; CC_E2E_LONG=1 runs it
  not run: e2e.NinjaBuiltCache: ninja is not installed'
told=$(not_run <<'LOG'
3/9 Testing: archive_test
3/9 Test: archive_test
[ RUN      ] Disk.IsThere
[       OK ] Disk.IsThere (0 ms)
[ RUN      ] Disk.Full
/tree/tests/unit/archive/damage_test.cpp:221: Skipped
may not mount

[  SKIPPED ] Disk.Full (0 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Disk.Full
4/9 Testing: e2e.SlowVolumes.Hang
[ RUN      ] SlowVolumes.Hang
left out: takes minutes; CC_E2E_LONG=1 runs it
[       OK ] SlowVolumes.Hang (12 ms)
5/9 Testing: e2e.NinjaBuiltCache
NOT RUN: ninja is not installed
LOG
)
[ "$told" = "$expected" ] || { printf 'FAILED: it tells\n%s\n' "$told" >&2 && exit 1; }
