#include "store/registry/registry_signatures.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "archive/format.hpp"
#include "base/base64.hpp"
#include "base/checked_json.hpp"
#include "store/registry/attached.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/text_source.hpp"
#include "store/registry/upload.hpp"

namespace compilecache::store {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostSignatures = 1000;
// Of a manifest with that many layers.
constexpr size_t kMostLayerValues = 200'000;
constexpr char kSimpleLayer[] = "application/vnd.dev.cosign.simplesigning.v1+json";
constexpr char kSimpleAnnotation[] = "dev.cosignproject.cosign/signature";
constexpr char kBundleLayer[] = "application/vnd.dev.sigstore.bundle.v0.3+json";
constexpr char kImageConfig[] = "application/vnd.oci.image.config.v1+json";
// By which cosign 3 tells a signature from an attestation before it reads it.
constexpr char kContentAnnotation[] = "dev.sigstore.bundle.content";
constexpr char kPredicateAnnotation[] = "dev.sigstore.bundle.predicateType";

// The layers of a manifest; none of what is none.
Json layers_of(const std::string& manifest) {
  const auto json = parse_json(manifest, "what stands beside an archive", kMostLayerValues);
  if (!json || !json->is_object()) return Json::array();
  const auto layers = json->find("layers");
  return layers == json->end() || !layers->is_array() ? Json::array() : *layers;
}

// The blob of a layer; nothing where it is another's, is missing, or is wrong.
Result<std::optional<std::string>> small_blob(RegistryClient& client, const Json& layer) {
  const auto digest = string_member(layer, "digest");
  if (!digest || !archive::is_digest(*digest)) return std::nullopt;
  auto whole =
      client.send_whole({.target = "blobs/" + *digest, .doing = "reading a signature, " + *digest},
                        kMostSignatureBytes);
  if (!whole && whole.error().status == 404) return std::nullopt;
  if (!whole && whole.error().error.code == ErrorCode::kTooLarge) return std::nullopt;
  if (!whole) return unexpected(whole.error().error);
  if (digest_of(whole->body) != *digest) return std::nullopt;
  return std::move(whole->body);
}

// The signature that a layer holds; nothing where it holds none.
std::optional<Signature> read_layer(const Json& layer, const std::string& blob) {
  if (string_member(layer, "mediaType") == kBundleLayer) {
    auto signature = bundle_signature(blob);
    return signature ? std::optional(std::move(*signature)) : std::nullopt;
  }
  const auto annotations = layer.find("annotations");
  if (annotations == layer.end()) return std::nullopt;
  auto signature =
      simple_signature(blob, string_member(*annotations, kSimpleAnnotation).value_or(""));
  if (!signature) return std::nullopt;
  for (const auto& [name, text] : annotations->items()) {
    if (name != kSimpleAnnotation && text.is_string()) signature->annotations[name] = text;
  }
  return std::move(*signature);
}

// Adds those in the layers of `manifest`. One that cannot be read hides no other.
void add_layers(RegistryClient& client, const std::string& manifest, FoundSignatures& found) {
  for (const Json& layer : layers_of(manifest)) {
    const auto type = string_member(layer, "mediaType");
    if (type != kSimpleLayer && type != kBundleLayer) continue;
    if (found.all.size() == kMostSignatures) break;
    const auto blob = small_blob(client, layer);
    if (!blob) {
      if (!found.unread) found.unread = blob.error();
    } else if (*blob) {
      if (auto signature = read_layer(layer, **blob)) found.all.push_back(std::move(*signature));
    }
  }
}

// Bytes that the manifest of a signature needs as its config, for tools that take it for an image.
std::string config_for(const Json& layers) {
  Json digests = Json::array();
  for (const Json& layer : layers) digests.push_back(string_member(layer, "digest").value_or(""));
  return Json{{"architecture", ""},
              {"os", ""},
              {"config", Json::object()},
              {"rootfs", {{"type", "layers"}, {"diff_ids", digests}}}}
      .dump();
}

Json descriptor(const char* type, const std::string& bytes) {
  return {{"mediaType", type}, {"digest", digest_of(bytes)}, {"size", bytes.size()}};
}

Status push(RegistryClient& client, const std::string& bytes) {
  TextSource source(bytes);
  return push_blob(client, digest_of(bytes), source);
}

}  // namespace

FoundSignatures RegistrySignatures::of(const std::string& manifest) {
  FoundSignatures found;
  const auto simple = attached_at(client_, signature_tag(manifest));
  if (!simple) found.unread = simple.error();
  if (simple && *simple) add_layers(client_, (*simple)->manifest, found);
  const Referrers referrers = referrers_of(client_, manifest);
  if (!found.unread) found.unread = referrers.unread;
  for (const Attached& one : referrers.found) add_layers(client_, one.manifest, found);
  return found;
}

Status RegistrySignatures::add(const Signature& signature) {
  auto added = signature.bundle.empty() ? add_simple(signature) : add_bundle(signature);
  return added ? added : unexpected(added.error().with("signing " + signature.subject));
}

Status RegistrySignatures::add_simple(const Signature& signature) {
  const std::string tag = signature_tag(signature.subject);
  const auto there = attached_at(client_, tag);
  if (!there) return unexpected(there.error());
  Json layers = *there ? layers_of((*there)->manifest) : Json::array();
  Json layer = descriptor(kSimpleLayer, signature.message);
  layer["annotations"] = signature.annotations;
  layer["annotations"][kSimpleAnnotation] = base64_encode(signature.signature);
  layers.push_back(layer);
  const std::string config = config_for(layers);
  for (const std::string& blob : {signature.message, config}) {
    if (auto pushed = push(client_, blob); !pushed) return pushed;
  }
  const Json manifest = {{"schemaVersion", 2},
                         {"mediaType", archive::kManifestMediaType},
                         {"config", descriptor(kImageConfig, config)},
                         {"layers", layers}};
  if (auto put = put_manifest(client_, tag, manifest.dump()); !put)
    return unexpected(write_error(put.error()));
  return {};
}

Status RegistrySignatures::add_bundle(const Signature& signature) {
  const auto subject = get_manifest(client_, signature.subject);
  if (!subject) return unexpected(subject.error().error);
  for (const std::string& blob : {signature.bundle, std::string(kEmpty)}) {
    if (auto pushed = push(client_, blob); !pushed) return pushed;
  }
  const Json manifest = {
      {"schemaVersion", 2},
      {"mediaType", archive::kManifestMediaType},
      {"artifactType", kBundleLayer},
      {"config", descriptor(kEmptyMediaType, kEmpty)},
      {"layers", Json::array({descriptor(kBundleLayer, signature.bundle)})},
      {"subject",
       {{"mediaType", archive::kManifestMediaType},
        {"digest", signature.subject},
        {"size", subject->size()}}},
      {"annotations",
       {{kContentAnnotation, "dsse-envelope"}, {kPredicateAnnotation, kSignPredicate}}}};
  return attach(client_, signature.subject, manifest.dump());
}

}  // namespace compilecache::store
