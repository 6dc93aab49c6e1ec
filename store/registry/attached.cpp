#include "store/registry/attached.hpp"

#include <nlohmann/json.hpp>

#include "archive/format.hpp"
#include "base/checked_json.hpp"
#include "base/log.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/text_source.hpp"

namespace compilecache::store {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostReferrers = 64;
// Of archives and of the owner's marker.
constexpr std::string_view kOurTypes = "application/vnd.compilecache.";

const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// Null: it cannot be read.
Json manifest_at(RegistryClient& client, const std::string& reference, std::string& digest) {
  const auto text = get_manifest(client, reference, Tries::kOne);
  if (!text) return nullptr;
  auto json = parse_json(*text, "what is attached to an archive");
  if (!json || !json->is_object()) return nullptr;
  digest = digest_of(*text);
  return std::move(*json);
}

// Whoever may push can give an archive any tag, and name it in any index.
bool is_ours(const Json& manifest) {
  return string_member(manifest, "artifactType").value_or("").starts_with(kOurTypes);
}

void remove(RegistryClient& client, const std::string& digest) {
  const auto deleted = delete_manifest(client, digest);
  if (deleted || deleted.error().status == 404) return;
  log_warn("what was attached to an archive that is gone stays in the registry",
           {{"digest", digest}, {"error", deleted.error().error.message}});
}

// What `index` names, where it says of itself that it is about `subject`.
void remove_referrers(RegistryClient& client, const Json& index, const std::string& subject) {
  const Json* named = member(index, "manifests");
  if (named == nullptr || !named->is_array()) return;
  size_t left = kMostReferrers;
  for (const Json& descriptor : *named) {
    const auto digest = string_member(descriptor, "digest");
    if (!digest || !archive::is_digest(*digest) || left-- == 0) return;
    std::string found;
    const Json manifest = manifest_at(client, *digest, found);
    const Json* about = manifest.is_object() ? member(manifest, "subject") : nullptr;
    if (about == nullptr || string_member(*about, "digest") != subject) continue;
    if (found == *digest && !is_ours(manifest)) remove(client, *digest);
  }
}

}  // namespace

std::vector<std::string> attached_tags(const std::string& digest) {
  const std::string tag = "sha256-" + digest.substr(digest.find(':') + 1);
  return {tag, tag + ".sig", tag + ".att", tag + ".sbom"};
}

void remove_attached(RegistryClient& client, const std::string& digest) {
  for (const std::string& tag : attached_tags(digest)) {
    std::string attached;
    const Json manifest = manifest_at(client, tag, attached);
    if (!manifest.is_object() || is_ours(manifest)) continue;
    remove_referrers(client, manifest, digest);
    remove(client, attached);
  }
}

}  // namespace compilecache::store
