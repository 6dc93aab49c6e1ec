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
// All answers together, which hold 200,000 tags of archives.
constexpr size_t kMostTagBytes = 4U << 20;
// Where more tags cannot be read the whole registry is amiss.
constexpr size_t kMostUnreadable = 32;

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
  const bool is_marker = json && string_member(*json, "artifactType") == kOwnerType;
  if (is_marker && json->contains("annotations")) {
    const Json& annotations = json->at("annotations");
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
  const auto json = parse_json(text, "the list of tags", text.size());  // bounded by its bytes
  const bool readable = json && json->is_object() && json->contains("tags");
  if (readable && json->at("tags").is_null()) return std::vector<std::string>();
  if (!readable || !json->at("tags").is_array())
    return fail(ErrorCode::kUnavailable, "what the registry sent is no list of tags");
  std::vector<std::string> tags;
  for (const auto& tag : json->at("tags")) {
    if (!tag.is_string())
      return fail(ErrorCode::kUnavailable, "the registry's list of tags has something else");
    tags.push_back(tag.get<std::string>());
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

// The blobs kept by tags of archives, and those kept by others.
class Inventory {
 public:
  explicit Inventory(RegistryClient& client) : client_(client) {}

  Status add(const std::string& tag) {
    if (!is_our_tag(tag)) return keep(tag);
    const auto text = get_manifest(client_, tag);
    if (!text) return leave_out(tag, text.error());
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
    for (const auto& [manifest, blobs] : archives_) {
      if (!keeps_all_ && !kept_.contains(manifest)) continue;
      for (const StoredBlob& blob : blobs) all.at(blob.digest).kept = true;
    }
    std::vector<StoredBlob> sorted;
    sorted.reserve(all.size());
    for (auto& [digest, blob] : all) sorted.push_back(std::move(blob));
    return sorted;
  }

 private:
  Status keep(const std::string& tag) {
    const auto head = head_manifest(client_, tag);
    if (!head) return leave_out(tag, head.error());
    std::string digest = head->digest;
    if (!archive::is_digest(digest)) {
      const auto text = get_manifest(client_, tag);
      if (!text) return leave_out(tag, text.error());
      digest = digest_of(*text);
    }
    kept_.insert(std::move(digest));
    return {};
  }

  // A manifest that is known to be missing, or too large for an archive, keeps nothing. A tag that
  // the registry itself cannot read keeps what it names: an archive, which is then not listed, or
  // anything else.
  Status leave_out(const std::string& tag, const Refusal& refusal) {
    if (refusal.status == 404) return {};
    const bool too_large = refusal.error.code == ErrorCode::kTooLarge;
    const bool damaged = refusal.status == 500 && ++unreadable_ <= kMostUnreadable;
    if (!too_large && !damaged) return unexpected(refusal.error);
    keeps_all_ |= damaged && !is_our_tag(tag);
    log_warn(!damaged ? "a tag looks like an archive's, but names none"
             : is_our_tag(tag)
                 ? "a tag cannot be read, so what it names stays; repair or delete it"
                 : "a tag cannot be read, so no archive is deleted; repair or delete it",
             {{"repository", client_.name()}, {"tag", tag}, {"error", refusal.error.message}});
    return {};
  }

  RegistryClient& client_;
  std::map<std::string, std::vector<StoredBlob>> archives_;  // by manifest, which comes first
  std::set<std::string> kept_;
  bool keeps_all_ = false;  // nobody knows which
  size_t unreadable_ = 0;
};

// Archives that the registry keeps, as Harbor does those with an immutable tag; others may go.
class Refused {
 public:
  void add(const Refusal& refusal) {
    if (count_++ == 0) first_ = refusal.error.message;
  }
  void tell(SweepCounts& counts) const {
    if (count_ == 0) return;
    counts.failures.push_back("the registry does not let " + std::to_string(count_) +
                              " archives be deleted, so they stay; the first: " + first_);
  }

 private:
  size_t count_ = 0;
  std::string first_;
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
  const std::string doing = "listing the tags of " + client_.name();
  std::vector<std::string> all;
  size_t room = kMostTagBytes;
  for (std::string last;;) {
    const std::string target = "tags/list?n=" + std::to_string(kTagsInAPage);
    auto page = client_.send_whole(
        {.target = last.empty() ? target : target + "&last=" + last, .doing = "listing the tags"},
        room);
    if (!page && page.error().error.code == ErrorCode::kTooLarge)
      return fail(ErrorCode::kTooLarge, doing + ": they take more than " +
                                            std::to_string(kMostTagBytes) +
                                            " bytes: delete those that nobody needs");
    // Nothing was pushed yet.
    if (!page && page.error().status == 404 && all.empty()) return all;
    if (!page) return unexpected(page.error().error);
    auto tags = tags_in(page->body);
    if (!tags) return unexpected(tags.error().with(doing));
    room -= page->body.size();
    // Some send all at once, whatever is asked for.
    const bool more = http::find_header(page->headers, "Link").has_value() && !tags->empty();
    if (more && tags->back() == last)
      return fail(ErrorCode::kUnavailable, doing + ": the registry sends the same page again");
    if (more) last = tags->back();
    std::move(tags->begin(), tags->end(), std::back_inserter(all));
    if (!more) return all;
  }
}

// Proxies answer 404 to what they do not know, and lists may lag: what has an owner has at least
// the owner's tag.
Result<std::vector<std::string>> RegistryUpkeep::all_tags() const {
  auto all = tags();
  if (!all || std::find(all->begin(), all->end(), kOwnerTag) != all->end()) return all;
  const auto marker = owner();
  if (!marker && marker.error().code == ErrorCode::kNotFound) return all;
  if (!marker && marker.error().code != ErrorCode::kCorrupt) return unexpected(marker.error());
  return fail(ErrorCode::kUnavailable,
              "listing the tags of " + client_.name() + ": the list lacks " + kOwnerTag +
                  ", which is there, so it is not whole; see the registry's own log");
}

Result<std::vector<StoredBlob>> RegistryUpkeep::list() const {
  const auto all = all_tags();
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
  std::map<std::string, uint64_t> named;  // by what is deleted
  Refused refused;
  for (const std::string& digest : digests) {
    // Asked first, as 2.8 answers to the DELETE of what is no manifest, such as a condemned blob,
    // that it was done. If it answers otherwise, it is not to be deleted.
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
      named.insert(facts->blobs.begin(), facts->blobs.end());
      continue;
    }
    const Refusal& refusal = deleted.error();
    if (refusal.status == 404) {
      ++counts.missing;
    } else if (refusal.status == 405) {  // it lets nobody delete anything
      log_warn(
          "the registry does not let archives be deleted, so they stay; delete them there, or "
          "let it expire what is old",
          {{"error", refusal.error.message}});
      break;
    } else if (refusal.may_pass()) {
      counts.failures.push_back(refusal.error.message);
    } else {
      refused.add(refusal);
    }
  }
  counts.freed_bytes += unnamed_bytes(std::move(named));
  refused.tell(counts);
  return counts;
}

// How many bytes of these blobs no manifest names any more. A manifest that cannot be read protects
// nothing here: then the number is too large, and the registry is collected a little early.
uint64_t RegistryUpkeep::unnamed_bytes(std::map<std::string, uint64_t> blobs) const {
  if (blobs.empty()) return 0;
  const auto remaining = tags();
  for (const std::string& tag : remaining.value_or(std::vector<std::string>())) {
    const auto manifest = get_manifest(client_, tag);
    const auto facts = manifest ? manifest_facts(*manifest) : Result<ManifestFacts>();
    if (!facts) continue;
    for (const auto& [digest, size] : facts->blobs) blobs.erase(digest);
  }
  uint64_t bytes = 0;
  for (const auto& [digest, size] : blobs) bytes += size;
  return bytes;
}

}  // namespace compilecache::store
