#include "store/registry/attached.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "archive/format.hpp"
#include "base/checked_json.hpp"
#include "base/log.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/text_source.hpp"
#include "store/registry/upload.hpp"

namespace compilecache::store {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostReferrers = 64;
constexpr size_t kMostIndexBytes = 1U << 20;
// Of archives and of the owner's marker.
constexpr std::string_view kOurTypes = "application/vnd.compilecache.";

std::string index_tag(const std::string& digest) {
  return "sha256-" + digest.substr(digest.find(':') + 1);
}

// An index's descriptors; none of what is no index.
Json descriptors_in(const std::string& index) {
  const auto json = parse_json(index, "the list of what is attached to an archive");
  if (!json || !json->is_object()) return Json::array();
  const auto list = json->find("manifests");
  return list == json->end() || !list->is_array() ? Json::array() : *list;
}

// The manifests that an index names.
std::vector<std::string> named_in(const std::string& index) {
  std::vector<std::string> digests;
  for (const Json& descriptor : descriptors_in(index)) {
    const auto digest = string_member(descriptor, "digest");
    if (!digest || !archive::is_digest(*digest)) continue;
    if (digests.size() == kMostReferrers) break;
    digests.push_back(*digest);
  }
  return digests;
}

// What the registry says refers to the manifest; nothing where it does not know that question.
Result<std::vector<std::string>> told_referrers(RegistryClient& client, const std::string& digest) {
  const auto told = client.send_whole(
      {.target = "referrers/" + digest, .doing = "asking what refers to " + digest},
      kMostIndexBytes);
  if (told) return named_in(told->body);
  const int status = told.error().status;
  if (status < 400 || status >= 500 || status == 429) return unexpected(told.error().error);
  return std::vector<std::string>();
}

// Those that refer to the manifest, as the registry or whoever pushed them says.
Result<std::vector<std::string>> named_referrers(RegistryClient& client,
                                                 const std::string& digest) {
  auto told = told_referrers(client, digest);
  if (!told || !told->empty()) return told;
  const auto index = attached_at(client, index_tag(digest));
  if (!index) return unexpected(index.error());
  return *index ? named_in((*index)->manifest) : std::vector<std::string>();
}

// Whoever may push can name any manifest in any index.
bool is_about(const std::string& manifest, const std::string& digest) {
  const auto json = parse_json(manifest, "what is attached to an archive");
  if (!json) return false;
  const auto subject = json->find("subject");
  return subject != json->end() && string_member(*subject, "digest") == digest;
}

// What an index says of a manifest.
Json described(const std::string& manifest) {
  Json descriptor = {{"mediaType", archive::kManifestMediaType},
                     {"digest", digest_of(manifest)},
                     {"size", manifest.size()}};
  const Json json = Json::parse(manifest);
  for (const char* told : {"artifactType", "annotations"}) {
    if (json.contains(told)) descriptor[told] = json.at(told);
  }
  return descriptor;
}

Status add_to_index(RegistryClient& client, const std::string& subject,
                    const std::string& manifest) {
  const auto index = attached_at(client, index_tag(subject));
  if (!index) return unexpected(index.error());
  Json descriptors = *index ? descriptors_in((*index)->manifest) : Json::array();
  const std::string digest = digest_of(manifest);
  for (const Json& one : descriptors) {
    if (string_member(one, "digest") == digest) return {};
  }
  descriptors.push_back(described(manifest));
  const Json whole = {
      {"schemaVersion", 2}, {"mediaType", kIndexMediaType}, {"manifests", descriptors}};
  if (auto put = put_index(client, index_tag(subject), whole.dump()); !put)
    return unexpected(write_error(put.error()));
  return {};
}

void remove(RegistryClient& client, const std::string& digest) {
  const auto deleted = delete_manifest(client, digest);
  if (deleted || deleted.error().status == 404) return;
  log_warn("what was attached to an archive that is gone stays in the registry",
           {{"digest", digest}, {"error", deleted.error().error.message}});
}

}  // namespace

std::string signature_tag(const std::string& digest) { return index_tag(digest) + ".sig"; }

Result<std::optional<Attached>> attached_at(RegistryClient& client, const std::string& reference) {
  auto text = get_manifest(client, reference);
  if (!text && text.error().status == 404) return std::nullopt;
  if (!text) return unexpected(text.error().error);
  const auto json = parse_json(*text, "what is attached to an archive");
  if (!json || !json->is_object()) return std::nullopt;
  if (string_member(*json, "artifactType").value_or("").starts_with(kOurTypes)) return std::nullopt;
  Attached found{digest_of(*text), std::move(*text)};
  if (archive::is_digest(reference) && found.digest != reference) return std::nullopt;
  return found;
}

Result<std::vector<Attached>> referrers_of(RegistryClient& client, const std::string& digest) {
  const auto named = named_referrers(client, digest);
  if (!named) return unexpected(named.error());
  std::vector<Attached> referrers;
  for (const std::string& one : *named) {
    auto found = attached_at(client, one);
    if (!found) return unexpected(found.error());
    if (*found && is_about((*found)->manifest, digest)) referrers.push_back(std::move(**found));
  }
  return referrers;
}

Status attach(RegistryClient& client, const std::string& subject, const std::string& manifest) {
  const std::string digest = digest_of(manifest);
  if (auto put = put_manifest(client, digest, manifest); !put)
    return unexpected(write_error(put.error()));
  const auto told = told_referrers(client, subject);
  if (!told) return unexpected(told.error());
  if (std::find(told->begin(), told->end(), digest) != told->end()) return {};
  return add_to_index(client, subject, manifest);
}

void remove_attached(RegistryClient& client, const std::string& digest) {
  const auto referrers = referrers_of(client, digest);
  if (!referrers) {
    log_warn("what is attached to an archive that is gone stays in the registry",
             {{"archive", digest}, {"error", referrers.error().message}});
    return;
  }
  for (const Attached& one : *referrers) remove(client, one.digest);
  for (const char* kind : {".sig", ".att", ".sbom", ""}) {
    const auto found = attached_at(client, index_tag(digest) + kind);
    if (found && *found) remove(client, (*found)->digest);
  }
}

}  // namespace compilecache::store
