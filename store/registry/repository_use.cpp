#include "store/registry/repository_use.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "archive/blob_store.hpp"
#include "archive/format.hpp"
#include "base/checked_json.hpp"
#include "base/sha256.hpp"
#include "base/time_format.hpp"
#include "store/registry/blob_reader.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/reference.hpp"
#include "store/registry/registry_upkeep.hpp"
#include "store/registry/text_source.hpp"
#include "store/registry/upload.hpp"

namespace compilecache::store {
namespace {

using Json = nlohmann::json;

constexpr char kMarkTag[] = "compilecache-unneeded";
constexpr char kMarkType[] = "application/vnd.compilecache.unneeded.v1";
constexpr char kMarkAnnotation[] = "dev.compilecache.unneeded-since";
constexpr size_t kRepositoriesInAPage = 1000;
constexpr size_t kMostRepositories = 200'000;
constexpr size_t kMostPageBytes = 1U << 20;
constexpr size_t kMostManifests = 20'000;  // of one repository

// An answer that says that this is damaged or gone, and not that the registry cannot answer now.
bool is_damaged(const Refusal& refusal) { return refusal.status == 404 || refusal.status == 500; }

std::vector<std::string> children_of(const std::string& manifest) {
  std::vector<std::string> digests;
  const auto json = parse_json(manifest, "the manifest");
  if (!json || !json->is_object()) return digests;
  const auto list = json->find("manifests");
  if (list == json->end() || !list->is_array()) return digests;
  for (const auto& child : *list) {
    const auto digest = string_member(child, "digest");
    if (digest && archive::is_digest(*digest)) digests.push_back(*digest);
  }
  return digests;
}

std::optional<WallTime> marked_time(const std::string& manifest) {
  const auto json = parse_json(manifest, "the mark of an unneeded repository");
  if (!json || !json->is_object() || string_member(*json, "artifactType") != kMarkType)
    return std::nullopt;
  const auto annotations = json->find("annotations");
  if (annotations == json->end()) return std::nullopt;
  const auto time = parse_time(string_member(*annotations, kMarkAnnotation).value_or(""));
  return time ? std::optional(*time) : std::nullopt;
}

// Distinct manifests and blobs that tags reach, with their real sizes.
class Contents {
 public:
  explicit Contents(RegistryClient& client) : client_(client) {}

  // False: what the tag names cannot be read.
  Result<bool> add(const std::string& tag) {
    std::vector<std::string> left{tag};
    while (!left.empty()) {
      const std::string reference = std::move(left.back());
      left.pop_back();
      const auto text = get_manifest(client_, reference, Tries::kOne);
      if (!text && is_damaged(text.error())) return false;
      if (!text) return unexpected(text.error().error);
      if (!manifests_.insert(digest_of(*text)).second) continue;
      if (manifests_.size() > kMostManifests) {
        return fail(ErrorCode::kTooLarge, client_.name() + " has more than " +
                                              std::to_string(kMostManifests) + " manifests");
      }
      bytes_ += text->size();
      if (auto added = add_blobs(*text); !added) return unexpected(added.error());
      for (std::string& child : children_of(*text)) left.push_back(std::move(child));
    }
    return true;
  }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  Status add_blobs(const std::string& manifest) {
    const auto facts = manifest_facts(manifest);
    if (!facts) return {};
    for (const auto& [digest, stated] : facts->blobs) {
      if (!blobs_.insert(digest).second) continue;
      const auto size = registry_blob_size(client_, digest);
      if (!size && size.error().code != ErrorCode::kNotFound) return unexpected(size.error());
      bytes_ += size.value_or(0);
    }
    return {};
  }

