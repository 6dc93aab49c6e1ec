# Frees what no save has tagged, before the registry starts: while it runs, a collection could take what is being pushed.
# Always ends well, since a registry with garbage is better than none.
#
#   sh collect.sh [CONFIG]   of the registry
config=${1:-/etc/distribution/config.yml}
repositories=${REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY:-/var/lib/registry}/docker/registry/v2/repositories
if [ ! -d "$repositories" ]; then
  echo "nothing is stored yet"
  exit 0
fi
# No upload is gone on with after a restart, and a collection leaves them.
find "$repositories" -type d -name _uploads -prune -exec rm -rf {} +
# Every save has a tag of its own, which nobody moves; what has none belongs to a save that died, or was deleted.
if timeout "${COLLECT_SECONDS:-600}" registry garbage-collect --delete-untagged --quiet "$config"; then
  echo "collected"
else
  echo "the collection did not end; the next start tries again" >&2
fi
exit 0
