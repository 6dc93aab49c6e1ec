#include "store/registry/registry_upkeep.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "archive/blob_store.hpp"
#include "archive/format.hpp"
#include "base/checked_json.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "base/time_format.hpp"
#include "store/registry/attached.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/text_source.hpp"
#include "store/registry/upload.hpp"

namespace compilecache::store {
namespace {

using Json = nlohmann::json;

constexpr char kOwnerTag[] = "compilecache-owner";
constexpr char kOwnerType[] = "application/vnd.compilecache.owner.v1";
constexpr char kOwnerAnnotation[] = "dev.compilecache.owner.";
constexpr size_t kTagsInAPage = 1000;
constexpr size_t kMostPages = 100;
constexpr size_t kMostTagBytes = 1U << 20;

std::string owner_text(const StoreOwner& owner) {
  const std::string prefix = kOwnerAnnotation;
  const Json empty = {{"mediaType", kEmptyMediaType},
                      {"digest", digest_of(kEmpty)},
                      {"size", std::string_view(kEmpty).size()}};
  return Json{{"schemaVersion", 2},
              {"mediaType", archive::kManifestMediaType},
              {"artifactType", kOwnerType},
              {"config", empty},
              {"layers", {empty}},
              {"annotations",
               {{prefix + "cluster", owner.cluster},
                {prefix + "namespace", owner.ns},
                {prefix + "cache", owner.compile_cache}}}}
      .dump();
}

Result<StoreOwner> parse_owner(const std::string& text) {
  const std::string prefix = kOwnerAnnotation;
  const auto json = parse_json(text, "the owner's marker");
  if (json && json->is_object() && string_member(*json, "artifactType") == kOwnerType) {
    const Json& annotations = (*json)["annotations"];
    const auto cluster = string_member(annotations, (prefix + "cluster").c_str());
    const auto ns = string_member(annotations, (prefix + "namespace").c_str());
    const auto cache = string_member(annotations, (prefix + "cache").c_str());
    if (cluster && ns && cache) return StoreOwner{*cluster, *ns, *cache};
  }
  return fail(ErrorCode::kCorrupt, std::string("what has the tag ") + kOwnerTag +
                                       " is no marker of an owner: delete that tag");
}

// The tags of a page; "tags" is null where there are none.
Result<std::vector<std::string>> tags_in(const std::string& text) {
  const auto json = parse_json(text, "the list of tags", 4 * kTagsInAPage);
  if (!json || !json->is_object())
    return fail(ErrorCode::kUnavailable, "the list of tags cannot be read");
  std::vector<std::string> tags;
  const auto list = json->find("tags");
  if (list == json->end() || !list->is_array()) return tags;
  for (const auto& tag : *list) {
    if (tag.is_string()) tags.push_back(tag.get<std::string>());
  }
  return tags;
}

WallTime saved_at(const std::string& manifest) {
  const auto json = parse_json(manifest, "the manifest");
  if (!json || !json->is_object()) return {};
  const auto annotations = json->find("annotations");
  if (annotations == json->end()) return {};
  const auto text = string_member(*annotations, archive::kAnnotationSavedAt);
  return text ? parse_time(*text).value_or(WallTime{}) : WallTime{};
}

// What is kept by tags of ours, and what by others'.
class Inventory {
 public:
  explicit Inventory(RegistryClient& client) : client_(client) {}

  Status add(const std::string& tag) {
    if (!is_our_tag(tag)) return keep(tag);
    auto text = get_manifest(client_, tag);
    if (!text && text.error().status == 404) return {};  // deleted in the meantime
    if (!text) return unexpected(text.error().error);
    const auto facts = manifest_facts(*text);
    if (!facts || facts->artifact_type != archive::kArtifactType) return {};
    const WallTime modified = saved_at(*text);
    std::vector<StoredBlob> blobs{{digest_of(*text), text->size(), modified}};
    for (const auto& [digest, size] : facts->blobs) blobs.push_back({digest, size, modified});
    archives_[blobs.front().digest] = std::move(blobs);
    return {};
  }

  [[nodiscard]] std::vector<StoredBlob> blobs() const {
    std::map<std::string, StoredBlob> all;
    for (const auto& [manifest, blobs] : archives_) {
      for (const StoredBlob& blob : blobs) all.emplace(blob.digest, blob);
    }
    // What these need too stays with them.
    for (const std::string& manifest : kept_) {
      const auto archive = archives_.find(manifest);
      if (archive == archives_.end()) continue;
      for (const StoredBlob& blob : archive->second) all.erase(blob.digest);
    }
    std::vector<StoredBlob> sorted;
    sorted.reserve(all.size());
    for (auto& [digest, blob] : all) sorted.push_back(std::move(blob));
    return sorted;
  }

 private:
  Status keep(const std::string& tag) {
    auto head = head_manifest(client_, tag);
    if (!head && head.error().status == 404) return {};
    if (!head) return unexpected(head.error().error);
    kept_.insert(head->digest);
    return {};
  }

