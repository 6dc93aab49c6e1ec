#pragma once

#include <set>
#include <string>
#include <vector>

#include "api/compile_cache_archive.hpp"

// Which head of an archive may be handed out. A blob that a loader found corrupt makes the archive
// Suspect at once; a sweep Job reads it and clears it or makes it Corrupt. So does one that makes
// applications crash (operator/archives/crash_watch.hpp), which no reading can clear: a new save
// does, or pods that crash without it too. While either holds, whatever contains the digest in
// question is not handed out, and the generation before it takes its place where it is free of it.
// The digests in question are status.distrusted; an entry counts while its condition is True, so
// that who clears the condition by hand has cleared it. The conditions' messages name them to
// people (and to 0.1: api/compile_cache_archive.cpp).
//
// Pure functions on the resource; safe from any thread.

namespace compilecache::controller {

// Every digest in status.distrusted whose condition is True.
std::set<std::string> distrusted_digests(const api::CompileCacheArchive& archive);

// Its manifest or one of its blobs is distrusted.
bool is_distrusted(const api::ArchiveHead& head, const std::set<std::string>& digests);

// The head, else the generation before it, else nullptr. Points into `archive`.
const api::ArchiveHead* usable_head(const api::CompileCacheArchive& archive);

// `digest` is the blob, or the manifest where the report names none. Returns whether anything
// changed.
bool mark_suspect(api::CompileCacheArchive& archive, const std::string& digest,
                  const std::string& reported_by, const std::string& now);
// These pods crashed after they loaded the manifest. Returns whether anything changed.
bool mark_crashing(api::CompileCacheArchive& archive, const std::string& manifest,
                   const std::vector<std::string>& pods, const std::string& now);
// The manifests that are suspect as pods crashed.
std::set<std::string> crashing_manifests(const api::CompileCacheArchive& archive);
// It was not the archive: pods that started without it crash as well.
bool mark_acquitted(api::CompileCacheArchive& archive, const std::string& now);
// A sweep Job read the manifest's blobs: whole.
bool mark_verified(api::CompileCacheArchive& archive, const std::string& manifest,
                   const std::string& now);
// ... or not. The head gives way to the generation before it.
bool mark_corrupt(api::CompileCacheArchive& archive, const std::string& manifest,
                  const std::string& now);
// A new head was committed that was written without trust in the old one.
void clear_distrust(api::CompileCacheArchive& archive, const std::string& now);

// Manifests of heads and previous heads that are not handed out.
std::vector<std::string> distrusted_manifests(const api::CompileCacheArchive& archive);

// Manifests that a sweep Job should read: heads and previous heads that are suspect, not yet
// corrupt.
std::vector<std::string> manifests_to_check(const api::CompileCacheArchive& archive);

}  // namespace compilecache::controller
