#include "archive/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "archive/encode.hpp"
#include "base/base64.hpp"
#include "base/checked_json.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {
namespace {

using Json = nlohmann::json;

Json descriptor_json(const Descriptor& descriptor) {
  Json json = {{"mediaType", descriptor.media_type},
               {"digest", descriptor.digest},
               {"size", descriptor.size}};
  if (!descriptor.data.empty()) json["data"] = base64_encode(descriptor.data);
  return json;
}

// The manifest's part of the blob; empty if it does not match the descriptor: the blob
// itself may be right.
std::string carried_data(const Json& json, const Descriptor& descriptor) {
  const auto text = string_member(json, "data");
  auto data = text ? base64_decode(*text) : std::nullopt;
  const bool good =
      data && data->size() == descriptor.size && "sha256:" + sha256_hex(*data) == descriptor.digest;
  return good ? std::move(*data) : "";
}

Result<Descriptor> parse_descriptor(const Json& json, const char* media_type) {
  const auto type = string_member(json, "mediaType");
  const auto digest = string_member(json, "digest");
  const auto size = number_member(json, "size");
  if (!type || *type != media_type) {
    return fail(ErrorCode::kInvalid, "a blob of type " + type.value_or("(none)") +
                                         " where this program knows " + media_type +
                                         ": another release wrote it");
  }
  if (!digest || !is_digest(*digest) || !size || *size > INT64_MAX)
    return fail(ErrorCode::kCorrupt, "a descriptor without usable digest and size");
  Descriptor descriptor{*type, *digest, *size};
  descriptor.data = carried_data(json, descriptor);
  return descriptor;
}

Result<Manifest> parse_manifest(const std::string& text) {
  auto json = parse_json(text, "the manifest");
  if (!json) return unexpected(json.error());
  const auto artifact_type = string_member(*json, "artifactType");
  if (number_member(*json, "schemaVersion") != 2 || !artifact_type ||
      *artifact_type != kArtifactType) {
    return fail(ErrorCode::kInvalid, "not an archive that this program knows: artifactType is " +
                                         artifact_type.value_or("(none)") + ", known is " +
                                         kArtifactType);
  }
  Manifest manifest;
  auto config = parse_descriptor((*json)["config"], kConfigMediaType);
  if (!config) return unexpected(config.error());
  manifest.config = std::move(*config);
  const Json& layers = (*json)["layers"];
  if (!layers.is_array() || layers.size() > kMaxLayers)
    return fail(ErrorCode::kCorrupt, "no list of at most four layers");
  for (const Json& layer : layers) {
    auto descriptor = parse_descriptor(layer, kLayerMediaType);
    if (!descriptor) return unexpected(descriptor.error());
    manifest.layers.push_back(std::move(*descriptor));
  }
  const Json& annotations = (*json)["annotations"];
  for (const auto& [key, value] : annotations.items()) {
    if (value.is_string()) manifest.annotations[key] = value.get<std::string>();
  }
  return manifest;
}

// Ten days. Half of a larger, forged number would be no useful bound for a load.
constexpr double kLongestCompile = 10 * 86'400;

}  // namespace

double compile_seconds(const Annotations& annotations) {
  const auto found = annotations.find(kAnnotationCompileSeconds);
  if (found == annotations.end()) return 0;
  const std::string& text = found->second;
  double seconds = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool good = problem == std::errc() && end == text.data() + text.size() && seconds > 0 &&
                    seconds <= kLongestCompile;
  return good ? seconds : 0;
}

void Manifest::forget_data() {
  config.data.clear();
  for (Descriptor& layer : layers) layer.data.clear();
}

const FileEntry* Config::find(std::string_view path) const {
  const auto found = std::lower_bound(
      files.begin(), files.end(), path,
      [](const FileEntry& file, std::string_view wanted) { return file.path < wanted; });
  return found != files.end() && found->path == path ? &*found : nullptr;
}

uint64_t Config::plain_bytes() const {
  uint64_t sum = 0;
  for (const FileEntry& file : files) sum += file.size;
  return sum;
}

std::vector<std::string> ArchiveInfo::blobs() const {
  std::vector<std::string> digests;
  if (manifest.empty()) return digests;
  digests = {manifest, config};
  digests.insert(digests.end(), layers.begin(), layers.end());
  return digests;
}

ArchiveInfo describe(const Manifest& manifest, const Config& config) {
  ArchiveInfo info;
  info.manifest = manifest.digest;
  info.manifest_bytes = manifest.size;
  info.config = manifest.config.digest;
  info.compressed_bytes = manifest.size + manifest.config.size;
  for (const Descriptor& layer : manifest.layers) {
    info.layers.push_back(layer.digest);
    info.compressed_bytes += layer.size;
  }
  info.plain_bytes = config.plain_bytes();
  info.files = config.files.size();
  return info;
}

std::string encode_manifest(const Manifest& manifest) {
  Json layers = Json::array();
  for (const Descriptor& layer : manifest.layers) layers.push_back(descriptor_json(layer));
  const Json json = {{"schemaVersion", 2},
                     {"mediaType", kManifestMediaType},
                     {"artifactType", kArtifactType},
                     {"config", descriptor_json(manifest.config)},
                     {"layers", std::move(layers)},
                     {"annotations", manifest.annotations}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Manifest> read_manifest(const BlobStore& store, const std::string& digest,
                               const Limits& limits) {
  const std::string context = "manifest " + digest.substr(0, 100) + " in " + store.describe();
  auto text = read_blob(store, {kManifestMediaType, digest, 0}, limits.max_manifest_bytes);
  if (!text) return unexpected(text.error().with(context));
  auto manifest = parse_manifest(*text);
  if (!manifest) return unexpected(manifest.error().with(context).about(digest));
  manifest->digest = digest;
  manifest->size = text->size();
  return manifest;
}

Result<Config> read_config(const BlobStore& store, const Manifest& manifest, const Limits& limits) {
  const std::string context = "config " + manifest.config.digest + " in " + store.describe();
  const auto unusable = [&](const Error& why) {
    return unexpected(why.with(context).about(manifest.config.digest));
  };
  if (manifest.config.size > limits.max_config_plain_bytes)
    return unusable({ErrorCode::kTooLarge, "it is larger than accepted"});
  auto content = manifest.config.data.empty()
                     ? read_blob(store, manifest.config, limits.max_config_plain_bytes)
                     : manifest.config.data;
  if (!content) return unusable(content.error());
  if (content->size() != manifest.config.size)
    return unusable({ErrorCode::kCorrupt, "the manifest gives another size"});
  auto config = decode_config(*content, limits);
  if (!config) return unusable(config.error());
  if (config->layers.size() != manifest.layers.size())
    return unusable({ErrorCode::kCorrupt, "the manifest has another number of layers"});
  return config;
}

}  // namespace compilecache::archive
