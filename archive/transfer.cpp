#include "archive/transfer.hpp"

#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "archive/extract.hpp"
#include "archive/index.hpp"
#include "archive/oci_archive.hpp"
#include "archive/store.hpp"
#include "archive/write.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {
namespace {

using Json = nlohmann::json;

constexpr const char* kImageConfigMediaType = "application/vnd.oci.image.config.v1+json";
// The archive that an image was made of.
constexpr const char* kAnnotationArchive = "dev.compilecache.archive";
constexpr size_t kChunkBytes = 256U << 10;

std::string name_of(const Annotations& annotations) {
  const auto found = annotations.find(kAnnotationName);
  return found == annotations.end() ? "" : found->second;
}

std::string index_json(const Descriptor& manifest, const std::string& name,
                       const char* artifact_type) {
  Json entry = {{"mediaType", manifest.media_type},
                {"digest", manifest.digest},
                {"size", manifest.size},
                {"annotations", {{kAnnotationName, name}}}};
  if (artifact_type != nullptr) entry["artifactType"] = artifact_type;
  return Json{{"schemaVersion", 2}, {"mediaType", kIndexMediaType}, {"manifests", {entry}}}.dump();
}

Status add_blobs(OciArchiveWriter& out, const std::string& store,
                 const std::vector<Descriptor>& blobs) {
  for (auto blob = blobs.begin(); blob != blobs.end(); ++blob) {
    const auto same = [&](const Descriptor& other) { return other.digest == blob->digest; };
    if (std::any_of(blobs.begin(), blob, same)) continue;
    if (auto added = out.add_blob(store, *blob); !added) return added;
  }
  return {};
}

Status add_text(OciArchiveWriter& out, const Descriptor& blob, const std::string& text) {
  return out.add("blobs/sha256/" + blob.digest.substr(7), text);
}

Descriptor describe_text(const char* media_type, const std::string& text) {
  return {media_type, "sha256:" + sha256_hex(text), text.size()};
}

Status begin_layout(OciArchiveWriter& out, const std::string& index) {
  if (auto added = out.add("oci-layout", R"({"imageLayoutVersion":"1.0.0"})"); !added) return added;
  return out.add("index.json", index);
}

// A folder beside the output, gone with all that is in it at the end.
class WorkFolder {
 public:
  static Result<WorkFolder> create(const std::string& beside) {
    std::error_code failed;
    const auto path = std::filesystem::absolute(beside, failed);
    // A store is made in it, behind no links.
    const auto folder = std::filesystem::weakly_canonical(path.parent_path(), failed);
    std::string pattern = (folder / path.filename()).string() + ".XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr)
      return unexpected(local_error("creating a folder beside " + beside, errno));
    return WorkFolder(std::move(pattern));
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  WorkFolder& operator=(WorkFolder&&) = delete;

  [[nodiscard]] std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The archive written anew as a single layer in `into`, a store of its own: layers stacked as they
// are would lack what only the config says, copies of files in earlier layers.
Result<Manifest> rewrite_as_one_layer(const std::string& store, const std::string& digest,
                                      const Config& config, const std::string& files,
                                      const std::string& into) {
  ExtractOptions extraction;
  extraction.roots = {{"", files}};
  if (auto extracted = extract(store, digest, extraction); !extracted)
    return unexpected(extracted.error());
  if (auto prepared = prepare_store(into, {}, false); !prepared)
    return unexpected(prepared.error());
  WriteRequest request;
  request.settings.max_archive_bytes = request.settings.limits.max_plain_bytes;
  for (const FileEntry& file : config.files)
    request.files.push_back({files + "/" + file.path, file.path});
  auto written = write_archive(into, std::move(request));
  if (!written) return unexpected(written.error());
  if (!written->left_out.empty()) {
    const LeftOut& file = written->left_out.front();
    const bool too_large = file.reason == LeftOutReason::kTooLarge;
    return fail(too_large ? ErrorCode::kTooLarge : ErrorCode::kInternal,
                "packing again: " + file.detail);
  }
  return read_manifest(into, written->archive.manifest);
}

// Of the tar in a layer: what images call its diff_id.
Result<std::string> plain_digest(const std::string& store, const std::string& layer) {
  const std::string path = blob_path(store, layer);
  auto file = open_regular(path);
  if (!file) return unexpected(file.error());
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     &ZSTD_freeDCtx);
  std::vector<uint8_t> compressed(kChunkBytes);
  std::vector<uint8_t> plain(kChunkBytes);
  Sha256 hash;
  for (;;) {
    auto count = read_full(file->fd.get(), compressed, path);
    if (!count) return unexpected(count.error());
    ZSTD_inBuffer input{compressed.data(), *count, 0};
    ZSTD_outBuffer output{plain.data(), plain.size(), plain.size()};
    while (input.pos < input.size || output.pos == output.size) {
      output.pos = 0;
      const size_t hint = ZSTD_decompressStream(context.get(), &output, &input);
      if (ZSTD_isError(hint) != 0)
        return fail(ErrorCode::kCorrupt, path + ": " + ZSTD_getErrorName(hint));
      hash.update(std::span(plain).first(output.pos));
    }
    if (*count < compressed.size()) return "sha256:" + hash.finish_hex();
  }
}

Result<ExportReport> export_image(const std::string& store, const Manifest& archive,
                                  const std::string& path, const ExportOptions& options,
                                  OciArchiveWriter& out) {
  auto config = read_config(store, archive);
  if (!config) return unexpected(config.error());
  auto folder = WorkFolder::create(path);
  if (!folder) return unexpected(folder.error());
  const std::string packed = *folder / "store";
  auto whole = rewrite_as_one_layer(store, archive.digest, *config, *folder / "files", packed);
  if (!whole) return unexpected(whole.error());

  Json diff_ids = Json::array();
  Json layers = Json::array();
  for (const Descriptor& layer : whole->layers) {
    auto digest = plain_digest(packed, layer.digest);
    if (!digest) return unexpected(digest.error());
    diff_ids.push_back(*digest);
    layers.push_back(
        {{"mediaType", layer.media_type}, {"digest", layer.digest}, {"size", layer.size}});
  }
  const std::string image_config =
      Json{{"architecture", options.architecture},
           {"os", "linux"},
           {"config", Json::object()},
           {"rootfs", {{"type", "layers"}, {"diff_ids", std::move(diff_ids)}}}}
          .dump();
  const Descriptor described = describe_text(kImageConfigMediaType, image_config);
  Annotations annotations = archive.annotations;
  annotations[kAnnotationArchive] = archive.digest;
  const std::string manifest = Json{
      {"schemaVersion", 2},
      {"mediaType", kManifestMediaType},
      {"config",
       {{"mediaType", described.media_type},
        {"digest", described.digest},
        {"size", described.size}}},
      {"layers", std::move(layers)},
      {"annotations", annotations}}.dump();
  const Descriptor image = describe_text(kManifestMediaType, manifest);
  if (auto begun = begin_layout(out, index_json(image, options.name, nullptr)); !begun)
    return unexpected(begun.error());
  if (auto added = add_text(out, image, manifest); !added) return unexpected(added.error());
  if (auto added = add_text(out, described, image_config); !added) return unexpected(added.error());
  if (auto added = add_blobs(out, packed, whole->layers); !added) return unexpected(added.error());
  return ExportReport{image.digest, options.name, 0};
}

Result<ExportReport> export_artifact(const std::string& store, const Manifest& archive,
                                     const ExportOptions& options, OciArchiveWriter& out) {
  const Descriptor manifest{kManifestMediaType, archive.digest, archive.size};
  if (auto begun = begin_layout(out, index_json(manifest, options.name, kArtifactType)); !begun)
    return unexpected(begun.error());
  std::vector<Descriptor> blobs{manifest, archive.config};
  blobs.insert(blobs.end(), archive.layers.begin(), archive.layers.end());
  if (auto added = add_blobs(out, store, blobs); !added) return unexpected(added.error());
  return ExportReport{archive.digest, options.name, 0};
}

// The one archive among what the file's index names.
Result<UnpackedOciArchive::Entry> only_entry(const UnpackedOciArchive& unpacked) {
  if (unpacked.entries.size() == 1) return unpacked.entries.front();
  return fail(ErrorCode::kInvalid,
              "its index.json names " + std::to_string(unpacked.entries.size()) +
                  " manifests where one archive is wanted; export or copy that one alone");
}

}  // namespace

Result<ExportReport> export_archive(const std::string& store, const std::string& manifest_digest,
                                    const std::string& path, const ExportOptions& given) {
  const std::string context = "exporting " + manifest_digest + " to " + path;
  auto archive = read_manifest(store, manifest_digest);
  if (!archive) return unexpected(archive.error().with(context));
  ExportOptions options = given;
  if (options.name.empty()) options.name = name_of(archive->annotations);
  if (options.name.empty()) options.name = "archive";
  auto out = OciArchiveWriter::create(path);
  if (!out) return unexpected(out.error().with(context));
  auto report = options.image ? export_image(store, *archive, path, options, *out)
                              : export_artifact(store, *archive, options, *out);
  if (!report) return unexpected(report.error().with(context));
  if (auto finished = out->finish(); !finished) return unexpected(finished.error().with(context));
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) report->bytes = static_cast<uint64_t>(info.st_size);
  return report;
}

