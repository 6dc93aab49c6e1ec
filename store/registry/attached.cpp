#include "store/registry/attached.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
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

// A pusher can name any number; each takes a request.
constexpr size_t kMostReferrers = 1000;
constexpr size_t kMostIndexBytes = kMostManifestBytes;
// Of a list of so many bytes, which is some 20,000 manifests.
constexpr size_t kMostJsonValues = 200'000;
// Of archives and of the owner's marker.
constexpr std::string_view kOurTypes = "application/vnd.compilecache.";

std::string index_tag(const std::string& digest) {
  return "sha256-" + digest.substr(digest.find(':') + 1);
}

// An index's descriptors; none of what is another kind of manifest.
Result<Json> descriptors_in(const std::string& index) {
  const auto json =
      parse_json(index, "the list of what is attached to an archive", kMostJsonValues);
  if (!json) return unexpected(json.error());
  const auto list = json->is_object() ? json->find("manifests") : json->end();
  return list == json->end() || !list->is_array() ? Json::array() : *list;
}

struct Named {
  std::string digest;
  bool may_sign = false;  // by what is said of it
};

bool may_sign(const Json& descriptor) {
  const std::string type = string_member(descriptor, "artifactType").value_or("");
  return type.starts_with("application/vnd.dev.sigstore.") ||
         type.starts_with("application/vnd.dev.cosign.");
}

// Adds the manifests that an index names.
Status add_named(const std::string& index, std::vector<Named>& all) {
  const auto descriptors = descriptors_in(index);
  if (!descriptors) return unexpected(descriptors.error());
  for (const Json& descriptor : *descriptors) {
    const auto digest = string_member(descriptor, "digest");
    if (digest && archive::is_digest(*digest)) all.push_back({*digest, may_sign(descriptor)});
  }
  return {};
}

// The manifest's referrers, by the registry; nothing where it does not know that question.
Result<std::vector<Named>> told_referrers(RegistryClient& client, const std::string& digest) {
  const auto told = client.send_whole(
      {.target = "referrers/" + digest, .doing = "asking what refers to " + digest},
      kMostIndexBytes);
  std::vector<Named> named;
  if (!told) {
    const int status = told.error().status;
    if (status < 400 || status >= 500 || status == 429) return unexpected(told.error().error);
    return named;
  }
  if (auto added = add_named(told->body, named); !added) return unexpected(added.error());
  return named;
}

// The same by the index that their pusher keeps, as clients do where the registry does not
// know that question, or did not when they pushed.
Result<std::vector<Named>> indexed_referrers(RegistryClient& client, const std::string& digest) {
  const auto index = attached_at(client, index_tag(digest));
  if (!index) return unexpected(index.error());
  std::vector<Named> named;
  if (!*index) return named;
  if (auto added = add_named((*index)->manifest, named); !added) return unexpected(added.error());
  return named;
}

// Those that may be signatures first, each once.
std::vector<std::string> in_order(const std::vector<Named>& named) {
  std::vector<std::string> digests;
  std::set<std::string> known;
  for (const bool signs : {true, false}) {
    for (const Named& one : named) {
      if (one.may_sign == signs && known.insert(one.digest).second) digests.push_back(one.digest);
    }
  }
  if (digests.size() > kMostReferrers) digests.resize(kMostReferrers);
  return digests;
}

// A pusher can name any manifest in any index.
bool is_about(const std::string& manifest, const std::string& digest) {
  const auto json = parse_json(manifest, "what is attached to an archive", kMostJsonValues);
  if (!json || !json->is_object()) return false;
  const auto subject = json->find("subject");
  return subject != json->end() && string_member(*subject, "digest") == digest;
}

// An index's entry of a manifest.
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
  auto descriptors = *index ? descriptors_in((*index)->manifest) : Result<Json>(Json::array());
  if (!descriptors) return unexpected(descriptors.error());
  const std::string digest = digest_of(manifest);
  for (const Json& one : *descriptors) {
    if (string_member(one, "digest") == digest) return {};
  }
  descriptors->push_back(described(manifest));
  const Json whole = {
      {"schemaVersion", 2}, {"mediaType", kIndexMediaType}, {"manifests", std::move(*descriptors)}};
  if (auto put = put_index(client, index_tag(subject), whole.dump()); !put)
    return unexpected(write_error(put.error()));
  return {};
}

void remove(RegistryClient& client, const std::string& digest) {
  const auto deleted = delete_manifest(client, digest);
  if (deleted || deleted.error().status == 404) return;
  log_warn("the attachment of a deleted archive stays in the registry",
           {{"digest", digest}, {"error", deleted.error().error.message}});
}

}  // namespace

std::string signature_tag(const std::string& digest) { return index_tag(digest) + ".sig"; }

Result<std::optional<Attached>> attached_at(RegistryClient& client, const std::string& reference) {
  auto text = get_manifest(client, reference);
  if (!text && text.error().status == 404) return std::nullopt;
  if (!text && text.error().error.code == ErrorCode::kTooLarge) return std::nullopt;
  if (!text) return unexpected(text.error().error);
  const auto json = parse_json(*text, "what is attached to an archive", kMostJsonValues);
  if (!json || !json->is_object()) return std::nullopt;
  if (string_member(*json, "artifactType").value_or("").starts_with(kOurTypes)) return std::nullopt;
  Attached found{digest_of(*text), std::move(*text)};
  if (archive::is_digest(reference) && found.digest != reference) return std::nullopt;
  return found;
}

Referrers referrers_of(RegistryClient& client, const std::string& digest) {
  Referrers referrers;
  const auto note = [&](const Error& error) {
    if (!referrers.unread) referrers.unread = error;
  };
  std::vector<Named> named;
  for (const auto ask : {told_referrers, indexed_referrers}) {
    const auto some = ask(client, digest);
    if (!some) note(some.error());
    if (some) named.insert(named.end(), some->begin(), some->end());
  }
  for (const std::string& one : in_order(named)) {
    auto found = attached_at(client, one);
    if (!found) {
      note(found.error());
    } else if (*found && is_about((*found)->manifest, digest)) {
      referrers.found.push_back(std::move(**found));
    }
  }
  return referrers;
}

Status attach(RegistryClient& client, const std::string& subject, const std::string& manifest) {
  const std::string digest = digest_of(manifest);
  if (auto put = put_manifest(client, digest, manifest); !put)
    return unexpected(write_error(put.error()));
  const auto told = told_referrers(client, subject);
  if (!told) return unexpected(told.error());
  const auto is_it = [&](const Named& one) { return one.digest == digest; };
  if (std::any_of(told->begin(), told->end(), is_it)) return {};
  return add_to_index(client, subject, manifest);
}

void remove_attached(RegistryClient& client, const std::string& digest) {
  const Referrers referrers = referrers_of(client, digest);
  if (referrers.unread) {
    log_warn("the attachments of a deleted archive stay in the registry",
             {{"archive", digest}, {"error", referrers.unread->message}});
  }
  for (const Attached& one : referrers.found) remove(client, one.digest);
  for (const char* kind : {".sig", ".att", ".sbom", ""}) {
    const auto found = attached_at(client, index_tag(digest) + kind);
    if (found && *found) remove(client, (*found)->digest);
  }
}

}  // namespace compilecache::store
