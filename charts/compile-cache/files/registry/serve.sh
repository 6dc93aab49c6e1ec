# Runs the registry, and prevents that one client's uploads fill the volume.
#
#   sh serve.sh [CONFIG]   of the registry
#
# UPLOAD_LIMIT  MiB of a single upload. A layer of an archive is one (spec.save.maxArchiveSize).
# RESERVE       MiB of the volume that uploads are to leave free; at most a twentieth of it
config=${1:-/etc/distribution/config.yml}
root=${REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY:-/var/lib/registry}
repositories=$root/docker/registry/v2/repositories

# Bytes under way of the namespace that has most: "KiB FOLDER".
largest_uploads() {
  for namespace in "$repositories"/*; do
    [ -d "$namespace" ] || continue
    size=$(find "$namespace" -type d -name _uploads -prune -exec du -sk {} + 2>/dev/null | awk '{sum += $1} END {print sum + 0}')
    echo "$size $namespace"
  done | sort -n | tail -n 1
}

# Where they take more than what is left, they are the reason. They go: their files lose their names first, so that none
# becomes a blob with a hole, and then their bytes, since the registry has them open.
drop_uploads() {
  set -- $(largest_uploads)
  [ "${1:-0}" -gt "$free" ] || return 0
  echo "dropping the uploads of ${2##*/}: $1 KiB are under way, and $free KiB are free" >&2
  find "$2" -path '*/_uploads/*' -name data -type f | while IFS= read -r data; do
    mv "$data" "$data.dropped" && : >"$data.dropped"
  done
  find "$2" -type d -name _uploads -prune -exec rm -rf {} +
}

# As long as the registry runs, whose process this shell becomes.
watch() {
  while sleep "${WATCH_SECONDS:-2}" && kill -0 $$ 2>/dev/null; do
    set -- $(df -Pk "$root" | awk 'NR == 2 {print $2, $4}')
    free=${2:-0} reserve=$((${1:-0} / 20))
    [ "$reserve" -le $((${RESERVE:-1024} * 1024)) ] || reserve=$((${RESERVE:-1024} * 1024))
    [ "$free" -ge "$reserve" ] || drop_uploads
  done
}

watch &
# In blocks of 512 bytes. Writing on fails, and so the upload does.
ulimit -f $((${UPLOAD_LIMIT:-4096} * 2048))
exec registry serve "$config"
