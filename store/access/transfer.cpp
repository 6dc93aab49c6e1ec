#include "store/access/transfer.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "archive/extract/extract.hpp"
#include "archive/format.hpp"
#include "archive/fs.hpp"
#include "archive/oci/oci_archive.hpp"
#include "archive/oci/oci_image.hpp"
#include "archive/write/write.hpp"
#include "store/access/open.hpp"
#include "store/offline_index.hpp"
#include "store/upkeep.hpp"

namespace compilecache::store {
namespace {

using archive::BlobStore;
using archive::Descriptor;
using archive::kAnnotationGeneration;
using archive::kAnnotationName;
using archive::Manifest;
using archive::OciArchiveWriter;
using archive::UnpackedOciArchive;
using Json = nlohmann::json;

std::string name_of(const archive::Annotations& annotations) {
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
  return Json{{"schemaVersion", 2}, {"mediaType", archive::kIndexMediaType}, {"manifests", {entry}}}
      .dump();
}

Status add_blobs(OciArchiveWriter& out, const BlobStore& store,
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

Status begin_layout(OciArchiveWriter& out, const std::string& index) {
  if (auto added = out.add("oci-layout", R"({"imageLayoutVersion":"1.0.0"})"); !added) return added;
  return out.add("index.json", index);
}

// A folder beside the output, which the destructor removes with its content.
class WorkFolder {
 public:
  static Result<WorkFolder> create(const std::string& beside) {
    std::error_code failed;
    const auto path = std::filesystem::absolute(beside, failed);
    // A store is never made behind a link, so links are resolved first.
    const auto folder = std::filesystem::weakly_canonical(path.parent_path(), failed);
    std::string pattern = (folder / path.filename()).string() + ".XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr)
      return unexpected(archive::local_error("creating a folder beside " + beside, errno));
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

// Writes the archive as a single layer into `into`, a store of its own.
Result<Manifest> rewrite_as_one_layer(const BlobStore& store, const std::string& digest,
                                      const archive::Config& config, const std::string& files,
                                      Store& into) {
  archive::ExtractOptions extraction;
  extraction.roots = {{"", files}};
  if (auto extracted = archive::extract(store, digest, extraction); !extracted)
    return unexpected(extracted.error());
  if (auto prepared = into.upkeep()->prepare({}, false); !prepared)
    return unexpected(prepared.error());
  archive::WriteRequest request;
  request.settings.max_archive_bytes = request.settings.limits.max_plain_bytes;
  for (const archive::FileEntry& file : config.files)
    request.files.push_back({files + "/" + file.path, file.path});
  auto written = archive::write_archive(into, std::move(request));
  if (!written) return unexpected(written.error());
  if (!written->left_out.empty()) {
    const archive::LeftOut& file = written->left_out.front();
    const bool too_large = file.reason == archive::LeftOutReason::kTooLarge;
    return fail(too_large ? ErrorCode::kTooLarge : ErrorCode::kInternal,
                "packing again: " + file.detail);
  }
  return archive::read_manifest(into, written->archive.manifest);
}

Result<ExportReport> export_image(const BlobStore& store, const Manifest& archive,
                                  const std::string& path, const ExportOptions& options,
                                  OciArchiveWriter& out) {
  auto config = archive::read_config(store, archive);
  if (!config) return unexpected(config.error());
  auto folder = WorkFolder::create(path);
  if (!folder) return unexpected(folder.error());
  const auto packed = open_store(*folder / "store");
  auto whole = rewrite_as_one_layer(store, archive.digest, *config, *folder / "files", *packed);
  if (!whole) return unexpected(whole.error());
  const auto image = archive::make_oci_image(*packed, *whole, archive.annotations, archive.digest,
                                             options.architecture);
  if (!image) return unexpected(image.error());
  const std::string index = index_json(image->manifest_blob, options.name, nullptr);
  if (auto begun = begin_layout(out, index); !begun) return unexpected(begun.error());
  if (auto added = add_text(out, image->manifest_blob, image->manifest); !added)
    return unexpected(added.error());
  if (auto added = add_text(out, image->config_blob, image->config); !added)
    return unexpected(added.error());
  if (auto added = add_blobs(out, *packed, whole->layers); !added) return unexpected(added.error());
  return ExportReport{image->manifest_blob.digest, options.name, 0};
}

Result<ExportReport> export_artifact(const BlobStore& store, const Manifest& archive,
                                     const ExportOptions& options, OciArchiveWriter& out) {
  const Descriptor manifest{archive::kManifestMediaType, archive.digest, archive.size};
  const std::string index = index_json(manifest, options.name, archive::kArtifactType);
  if (auto begun = begin_layout(out, index); !begun) return unexpected(begun.error());
  std::vector<Descriptor> blobs{manifest, archive.config};
  blobs.insert(blobs.end(), archive.layers.begin(), archive.layers.end());
  if (auto added = add_blobs(out, store, blobs); !added) return unexpected(added.error());
  return ExportReport{archive.digest, options.name, 0};
}

// Returns the only archive that the file's index names.
Result<UnpackedOciArchive::Entry> only_entry(const UnpackedOciArchive& unpacked) {
  if (unpacked.entries.size() == 1) return unpacked.entries.front();
  return fail(ErrorCode::kInvalid,
              "its index.json names " + std::to_string(unpacked.entries.size()) +
                  " manifests where one archive is wanted; export or copy that one alone");
}

}  // namespace

Result<ExportReport> export_archive(const BlobStore& store, const std::string& manifest_digest,
                                    const std::string& path, const ExportOptions& given) {
  const std::string context = "exporting " + manifest_digest + " to " + path;
  auto archive = archive::read_manifest(store, manifest_digest);
  if (!archive) return unexpected(archive.error().with(context));
  ExportOptions options = given;
  if (options.name.empty()) options.name = name_of(archive->annotations);
  if (options.name.empty()) options.name = "archive";
  const bool streams = path == archive::kStandardStream;
  if (streams && options.image)
    return fail(ErrorCode::kInvalid, context + ": an image is written to a file alone");
  auto out = streams ? OciArchiveWriter::to_standard_output() : OciArchiveWriter::create(path);
  if (!out) return unexpected(out.error().with(context));
  auto report = options.image ? export_image(store, *archive, path, options, *out)
                              : export_artifact(store, *archive, options, *out);
  if (!report) return unexpected(report.error().with(context));
  if (auto finished = out->finish(); !finished) return unexpected(finished.error().with(context));
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) report->bytes = static_cast<uint64_t>(info.st_size);
  return report;
}

Result<ImportReport> import_archive(Store& store, const std::string& path,
                                    const ImportOptions& options) {
  const std::string context = "importing " + path + " into " + store.describe();
  OfflineIndex* index = store.offline_index();
  if (index == nullptr)
    return fail(ErrorCode::kInvalid, context + ": it has no index that could name an archive");
  auto unpacked = archive::unpack_oci_archive(path, store);
  if (!unpacked) return unexpected(unpacked.error().with(context));
  auto entry = only_entry(*unpacked);
  if (!entry) return unexpected(entry.error().with(context));
  auto manifest = archive::read_manifest(store, entry->digest);
  if (!manifest) return unexpected(manifest.error().with(context));
  auto whole = archive::verify(store, entry->digest);
  if (!whole) return unexpected(whole.error().with(context));

  IndexEntry added{entry->digest, manifest->size, manifest->annotations};
  std::string name = options.name.empty() ? added.name() : options.name;
  if (name.empty()) name = entry->name;
  if (name.empty())
    return fail(ErrorCode::kInvalid, context + ": it has no name; give one with --name");
  added.annotations[kAnnotationName] = name;
  if (added.generation() == 0) added.annotations[kAnnotationGeneration] = "1";
  ImportReport report{std::move(*whole), name, added.generation(), false};
  const auto present = index->read_index();
  if (!present) return unexpected(present.error().with(context));
  for (const IndexEntry& other : present->entries) {
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
  if (auto indexed = index->update_index(added); !indexed)
    return unexpected(indexed.error().with(context));
  return report;
}

}  // namespace compilecache::store
