# Frees what no save has tagged, before the registry starts: while it runs, a collection could take an upload.
# Always ends well, since a registry with garbage is better than none. Its findings go into the container's termination
# message, where the operator reads it: {"collected":true,"setAside":0}.
#
#   sh collect.sh [CONFIG]   of the registry
config=${1:-/etc/distribution/config.yml}
root=${REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY:-/var/lib/registry}
storage=$root/docker/registry/v2
repositories=$storage/repositories
aside=$root/set-aside
count=$root/.set-aside-count

report() {
  [ -w "${COLLECT_REPORT:-/dev/termination-log}" ] || return 0
  printf '{"collected":%s,"setAside":%d}\n' "$1" "$(cat "$count" 2>/dev/null | wc -l)" >"${COLLECT_REPORT:-/dev/termination-log}"
}

# A single link or manifest that cannot be read would end the collection of all. Nobody can load what it was part of.
set_aside() {
  into=$aside/${1#"$repositories/"}
  mkdir -p "${into%/*}" && rm -rf "$into" && mv "$1" "$into" && echo "$1" >>"$count" &&
    echo "set aside, since it cannot be read: $1" >&2
}

# The link $1 names the digest $2; nothing: one that is not known. Its text is in $link then.
link_is_good() {
  link=
  [ -f "$1" ] && IFS= read -r link <"$1" 2>/dev/null
  case $link in
    sha256:*[!0-9a-f]* | '') link= ;;
    sha256:????????????????????????????????????????????????????????????????) ;;
    *) link= ;;
  esac
  [ -n "$link" ] && [ "$link" = "${2:-$link}" ]
}

write_link() {
  [ ! -d "$1" ] && printf 'sha256:%s' "$2" >"$1.new" && mv "$1.new" "$1"
}

# A link that a power loss has torn says what its folder's name says.
mend_links() {
  find "$repositories" \( -path '*/_layers/sha256/*' -o -path '*/_manifests/revisions/sha256/*' \) -name link |
    while IFS= read -r file; do
      folder=${file%/link}
      link_is_good "$file" "sha256:${folder##*/}" && continue
      write_link "$file" "${folder##*/}"
      link_is_good "$file" "sha256:${folder##*/}" || set_aside "$folder"
    done
  find "$repositories" -path '*/_manifests/tags/*' -prune -o -path '*/_manifests/tags' -print | while IFS= read -r tags; do
    for tag in "$tags"/*; do
      [ -d "$tag" ] || continue
      link_is_good "$tag/current/link" && continue
      # A tag that was never moved has a copy.
      set -- "$tag"/index/sha256/*
      [ $# -eq 1 ] && mkdir -p "$tag/current" && write_link "$tag/current/link" "${1##*/}"
      link_is_good "$tag/current/link" || set_aside "$tag"
    done
  done
}

# The manifests whose bytes are missing or damaged, with the tags that name them.
drop_manifests() {
  find "$repositories" -path '*/_manifests/revisions/sha256/*' -name link | while IFS= read -r file; do
    digest=${file%/link}
    digest=${digest##*/}
    first=${digest%"${digest#??}"}
    printf '%s  %s\n' "$digest" "$storage/blobs/sha256/$first/$digest/data"
  done | sort -u >"$root/.manifests"
  sha256sum -c "$root/.manifests" 2>/dev/null | sed -n 's,^.*/\([0-9a-f]*\)/data: FAILED.*,\1,p' >"$root/.damaged"
  while IFS= read -r digest; do
    find "$repositories" -path "*/_manifests/revisions/sha256/$digest" -prune | while IFS= read -r revision; do
      for tag in "${revision%/revisions/*}"/tags/*; do
        link_is_good "$tag/current/link" "sha256:$digest" && set_aside "$tag"
      done
      set_aside "$revision"
    done
  done <"$root/.damaged"
  rm -f "$root/.manifests" "$root/.damaged"
}

# A repository without a tag is that of a deleted CompileCache, and its folders would stay forever.
drop_empty_repositories() {
  find "$repositories" -type d -name _manifests -prune | while IFS= read -r manifests; do
    # A folder that cannot be listed is not empty.
    tags=$(ls -A "$manifests/tags" 2>/dev/null) || [ ! -e "$manifests/tags" ] || continue
    [ -z "$tags" ] && [ -x "$manifests" ] && rm -rf "${manifests%/_manifests}"
  done
  find "$repositories" -mindepth 1 -maxdepth 1 -type d -exec rmdir {} + 2>/dev/null
}

rm -f "$count"
if [ ! -d "$repositories" ]; then
  echo "nothing is stored yet"
  report true
  exit 0
fi
# No upload continues after a restart, and a collection leaves them.
find "$repositories" -type d -name _uploads -prune -exec rm -rf {} +
find "$aside" -type f -mtime +30 -exec rm -f {} + 2>/dev/null
mend_links
drop_manifests
# Every save has a tag of its own, which nobody moves; what has none belongs to a save that died, or was deleted.
if timeout "${COLLECT_SECONDS:-600}" registry garbage-collect --delete-untagged --quiet "$config"; then
  drop_empty_repositories
  echo "collected"
  report true
else
  echo "the collection did not end; the next start tries again" >&2
  report false
fi
rm -f "$count"
exit 0