Result<ImportReport> import_archive(const std::string& store, const std::string& path,
                                    const ImportOptions& options) {
  const std::string context = "importing " + path + " into " + store;
  auto unpacked = unpack_oci_archive(path, store);
  if (!unpacked) return unexpected(unpacked.error().with(context));
  auto entry = only_entry(*unpacked);
  if (!entry) return unexpected(entry.error().with(context));
  auto manifest = read_manifest(store, entry->digest);
  if (!manifest) return unexpected(manifest.error().with(context));
  auto whole = verify(store, entry->digest);
  if (!whole) return unexpected(whole.error().with(context));

  IndexEntry added{entry->digest, manifest->size, manifest->annotations};
  std::string name = options.name.empty() ? added.name() : options.name;
  if (name.empty()) name = entry->name;
  if (name.empty())
    return fail(ErrorCode::kInvalid, context + ": it has no name; give one with --name");
  added.annotations[kAnnotationName] = name;
  if (added.generation() == 0) added.annotations[kAnnotationGeneration] = "1";
  ImportReport report{std::move(*whole), name, added.generation(), false};
  for (const IndexEntry& other : read_index(store).entries) {
    if (other.name() != name) continue;
    if (other.digest == added.digest) {
      report.existed = true;
      return report;
    }
    if (other.generation() >= added.generation())
      return fail(ErrorCode::kConflict, context + ": the store has generation " +
                                            std::to_string(other.generation()) + " of " + name +
                                            ", this is " + std::to_string(added.generation()) +
                                            "; give it another name with --name");
  }
  if (auto indexed = upsert_index_entry(store, added); !indexed)
    return unexpected(indexed.error().with(context));
  return report;
}

}  // namespace compilecache::archive