  RegistryClient& client_;
  std::set<std::string> manifests_, blobs_;
  uint64_t bytes_ = 0;
};

Result<std::vector<std::string>> repositories_in(const std::string& text) {
  const auto json = parse_json(text, "the list of repositories", 4 * kRepositoriesInAPage);
  if (!json || !json->is_object() || !json->contains("repositories"))
    return fail(ErrorCode::kUnavailable, "the list of repositories cannot be read");
  const Json& list = json->at("repositories");
  std::vector<std::string> names;
  for (const auto& name : list) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> list_repositories(RegistryClient& client) {
  const RegistryOptions& options = client.options();
  const std::string first = (options.plain_http ? "http://" : "https://") + api_host(options.host) +
                            "/v2/_catalog?n=" + std::to_string(kRepositoriesInAPage);
  std::vector<std::string> all;
  while (all.size() <= kMostRepositories) {
    const auto whole = client.send_whole({.url = first + (all.empty() ? "" : "&last=" + all.back()),
                                          .doing = "listing the repositories"},
                                         kMostPageBytes);
    if (!whole) return unexpected(whole.error().error);
    auto page = repositories_in(whole->body);
    if (!page) return unexpected(page.error().with("listing the repositories of " + options.host));
    const bool more = http::find_header(whole->headers, "Link").has_value() && !page->empty() &&
                      (all.empty() || page->back() != all.back());
    std::move(page->begin(), page->end(), std::back_inserter(all));
    if (!more) return all;
  }
  return fail(ErrorCode::kTooLarge, options.host + " has more than " +
                                        std::to_string(kMostRepositories) + " repositories");
}

Result<RepositoryUse> read_use(RegistryClient& client, const RepositoryUse* known) {
  const auto tags = RegistryUpkeep(client).tags();
  if (!tags) return unexpected(tags.error());
  RepositoryUse use;
  std::string listed;
  for (const std::string& tag : *tags) {
    if (tag != kMarkTag) ++use.tags;
    listed += tag + "\n";
  }
  use.state = sha256_hex(listed);
  if (known != nullptr && known->state == use.state) return *known;
  Contents contents(client);
  for (const std::string& tag : *tags) {
    if (tag == kMarkTag) {
      const auto mark = get_manifest(client, tag, Tries::kOne);
      if (mark) use.unneeded_since = marked_time(*mark);
      if (!mark && !is_damaged(mark.error())) return unexpected(mark.error().error);
      continue;
    }
    const auto readable = contents.add(tag);
    if (!readable) return unexpected(readable.error());
    if (!*readable) use.unreadable.push_back(tag);
  }
  use.bytes = contents.bytes();
  if (use.unreadable.empty()) return use;
  // Some may have been deleted while we read.
  const auto later = RegistryUpkeep(client).tags();
  if (!later) return unexpected(later.error());
  const std::set<std::string> there(later->begin(), later->end());
  std::erase_if(use.unreadable, [&](const auto& tag) { return !there.contains(tag); });
  return use;
}

Status mark_unneeded(RegistryClient& client, WallTime since) {
  TextSource empty(kEmpty);
  if (auto pushed = push_blob(client, digest_of(kEmpty), empty); !pushed) return pushed;
  const Json descriptor = {{"mediaType", kEmptyMediaType},
                           {"digest", digest_of(kEmpty)},
                           {"size", std::string_view(kEmpty).size()}};
  const std::string text =
      Json{{"schemaVersion", 2},        {"mediaType", archive::kManifestMediaType},
           {"artifactType", kMarkType}, {"config", descriptor},
           {"layers", {descriptor}},    {"annotations", {{kMarkAnnotation, format_time(since)}}}}
          .dump();
  if (auto put = put_manifest(client, kMarkTag, text); !put)
    return unexpected(write_error(put.error()));
  return {};
}

namespace {

// With the manifest that it names, where that can be read; else the tag alone.
Status delete_tag(RegistryClient& client, const std::string& tag) {
  const auto text = get_manifest(client, tag, Tries::kOne);
  if (!text && !is_damaged(text.error())) return unexpected(text.error().error);
  const auto deleted = delete_manifest(client, text ? digest_of(*text) : tag);
  if (deleted || deleted.error().status == 404) return {};
  return unexpected(deleted.error().error);
}

}  // namespace

Status mark_needed(RegistryClient& client) { return delete_tag(client, kMarkTag); }

// Distribution does not untag what it deletes while another tag cannot be read, so another look is
// needed. The mark goes last: what is left when this is cut short is not kept for another while.
Result<size_t> empty_repository(RegistryClient& client) {
  constexpr int kLooks = 3;
  size_t deleted = 0;
  Status all;
  for (int look = 0; look < kLooks; ++look) {
    auto tags = RegistryUpkeep(client).tags();
    if (!tags) return unexpected(tags.error());
    if (tags->empty()) return deleted;
    std::stable_partition(tags->begin(), tags->end(),
                          [](const std::string& tag) { return tag != kMarkTag; });
    all = {};
    for (const std::string& tag : *tags) {
      if (tag == kMarkTag && !all) break;
      const Status done = delete_tag(client, tag);
      if (done) ++deleted;
      if (!done && all) all = unexpected(done.error());
    }
  }
  if (!all) return unexpected(all.error());
  return deleted;
}

Result<SavedContent> find_save(RegistryClient& client, const std::string& manifest) {
  if (auto good = archive::check_digest(manifest); !good) return unexpected(good.error());
  const auto text = get_manifest(client, manifest, Tries::kOne);
  if (!text) return unexpected(text.error().error.about(manifest));
  if (digest_of(*text) != manifest) {
    return fail(ErrorCode::kCorrupt,
                "what is in " + client.name() + " as " + manifest + " has another digest");
  }
  const auto facts = manifest_facts(*text);
  if (!facts) return unexpected(facts.error());
  SavedContent saved;
  std::map<std::string, uint64_t> sizes;
  for (const auto& [digest, stated] : facts->blobs) {
    if (sizes.contains(digest)) continue;
    const auto size = registry_blob_size(client, digest);
    if (!size) return unexpected(size.error().about(digest));
    sizes[digest] = *size;
  }
  sizes.erase(manifest);
  saved.blobs.assign(sizes.begin(), sizes.end());
  saved.blobs.emplace_back(manifest, text->size());
  for (const auto& [digest, size] : saved.blobs) saved.bytes += size;
  return saved;
}

}  // namespace compilecache::store