  RegistryClient& client_;
  std::map<std::string, std::vector<StoredBlob>> archives_;  // by manifest, which comes first
  std::set<std::string> kept_;
};

}  // namespace

Result<StoreOwner> RegistryUpkeep::owner() const {
  auto text = get_manifest(client_, kOwnerTag);
  if (!text) return unexpected(text.error().error);
  return parse_owner(*text);
}

Status RegistryUpkeep::write_owner(const StoreOwner& owner) {
  TextSource empty(kEmpty);
  if (auto pushed = push_blob(client_, digest_of(kEmpty), empty); !pushed) return pushed;
  if (auto put = put_manifest(client_, kOwnerTag, owner_text(owner)); !put)
    return unexpected(write_error(put.error()));
  return {};
}

Result<PreparedStore> RegistryUpkeep::prepare(const StoreOwner& owner, bool adopt) {
  PreparedStore prepared;
  const auto before = this->owner();
  if (before && *before == owner) return prepared;
  if (before && !adopt) {
    return fail(ErrorCode::kConflict,
                client_.name() + " belongs to the CompileCache " + before->compile_cache +
                    " of namespace " + before->ns + " of the cluster " + before->cluster +
                    ": choose another repository, or set spec.storage.adopt to take it over");
  }
  if (before) prepared.adopted_from = *before;
  if (!before && before.error().code != ErrorCode::kNotFound) return unexpected(before.error());
  prepared.created = !before;
  if (auto written = write_owner(owner); !written) return unexpected(written.error());
  return prepared;
}

Result<StoreProbe> RegistryUpkeep::probe() {
  if (auto tried = try_upload(client_); !tried) return unexpected(tried.error());
  StoreProbe probe;
  probe.now = client_.clock().wall();
  return probe;
}

Result<std::vector<std::string>> RegistryUpkeep::tags() const {
  std::vector<std::string> all;
  const std::string first = "tags/list?n=" + std::to_string(kTagsInAPage);
  std::string last;
  for (size_t page = 0; page < kMostPages; ++page) {
    auto whole = client_.send_whole(
        {.target = first + (last.empty() ? "" : "&last=" + last), .doing = "listing the tags"},
        kMostTagBytes);
    // Nothing was pushed yet.
    if (!whole && whole.error().status == 404) return all;
    if (!whole) return unexpected(whole.error().error);
    auto tags = tags_in(whole->body);
    if (!tags) return unexpected(tags.error().with("listing the tags of " + client_.name()));
    // Some send all at once, whatever is asked for.
    const bool more = http::find_header(whole->headers, "Link").has_value() && !tags->empty() &&
                      tags->back() != last;
    if (more) last = tags->back();
    std::move(tags->begin(), tags->end(), std::back_inserter(all));
    if (!more) return all;
  }
  return fail(ErrorCode::kTooLarge, client_.name() + " has more than " +
                                        std::to_string(kMostPages * kTagsInAPage) +
                                        " tags: delete some");
}

Result<std::vector<StoredBlob>> RegistryUpkeep::list() const {
  const auto all = tags();
  if (!all) return unexpected(all.error());
  Inventory inventory(client_);
  for (const std::string& tag : *all) {
    if (auto added = inventory.add(tag); !added) return unexpected(added.error());
  }
  return inventory.blobs();
}

Result<SweepCounts> RegistryUpkeep::remove_incomplete(std::chrono::milliseconds, WallTime) {
  return SweepCounts{};
}

Result<SweepCounts> RegistryUpkeep::remove(const std::vector<std::string>& digests) {
  for (const std::string& digest : digests) {
    if (auto good = archive::check_digest(digest); !good)
      return unexpected(good.error().with("deleting archives; nothing was deleted"));
  }
  SweepCounts counts;
  for (const std::string& digest : digests) {
    // Asked first, as 2.8 answers to the DELETE of what is no manifest, such as a condemned blob,
    // that it was done. Whatever it answers when asked for one, it is not to be deleted.
    const auto manifest = get_manifest(client_, digest, Tries::kOne);
    const auto facts = manifest ? manifest_facts(*manifest) : Result<ManifestFacts>();
    if (!manifest || !facts || facts->artifact_type != archive::kArtifactType) {
      ++counts.missing;
      continue;
    }
    const auto deleted = delete_manifest(client_, digest);
    if (deleted) {
      remove_attached(client_, digest);
      ++counts.removed;
      counts.freed_bytes += manifest->size();
      continue;
    }
    const Refusal& refusal = deleted.error();
    if (refusal.status == 404) {
      ++counts.missing;
    } else if (refusal.status >= 400 && refusal.status < 500 && refusal.status != 429) {
      log_warn(
          "the registry does not let archives be deleted, so they stay; delete them there, or "
          "let it expire what is old",
          {{"error", refusal.error.message}});
      return counts;
    } else {
      counts.failures.push_back(refusal.error.message);
    }
  }
  return counts;
}

}  // namespace compilecache::store
