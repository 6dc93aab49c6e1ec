#include "operator/archives/archive_trust.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace compilecache::controller {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kDigestLength = 71;  // the prefix and 64 hexadecimal digits

void add_digests(const api::Condition* condition, std::set<std::string>& digests) {
  if (condition == nullptr || condition->status != "True") return;
  const std::string& text = condition->message;
  for (size_t at = text.find(kDigestPrefix); at != std::string::npos;
       at = text.find(kDigestPrefix, at + 1)) {
    digests.insert(text.substr(at, kDigestLength));
  }
}

bool set(api::CompileCacheArchive& archive, const char* type, bool value, const char* reason,
         const std::string& message, const std::string& now) {
  return api::set_condition(
      archive.conditions,
      {.type = type, .status = value ? "True" : "False", .reason = reason, .message = message},
      now);
}

}  // namespace

std::set<std::string> distrusted_digests(const api::CompileCacheArchive& archive) {
  std::set<std::string> digests;
  add_digests(api::find_condition(archive.conditions, api::kSuspectCondition), digests);
  add_digests(api::find_condition(archive.conditions, api::kCorruptCondition), digests);
  return digests;
}

bool is_distrusted(const api::ArchiveHead& head, const std::set<std::string>& digests) {
  return digests.contains(head.manifest_digest) ||
         std::any_of(head.blobs.begin(), head.blobs.end(),
                     [&](const std::string& blob) { return digests.contains(blob); });
}

const api::ArchiveHead* usable_head(const api::CompileCacheArchive& archive) {
  const std::set<std::string> digests = distrusted_digests(archive);
  for (const api::ArchiveHead* head : {&archive.head, &archive.previous}) {
    if (head->exists() && !is_distrusted(*head, digests)) return head;
  }
  return nullptr;
}

bool mark_suspect(api::CompileCacheArchive& archive, const std::string& digest,
                  const std::string& reported_by, const std::string& now) {
  std::set<std::string> digests = distrusted_digests(archive);
  const bool ours =
      is_distrusted(archive.head, {digest}) || is_distrusted(archive.previous, {digest});
  if (digest.empty() || !ours || digests.contains(digest) || is_crashing(archive)) return false;
  // Earlier ones stay named, since all of them have to be checked.
  std::string named = digest;
  if (const api::Condition* earlier =
          api::find_condition(archive.conditions, api::kSuspectCondition)) {
    std::set<std::string> before;
    add_digests(earlier, before);
    for (const std::string& other : before) named += ", " + other;
  }
  return set(archive, api::kSuspectCondition, true, "LoadReportedCorruption",
             "pod " + reported_by + " found " + named +
                 " not to be what it was saved as; what contains it is not handed out until a "
                 "sweep has read it",
             now);
}

bool mark_crashing(api::CompileCacheArchive& archive, const std::string& manifest,
                   const std::vector<std::string>& pods, const std::string& now) {
  std::set<std::string> named = crashing_manifests(archive);
  if (is_suspect(archive) && named.empty()) return false;  // a sweep will read it first
  const bool ours =
      is_distrusted(archive.head, {manifest}) || is_distrusted(archive.previous, {manifest});
  if (!ours || !named.insert(manifest).second) return false;
  return set(archive, api::kSuspectCondition, true, api::kPodsCrashedReason,
             "pods crashed (" + join(pods, ", ") + ") that had loaded " +
                 join({named.begin(), named.end()}, ", ") +
                 ", and those of its key that started without it did not; it is handed out no more "
                 "until another one is saved; pods that go on crashing have to be replaced, as "
                 "what they loaded is in their directories",
             now);
}

std::set<std::string> crashing_manifests(const api::CompileCacheArchive& archive) {
  std::set<std::string> manifests;
  if (is_crashing(archive)) {
    add_digests(api::find_condition(archive.conditions, api::kSuspectCondition), manifests);
  }
  return manifests;
}

bool mark_acquitted(api::CompileCacheArchive& archive, const std::string& now) {
  if (!is_crashing(archive)) return false;
  return set(archive, api::kSuspectCondition, false, "CrashWithoutItToo",
             "pods crash that started without it as well", now);
}

bool mark_verified(api::CompileCacheArchive& archive, const std::string& manifest,
                   const std::string& now) {
  if (!is_suspect(archive) || is_crashing(archive)) return false;
  if (archive.head.manifest_digest != manifest && archive.previous.manifest_digest != manifest) {
    return false;
  }
  return set(archive, api::kSuspectCondition, false, "Verified",
             "a sweep has read it and found it whole", now);
}

bool mark_corrupt(api::CompileCacheArchive& archive, const std::string& manifest,
                  const std::string& now) {
  const bool is_head = archive.head.manifest_digest == manifest;
  if (!is_head && archive.previous.manifest_digest != manifest) return false;
  std::string named = manifest;
  for (const std::string& digest : distrusted_digests(archive)) {
    if (digest != manifest) named += ", " + digest;
  }
  set(archive, api::kSuspectCondition, false, "Corrupt", "see the condition Corrupt", now);
  set(archive, api::kCorruptCondition, true, "VerificationFailed",
      "a sweep has read it and found " + named +
          " corrupt; it is thrown away and the next cold pod saves anew",
      now);
  if (is_head) archive.head = archive.previous;
  archive.previous = {};
  return true;
}

void clear_distrust(api::CompileCacheArchive& archive, const std::string& now) {
  for (const char* type : {api::kSuspectCondition, api::kCorruptCondition}) {
    if (api::is_true(archive.conditions, type))
      set(archive, type, false, "SavedAnew", "a new archive was saved", now);
  }
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
