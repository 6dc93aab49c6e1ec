#include "operator/archives/archive_trust.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace compilecache::controller {
namespace {

using Reason = api::DistrustReason;

// Whether an entry for that reason counts.
bool holds(const api::CompileCacheArchive& archive, Reason reason) {
  switch (reason) {
    case Reason::kLoadReportedCorruption:
      return is_suspect(archive) && !is_crashing(archive);
    case Reason::kPodsCrashed:
      return is_crashing(archive);
    case Reason::kVerificationFailed:
      break;
  }
  return is_corrupt(archive);
}

std::set<std::string> digests_for(const api::CompileCacheArchive& archive, Reason reason) {
  std::set<std::string> digests;
  if (!holds(archive, reason)) return digests;
  for (const api::DistrustedBlob& blob : archive.distrusted) {
    if (blob.reason == reason) digests.insert(blob.digest);
  }
  return digests;
}

bool set(api::CompileCacheArchive& archive, const char* type, bool value, std::string_view reason,
         const std::string& message, const std::string& now) {
  return api::set_condition(archive.conditions,
                            {.type = type,
                             .status = value ? "True" : "False",
                             .reason = std::string(reason),
                             .message = message},
                            now);
}

// Causes that no condition names any more go, so that it does not come back with the next one.
void drop_settled(api::CompileCacheArchive& archive) {
  std::erase_if(archive.distrusted,
                [&](const api::DistrustedBlob& blob) { return !holds(archive, blob.reason); });
}

// After its condition is set. Where there are more than the status takes, the manifests stand for
// all of their blobs.
void add(api::CompileCacheArchive& archive, const std::string& digest, Reason reason,
         const std::string& now) {
  archive.distrusted.push_back({digest, reason, now});
  if (archive.distrusted.size() <= api::kMostDistrusted) return;
  const std::vector<std::string> manifests = distrusted_manifests(archive);
  std::erase_if(archive.distrusted, [](const api::DistrustedBlob& blob) {
    return blob.reason == Reason::kLoadReportedCorruption;
  });
  for (const std::string& manifest : manifests) {
    archive.distrusted.push_back({manifest, Reason::kLoadReportedCorruption, now});
  }
}

// All that was suspect is corrupt with the manifest.
void add_corrupt(api::CompileCacheArchive& archive, const std::string& manifest,
                 const std::string& now) {
  std::set<std::string> known{manifest};
  std::vector<api::DistrustedBlob> corrupt;
  for (api::DistrustedBlob blob : archive.distrusted) {
    blob.reason = Reason::kVerificationFailed;
    if (known.insert(blob.digest).second) corrupt.push_back(std::move(blob));
  }
  corrupt.push_back({manifest, Reason::kVerificationFailed, now});
  if (corrupt.size() > api::kMostDistrusted) corrupt.erase(corrupt.begin());
  archive.distrusted = std::move(corrupt);
}

}  // namespace

std::set<std::string> distrusted_digests(const api::CompileCacheArchive& archive) {
  std::set<std::string> digests;
  for (const auto& reason : api::kWords<Reason>) digests.merge(digests_for(archive, reason.value));
  return digests;
}

bool is_distrusted(const api::ArchiveHead& head, const std::set<std::string>& digests) {
  return digests.contains(head.manifest_digest) ||
         std::any_of(head.blobs.begin(), head.blobs.end(),
                     [&](const std::string& blob) { return digests.contains(blob); });
}

const api::ArchiveHead* usable_head(const api::CompileCacheArchive& archive) {
  return usable_head(archive, {});
}

const api::ArchiveHead* usable_head(const api::CompileCacheArchive& archive,
                                    const std::vector<std::string>& allowed_accounts) {
  const std::set<std::string> digests = distrusted_digests(archive);
  for (const api::ArchiveHead* head : {&archive.head, &archive.previous}) {
    if (!head->exists() || is_distrusted(*head, digests)) continue;
    if (api::saved_by_allowed(*head, allowed_accounts)) return head;
  }
  return nullptr;
}

