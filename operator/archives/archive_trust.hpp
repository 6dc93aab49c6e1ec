#pragma once

#include <set>
#include <string>
#include <vector>

#include "api/compile_cache_archive.hpp"

// Decides which head of an archive may be handed out. A blob that a loader found corrupt makes the
// archive Suspect at once; a sweep Job reads the blobs and clears it or makes it Corrupt. A
// manifest that makes applications crash (operator/archives/crash_watch.hpp) makes it Suspect too;
// no reading clears that, but a new save does, or pods that crash without it as well. While either
// holds, no head with that digest is handed out, and the previous head takes its place where it is
// free of it. The digests are in status.distrusted; an entry counts while its condition is True, so
// that clearing the condition by hand clears it. The conditions' messages name them for people (and
// for 0.1: api/compile_cache_archive.cpp).
//
// Pure functions on the resource; safe from any thread.

namespace compilecache::controller {

// Every digest in status.distrusted whose condition is True.
std::set<std::string> distrusted_digests(const api::CompileCacheArchive& archive);

// Whether the head's manifest or one of its blobs is distrusted.
bool is_distrusted(const api::ArchiveHead& head, const std::set<std::string>& digests);

// The head where it is trusted, else the previous one where that is, else nullptr. Points into
// `archive`.
const api::ArchiveHead* usable_head(const api::CompileCacheArchive& archive);
// The same among those that hold files of these service accounts alone (empty: of whichever):
// spec.save.allowedServiceAccounts.
const api::ArchiveHead* usable_head(const api::CompileCacheArchive& archive,
                                    const std::vector<std::string>& allowed_accounts);

// Why a pod gets no archive: each usable head holds files of a service account that may not save.
inline constexpr char kSaverNotAllowed[] = "saver_not_allowed";

// Marks a blob as suspect: `digest`, or the manifest where the report names none. Returns whether
// anything changed.
bool mark_suspect(api::CompileCacheArchive& archive, const std::string& digest,
                  const std::string& reported_by, const std::string& now);
// Marks the manifest as suspect because these pods crashed after they loaded it, or all of them
// hang (never became ready). Returns whether anything changed.
bool mark_crashing(api::CompileCacheArchive& archive, const std::string& manifest,
                   const std::vector<std::string>& pods, const std::string& now, bool hang = false);
// "pods crashed (web-1, web-2)", "pods never became ready (web-1)"
std::string pods_in_words(const std::vector<std::string>& pods, bool hang);
// The manifests that are suspect because pods crashed.
std::set<std::string> crashing_manifests(const api::CompileCacheArchive& archive);
// Clears that mark: pods that started without the archive crash as well.
bool mark_acquitted(api::CompileCacheArchive& archive, const std::string& now);
// Clears the suspicion: a sweep Job read the manifest's blobs and found them whole.
bool mark_verified(api::CompileCacheArchive& archive, const std::string& manifest,
                   const std::string& now);
// Marks it as corrupt: a sweep Job found damage. The previous head takes the head's place.
bool mark_corrupt(api::CompileCacheArchive& archive, const std::string& manifest,
                  const std::string& now);
// Clears all marks: a new head was committed whose save did not extend the distrusted one.
void clear_distrust(api::CompileCacheArchive& archive, const std::string& now);

// The manifests of the head and the previous head, as far as they are distrusted.
std::vector<std::string> distrusted_manifests(const api::CompileCacheArchive& archive);

// The manifests that a sweep Job should read: those of suspect heads that are not yet corrupt.
std::vector<std::string> manifests_to_check(const api::CompileCacheArchive& archive);

}  // namespace compilecache::controller
