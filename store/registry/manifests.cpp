#include "store/registry/manifests.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "archive/format.hpp"
#include "base/checked_json.hpp"
#include "base/hex.hpp"
#include "store/registry/blob_range.hpp"

namespace compilecache::store {
namespace {

// Without these a registry answers 404.
constexpr char kAccept[] =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json";
constexpr size_t kTagDigits = 12;

uint64_t number_of(std::string_view text) {
  uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() ? number : 0;
}

std::string doing_to(const char* what, const std::string& reference) {
  return std::string(what) + " manifest " + reference;
}

Reply<void> put_as(RegistryClient& client, const char* media_type, const std::string& reference,
                   const std::string& text) {
  auto put = client.send({.method = "PUT",
                          .target = "manifests/" + reference,
                          .headers = {{"Content-Type", media_type}},
                          .body = text,
                          .right = Right::kPush,
                          .doing = doing_to("pushing", reference)});
  if (!put) return tl::unexpected(put.error());
  finish(**put);
  return {};
}

}  // namespace

Result<ManifestFacts> manifest_facts(const std::string& text) {
  const auto json = parse_json(text, "the manifest");
  if (!json) return unexpected(json.error());
  if (!json->is_object()) return fail(ErrorCode::kInvalid, "the manifest is not a JSON object");
  ManifestFacts facts;
  facts.artifact_type = string_member(*json, "artifactType").value_or("");
  if (const auto annotations = json->find("annotations"); annotations != json->end()) {
    const auto generation = string_member(*annotations, archive::kAnnotationGeneration);
    facts.generation = number_of(generation.value_or(""));
  }
  const auto add = [&](const nlohmann::json& descriptor) {
    const auto digest = string_member(descriptor, "digest");
    if (digest && archive::is_digest(*digest))
      facts.blobs.emplace_back(*digest, number_member(descriptor, "size").value_or(0));
  };
  if (const auto config = json->find("config"); config != json->end()) add(*config);
  if (const auto layers = json->find("layers"); layers != json->end() && layers->is_array()) {
    for (const auto& layer : *layers) add(layer);
  }
  return facts;
}

std::string tag_of(uint64_t generation, const std::string& digest) {
  return "g" + std::to_string(generation) + "-" + digest.substr(digest.find(':') + 1, kTagDigits);
}

bool is_our_tag(const std::string& tag) {
  const size_t hyphen = tag.find('-');
  if (tag.size() < 2 || tag.front() != 'g' || hyphen == std::string::npos || hyphen < 2)
    return false;
  const std::string_view number = std::string_view(tag).substr(1, hyphen - 1);
  return number.find_first_not_of("0123456789") == std::string_view::npos &&
         is_hex(std::string_view(tag).substr(hyphen + 1), kTagDigits);
}

Reply<std::string> get_manifest(RegistryClient& client, const std::string& reference, Tries tries) {
  auto whole = client.send_whole({.target = "manifests/" + reference,
                                  .headers = {{"Accept", kAccept}},
                                  .once = tries == Tries::kOne,
                                  .doing = doing_to("reading", reference)},
                                 kMostManifestBytes);
  if (!whole) return tl::unexpected(whole.error());
  return std::move(whole->body);
}

Reply<ManifestHead> head_manifest(RegistryClient& client, const std::string& reference) {
  auto head = client.send({.method = "HEAD",
                           .target = "manifests/" + reference,
                           .headers = {{"Accept", kAccept}},
                           .doing = doing_to("looking for", reference)});
  if (!head) return tl::unexpected(head.error());
  ManifestHead found{content_length(**head).value_or(0),
                     std::string((*head)->header("Docker-Content-Digest").value_or(""))};
  finish(**head);
  return found;
}

Reply<void> put_manifest(RegistryClient& client, const std::string& reference,
                         const std::string& text) {
  return put_as(client, archive::kManifestMediaType, reference, text);
}

Reply<void> put_index(RegistryClient& client, const std::string& reference,
                      const std::string& text) {
  return put_as(client, kIndexMediaType, reference, text);
}

Reply<void> delete_manifest(RegistryClient& client, const std::string& digest) {
  auto deleted = client.send({.method = "DELETE",
                              .target = "manifests/" + digest,
                              .right = Right::kDelete,
                              .doing = doing_to("deleting", digest)});
  if (!deleted) return tl::unexpected(deleted.error());
  finish(**deleted);
  return {};
}

}  // namespace compilecache::store
