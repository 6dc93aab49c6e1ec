#include "archive/oci/oci_image.hpp"

#include <zstd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "archive/format.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {
namespace {

using Json = nlohmann::json;

constexpr const char* kImageConfigMediaType = "application/vnd.oci.image.config.v1+json";
// The digest of the archive that an image was made of.
constexpr const char* kAnnotationArchive = "dev.compilecache.archive";
constexpr size_t kPieceBytes = 256U << 10;

Descriptor describe_text(const char* media_type, const std::string& text) {
  return {media_type, "sha256:" + sha256_hex(text), text.size()};
}

Json blob_json(const Descriptor& blob) {
  return {{"mediaType", blob.media_type}, {"digest", blob.digest}, {"size", blob.size}};
}

// The digest of the uncompressed tar in a layer, which images call its diff_id.
Result<std::string> plain_digest(const BlobStore& store, const Descriptor& layer) {
  auto blob = store.open(layer);
  if (!blob) return unexpected(blob.error());
  (*blob)->expect_sequential_reads();
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     &ZSTD_freeDCtx);
  std::vector<uint8_t> compressed(kPieceBytes);
  std::vector<uint8_t> plain(kPieceBytes);
  Sha256 hash;
  for (uint64_t offset = 0;; offset += compressed.size()) {
    auto count = (*blob)->read_at(compressed, offset);
    if (!count) return unexpected(count.error());
    ZSTD_inBuffer input{compressed.data(), *count, 0};
    ZSTD_outBuffer output{plain.data(), plain.size(), plain.size()};
    while (input.pos < input.size || output.pos == output.size) {
      output.pos = 0;
      const size_t hint = ZSTD_decompressStream(context.get(), &output, &input);
      if (ZSTD_isError(hint) != 0) {
        return fail(ErrorCode::kCorrupt, "layer " + layer.digest + " in " + store.describe() +
                                             ": " + ZSTD_getErrorName(hint));
      }
      hash.update(std::span(plain).first(output.pos));
    }
    if (*count < compressed.size()) return "sha256:" + hash.finish_hex();
  }
}

}  // namespace

Result<OciImage> make_oci_image(const BlobStore& store, const Manifest& layers,
                                const Annotations& annotations, const std::string& made_of,
                                const std::string& architecture) {
  Json diff_ids = Json::array();
  Json blobs = Json::array();
  for (const Descriptor& layer : layers.layers) {
    auto digest = plain_digest(store, layer);
    if (!digest) return unexpected(digest.error());
    diff_ids.push_back(*digest);
    blobs.push_back(blob_json(layer));
  }
  OciImage image;
  image.config = Json{{"architecture", architecture},
                      {"os", "linux"},
                      {"config", Json::object()},
                      {"rootfs", {{"type", "layers"}, {"diff_ids", std::move(diff_ids)}}}}
                     .dump();
  image.config_blob = describe_text(kImageConfigMediaType, image.config);
  Annotations noted = annotations;
  noted[kAnnotationArchive] = made_of;
  image.manifest = Json{
      {"schemaVersion", 2},
      {"mediaType", kManifestMediaType},
      {"config", blob_json(image.config_blob)},
      {"layers", std::move(blobs)},
      {"annotations",
       noted}}.dump();
  image.manifest_blob = describe_text(kManifestMediaType, image.manifest);
  return image;
}

}  // namespace compilecache::archive