bool mark_suspect(api::CompileCacheArchive& archive, const std::string& digest,
                  const std::string& reported_by, const std::string& now) {
  const std::set<std::string> digests = distrusted_digests(archive);
  const bool ours =
      is_distrusted(archive.head, {digest}) || is_distrusted(archive.previous, {digest});
  if (digest.empty() || !ours || digests.contains(digest) || is_crashing(archive)) return false;
  // Earlier ones stay named, since all of them have to be checked.
  std::string named = digest;
  for (const std::string& other : digests_for(archive, Reason::kLoadReportedCorruption)) {
    named += ", " + other;
  }
  drop_settled(archive);
  set(archive, api::kSuspectCondition, true, to_string(Reason::kLoadReportedCorruption),
      "pod " + reported_by + " found " + named +
          " not to be what it was saved as; what contains it is not handed out until a "
          "sweep has read it",
      now);
  add(archive, digest, Reason::kLoadReportedCorruption, now);
  return true;
}

std::string pods_in_words(const std::vector<std::string>& pods, bool hang) {
  return (hang ? "pods never became ready (" : "pods crashed (") + join(pods, ", ") + ")";
}

bool mark_crashing(api::CompileCacheArchive& archive, const std::string& manifest,
                   const std::vector<std::string>& pods, const std::string& now, bool hang) {
  std::set<std::string> named = crashing_manifests(archive);
  if (is_suspect(archive) && named.empty()) return false;  // a sweep will read it first
  const bool ours =
      is_distrusted(archive.head, {manifest}) || is_distrusted(archive.previous, {manifest});
  if (!ours || !named.insert(manifest).second) return false;
  drop_settled(archive);
  set(archive, api::kSuspectCondition, true, to_string(Reason::kPodsCrashed),
      pods_in_words(pods, hang) + " that had loaded " + join({named.begin(), named.end()}, ", ") +
          ", and those of its key that started without it did not. It is not handed out "
          "until another one is saved. Replace pods that continue to crash: "
          "the loaded files are in their directories",
      now);
  add(archive, manifest, Reason::kPodsCrashed, now);
  return true;
}

std::set<std::string> crashing_manifests(const api::CompileCacheArchive& archive) {
  return digests_for(archive, Reason::kPodsCrashed);
}

bool mark_acquitted(api::CompileCacheArchive& archive, const std::string& now) {
  if (!is_crashing(archive)) return false;
  set(archive, api::kSuspectCondition, false, "CrashWithoutItToo",
      "pods crash or hang that started without it as well", now);
  drop_settled(archive);
  return true;
}

bool mark_verified(api::CompileCacheArchive& archive, const std::string& manifest,
                   const std::string& now) {
  if (!is_suspect(archive) || is_crashing(archive)) return false;
  if (archive.head.manifest_digest != manifest && archive.previous.manifest_digest != manifest) {
    return false;
  }
  set(archive, api::kSuspectCondition, false, "Verified", "a sweep has read it and found it whole",
      now);
  drop_settled(archive);
  return true;
}

bool mark_corrupt(api::CompileCacheArchive& archive, const std::string& manifest,
                  const std::string& now) {
  const bool is_head = archive.head.manifest_digest == manifest;
  if (!is_head && archive.previous.manifest_digest != manifest) return false;
  std::string named = manifest;
  for (const std::string& digest : distrusted_digests(archive)) {
    if (digest != manifest) named += ", " + digest;
  }
  drop_settled(archive);
  set(archive, api::kSuspectCondition, false, "Corrupt", "see the condition Corrupt", now);
  set(archive, api::kCorruptCondition, true, to_string(Reason::kVerificationFailed),
      "a sweep has read it and found " + named +
          " corrupt; it is deleted and the next cold pod saves again",
      now);
  add_corrupt(archive, manifest, now);
  if (is_head) archive.head = archive.previous;
  archive.previous = {};
  return true;
}

void clear_distrust(api::CompileCacheArchive& archive, const std::string& now) {
  for (const char* type : {api::kSuspectCondition, api::kCorruptCondition}) {
    if (api::is_true(archive.conditions, type))
      set(archive, type, false, "SavedAnew", "a new archive was saved", now);
  }
  drop_settled(archive);
}

std::vector<std::string> distrusted_manifests(const api::CompileCacheArchive& archive) {
  std::vector<std::string> manifests;
  const std::set<std::string> digests = distrusted_digests(archive);
  for (const api::ArchiveHead* head : {&archive.head, &archive.previous}) {
    if (head->exists() && is_distrusted(*head, digests)) manifests.push_back(head->manifest_digest);
  }
  return manifests;
}

std::vector<std::string> manifests_to_check(const api::CompileCacheArchive& archive) {
  if (!is_suspect(archive) || is_crashing(archive)) return {};
  return distrusted_manifests(archive);
}

}  // namespace compilecache::controller
