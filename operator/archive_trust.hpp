#pragma once

#include <set>
#include <string>
#include <vector>

#include "api/compile_cache_archive.hpp"

// Which head of an archive may be handed out. A blob that a loader found corrupt makes the archive
// Suspect at once; a sweep Job reads it and clears it or makes it Corrupt. While either holds,
// whatever contains the digest in question is not handed out, and the generation before it takes
// its place where it is free of it. The digests in question stand in the conditions' messages, as
// "sha256:...": what people read is what counts.
//
// Pure functions on the resource; safe from any thread.

namespace compilecache::controller {

inline constexpr char kSuspectCondition[] = "Suspect";
inline constexpr char kCorruptCondition[] = "Corrupt";

bool is_suspect(const api::CompileCacheArchive& archive);
bool is_corrupt(const api::CompileCacheArchive& archive);

// Every digest that a true Suspect or Corrupt condition names.
std::set<std::string> distrusted_digests(const api::CompileCacheArchive& archive);

// Its manifest or one of its blobs is distrusted.
bool is_distrusted(const api::ArchiveHead& head, const std::set<std::string>& digests);

// The head, else the generation before it, else nullptr. Points into `archive`.
const api::ArchiveHead* usable_head(const api::CompileCacheArchive& archive);

// `digest` is the blob, or the manifest where the report names none. Returns whether anything
// changed.
bool mark_suspect(api::CompileCacheArchive& archive, const std::string& digest,
                  const std::string& reported_by, const std::string& now);
// A sweep Job read the manifest's blobs: whole.
bool mark_verified(api::CompileCacheArchive& archive, const std::string& manifest,
                   const std::string& now);
// ... or not. The head gives way to the generation before it.
bool mark_corrupt(api::CompileCacheArchive& archive, const std::string& manifest,
                  const std::string& now);
// A new head was committed that was written without trust in the old one.
void clear_distrust(api::CompileCacheArchive& archive, const std::string& now);

// Manifests that a sweep Job should read: heads and previous heads that are suspect, not yet
// corrupt.
std::vector<std::string> manifests_to_check(const api::CompileCacheArchive& archive);

}  // namespace compilecache::controller
