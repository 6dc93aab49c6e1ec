#include "operator/archives/save_rules.hpp"

#include <algorithm>
#include <charconv>

#include "operator/archives/archive_trust.hpp"
#include "operator/archives/digest.hpp"

namespace compilecache::controller {
namespace {

// A manifest has at most a handful of layers; this only keeps the object small.
constexpr size_t kMaxBlobs = 1'000;

// Its directory holds what others are kept from. The pod's own word counts too: a new leader
// does not know what pods loaded.
bool holds_crashing(const SaveContext& context, const api::CompileCacheArchive& archive,
                    const std::vector<std::string>& held) {
  std::set<std::string> crashing = crashing_manifests(archive);
  crashing.insert(context.crashing.begin(), context.crashing.end());
  return crashing.contains(context.loaded_manifest) ||
         std::any_of(held.begin(), held.end(),
                     [&](const std::string& manifest) { return crashing.contains(manifest); });
}

// Writers of the files in the pod's directory, besides the pod itself. The pod's own word
// counts beside what is known, as above.
std::set<std::string> loaded_accounts(const SaveContext& context, const std::string& said) {
  std::set<std::string> accounts;
  for (const std::string& manifest : {context.loaded_manifest, said}) {
    const auto found = context.savers.find(manifest);
    if (found != context.savers.end()) {
      accounts.insert(found->second.begin(), found->second.end());
    }
  }
  return accounts;
}

bool may_save(const SaveContext& context, const std::string& account) {
  const auto& allowed = context.save.allowed_service_accounts;
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), account) != allowed.end();
}

// The tag was moved to another image since the head was saved; what is in it may be dead.
bool image_moved(const SaveContext& context, const api::ArchiveHead& head) {
  return context.key.contains(api::kImagePart) && !head.image_id.empty() &&
         !context.image_id.empty() && head.image_id != context.image_id;
}

}  // namespace

Result<SaveId> parse_save_id(std::string_view id) {
  const size_t dot = id.rfind('.');
  SaveId parsed;
  if (dot != std::string_view::npos && dot > 0 && id.find('/') == std::string_view::npos) {
    parsed.archive = std::string(id.substr(0, dot));
    const char* end = id.data() + id.size();
    const auto [stop, error] = std::from_chars(id.data() + dot + 1, end, parsed.fence);
    if (error == std::errc() && stop == end && parsed.fence > 0) return parsed;
  }
  return fail(
      ErrorCode::kInvalid,
      "reading the id of a save: it is not of the form <archive>.<fence>; use the id that the "
      "operator answered with");
}

std::string holder_uid(const api::SaveLock& lock) {
  return lock.holder.substr(0, lock.holder.find('/'));
}

Status check_commit_request(const api::CommitRequest& request) {
  const auto refuse = [](const std::string& what) {
    return fail(ErrorCode::kInvalid, "committing a save: " + what + "; this is a bug of the saver");
  };
  if (!is_digest(request.manifest_digest)) return refuse("manifestDigest is no SHA-256 digest");
  if (request.blobs.size() > kMaxBlobs)
    return refuse("there are more blobs than an archive can have");
  for (const std::string& blob : request.blobs) {
    if (!is_digest(blob)) return refuse("one of the blobs is no SHA-256 digest");
  }
  if (request.compressed_bytes < 0 || request.plain_bytes < 0 || request.files < 0 ||
      request.layers < 0 || request.left_out < 0 || !(request.compile_seconds >= 0)) {
    return refuse("a size is negative");
  }
  return {};
}

namespace {

// What others saved is worth extending.
bool head_stands(const SaveContext& context, const api::CompileCacheArchive& archive) {
  return archive.head.exists() && !image_moved(context, archive.head) &&
         !is_distrusted(archive.head, distrusted_digests(archive)) &&
         api::saved_by_allowed(archive.head, context.save.allowed_service_accounts);
}

}  // namespace

bool extends_head(const SaveContext& context, const api::SaveRequest& request,
                  const api::CompileCacheArchive& archive) {
  return !request.refresh && head_stands(context, archive);
}

std::set<std::string> blobs_to_write_anew(const api::CompileCacheArchive& archive) {
  std::set<std::string> anew = distrusted_digests(archive);
  if (is_distrusted(archive.head, anew)) {
    anew.insert(archive.head.blobs.begin(), archive.head.blobs.end());
  }
  return anew;
}

std::set<std::string> blobs_to_write_anew(const SaveContext& context,
                                          const api::CompileCacheArchive& archive) {
  std::set<std::string> anew = blobs_to_write_anew(archive);
  anew.insert(context.distrusted.begin(), context.distrusted.end());
  return anew;
}

std::string unfit(const SaveContext& context, const api::CommitRequest& request,
                  const api::CompileCacheArchive& archive,
                  const std::set<std::string>& written_anew) {
  const std::set<std::string> distrusted = distrusted_digests(archive);
  if (!request.parent_digest.empty() && is_distrusted(archive.head, distrusted)) {
    return "the head it extends is suspect or corrupt now";
  }
  if (!request.parent_digest.empty() &&
      !api::saved_by_allowed(archive.head, context.save.allowed_service_accounts)) {
    return "the head it extends holds files of a service account that may not save";
  }
  if (request.parent_digest.empty() && !context.refresh && head_stands(context, archive)) {
    return "it does not extend the head, which is whole";
  }
  if (holds_crashing(context, archive, {request.loaded_digest, request.manifest_digest})) {
    return "it holds what makes pods crash";
  }
  std::vector<std::string> named = request.blobs;
  named.push_back(request.manifest_digest);
  for (const std::string& blob : named) {
    const bool doubtful = distrusted.contains(blob) || context.distrusted.contains(blob);
    if (doubtful && !written_anew.contains(blob)) {
      return "blob " + blob + " is suspect or corrupt now";
    }
  }
  return "";
}

