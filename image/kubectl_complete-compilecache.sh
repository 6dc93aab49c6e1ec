#!/bin/sh
# kubectl's completion calls this, found on the PATH by its name, with the words behind `kubectl compilecache`.
exec "$(dirname "$(readlink -f "$0")")/kubectl-compilecache" __complete "$@"