// Grows with every commit, also over heads that were deleted because they were corrupt: a copy
// of them in the volume's index must never look newer. The fence has grown past all of those
// generations.
int64_t next_generation(const api::CompileCacheArchive& archive) {
  if (api::find_condition(archive.conditions, api::kCorruptCondition) != nullptr) {
    return archive.lock.fence;
  }
  return std::max(archive.head.generation, archive.previous.generation) + 1;
}

// Why there will be no save at all, or "".
std::string refusal(const SaveContext& context) {
  if (context.save.policy == api::SavePolicy::kNever) return "policy_never";
  return may_save(context, context.service_account) ? "" : "service_account_not_allowed";
}

// The same once the archive is known.
std::string refusal(const SaveContext& context, const api::SaveRequest& request,
                    const api::CompileCacheArchive& archive) {
  if (holds_crashing(context, archive, {request.loaded_digest, request.have_digest})) {
    return "loaded_suspect";
  }
  const std::set<std::string> loaded = loaded_accounts(context, request.loaded_digest);
  if (!std::all_of(loaded.begin(), loaded.end(),
                   [&](const auto& account) { return may_save(context, account); })) {
    return "loaded_not_allowed";
  }
  const auto& allowed = context.save.allowed_service_accounts;
  const api::ArchiveHead* head = usable_head(archive, allowed);
  if (head == nullptr || request.refresh) return "";
  if (context.save.policy == api::SavePolicy::kOnce) return "saved_once";
  if (request.new_files == 0 && request.have_digest == archive.head.manifest_digest &&
      api::saved_by_allowed(archive.head, allowed)) {
    return "already_current";
  }
  return "";
}

// The earlier commit of this same save, when the answer was lost.
const api::ArchiveHead* already_committed(const SaveContext& context,
                                          const api::CompileCacheArchive& archive, int64_t fence,
                                          const api::CommitRequest& request) {
  const bool may_have =
      archive.lock.fence > fence || (archive.lock.fence == fence && archive.lock.holder.empty());
  if (!may_have) return nullptr;
  for (const api::ArchiveHead* head : {&archive.head, &archive.previous}) {
    if (head->manifest_digest == request.manifest_digest && head->saved_by == context.pod) {
      return head;
    }
  }
  return nullptr;
}

namespace {

// Whose files the new head may hold, besides its saver's.
std::vector<std::string> earlier_accounts(const SaveContext& context,
                                          const api::CommitRequest& request,
                                          const api::ArchiveHead& parent) {
  std::set<std::string> accounts = loaded_accounts(context, request.loaded_digest);
  if (!request.parent_digest.empty()) {
    accounts.insert(parent.service_account);
    accounts.insert(parent.earlier_accounts.begin(), parent.earlier_accounts.end());
  }
  accounts.erase("");
  accounts.erase(context.service_account);
  if (accounts.size() > api::kMostAccounts || accounts.contains(api::kManyAccounts)) {
    return {api::kManyAccounts};
  }
  return {accounts.begin(), accounts.end()};
}

}  // namespace

// Lock and head in one: what the compare-and-swap writes.
void put_head(const SaveContext& context, const api::CommitRequest& request, const std::string& now,
              api::CompileCacheArchive& archive) {
  const std::set<std::string> distrusted = distrusted_digests(archive);
  api::ArchiveHead head;
  head.generation = next_generation(archive);
  head.manifest_digest = request.manifest_digest;
  head.compressed_bytes = request.compressed_bytes;
  head.plain_bytes = request.plain_bytes;
  head.files = request.files;
  head.layers = request.layers;
  head.compile_seconds = request.compile_seconds;
  head.left_out = request.left_out;
  if (!request.parent_digest.empty()) {
    // On top of what it loaded or saved itself; a pod that started cold compiled it all once more.
    const bool on_top = context.loaded_head || archive.head.saved_by == context.pod;
    const double before = archive.head.compile_seconds;
    head.compile_seconds =
        on_top ? before + request.compile_seconds : std::max(before, request.compile_seconds);
  }
  head.saved_at = now;
  head.saved_by = context.pod;
  head.image_id = context.image_id;
  head.service_account = context.service_account;
  head.workload = context.workload;
  head.earlier_accounts = earlier_accounts(context, request, archive.head);
  head.blobs = request.blobs;
  if (std::find(head.blobs.begin(), head.blobs.end(), head.manifest_digest) == head.blobs.end()) {
    head.blobs.push_back(head.manifest_digest);
  }
  if (archive.head.exists() && !is_distrusted(archive.head, distrusted)) {
    archive.previous = archive.head;
  } else if (is_distrusted(archive.previous, distrusted)) {
    archive.previous = {};
  }
  archive.head = std::move(head);
  archive.last_used_time = now;
  archive.lock.holder.clear();
  archive.lock.pod.clear();
  archive.lock.acquired_at.clear();
  clear_distrust(archive, now);
}

}  // namespace compilecache::controller
