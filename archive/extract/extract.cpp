#include "archive/extract/extract.hpp"

#include <algorithm>
#include <set>

#include "archive/extract/destination.hpp"
#include "archive/extract/file_sink.hpp"
#include "archive/layer/layer_reader.hpp"

namespace compilecache::archive {
namespace {

struct Opened {
  const BlobStore& store;
  Manifest manifest;
  Config config;
  std::vector<bool> read{};  // the layers that are; all where there is nothing
  uint64_t unwanted_files = 0;

  [[nodiscard]] bool reads(size_t layer) const { return read.empty() || read[layer]; }
};

// Whether a blob that the manifest has too is read there.
enum class Carried { kUsed, kIgnored };

Result<Opened> open_archive(const BlobStore& store, const std::string& digest, const Limits& limits,
                            Carried carried) {
  auto manifest = read_manifest(store, digest, limits);
  if (!manifest) return unexpected(manifest.error());
  if (carried == Carried::kIgnored) manifest->forget_data();
  auto config = read_config(store, *manifest, limits);
  if (!config) return unexpected(config.error());
  return Opened{store, std::move(*manifest), std::move(*config), {}, 0};
}

// Takes the files that nobody wants out of the config.
void leave_out(const std::function<bool(const std::string& path)>& wanted, Opened& archive) {
  auto& files = archive.config.files;
  archive.unwanted_files =
      std::erase_if(files, [&](const FileEntry& file) { return !wanted(file.path); });
  if (archive.unwanted_files == 0) return;
  archive.read.assign(archive.manifest.layers.size(), false);
  for (const FileEntry& file : files) archive.read[file.layer] = true;
}

// Reads all layers into `sink` and waits until every task is done.
Status read_layers(ReadSession& session, const Opened& archive, FileSink& sink) {
  const Manifest& manifest = archive.manifest;
  const std::string store = archive.store.describe();
  Status read;
  for (uint32_t i = 0; i < manifest.layers.size() && read; ++i) {
    const Descriptor& layer = manifest.layers[i];
    if (!archive.reads(i)) continue;
    sink.begin_layer(i);
    read = read_layer(session, archive.store, layer, sink);
    if (!read) break;
    read = sink.end_layer();
    if (!read)
      read = unexpected(
          read.error().with("layer " + layer.digest + " in " + store).about(layer.digest));
  }
  if (!read) {
    session.failure.set(read.error());  // so that the tasks under way stop
    session.pool.drain();
    return read;
  }
  auto done = session.drain();
  if (!done) {
    const std::string context = "archive " + manifest.digest + " in " + store;
    return unexpected(done.error().with(context).about(manifest.digest));
  }
  return done;
}

uint64_t layer_bytes(const Opened& archive) {
  uint64_t sum = 0;
  for (size_t i = 0; i < archive.manifest.layers.size(); ++i) {
    if (archive.reads(i)) sum += archive.manifest.layers[i].size;
  }
  return sum;
}

// The memory for frames and file contents: less if the list of files is long.
uint64_t memory_beside(const Config& config, uint64_t bytes) {
  constexpr uint64_t kBytesOfAFile = 300;
  return bytes - std::min<uint64_t>(bytes / 2, config.files.size() * kBytesOfAFile);
}

void set_totals(Progress& progress, const Opened& archive) {
  progress.total_compressed_bytes = layer_bytes(archive);
  for (size_t i = 0; i < archive.config.layers.size(); ++i) {
    if (archive.reads(i)) progress.total_plain_bytes += archive.config.layers[i].plain_bytes;
  }
}

ExtractReport make_report(const Opened& archive, const Destination& destination) {
  ExtractReport report;
  std::set<std::string> skipped;
  for (const FileEntry& file : archive.config.files) {
    if (destination.is_mapped(file.path)) {
      ++report.files;
      report.plain_bytes += file.size;
    } else {
      ++report.skipped_files;
      skipped.insert(file.path.substr(0, file.path.find('/')));
    }
  }
  report.skipped_roots.assign(skipped.begin(), skipped.end());
  report.compressed_bytes =
      layer_bytes(archive) + archive.manifest.size + archive.manifest.config.size;
  report.unwanted_files = archive.unwanted_files;
  return report;
}

}  // namespace

Result<ExtractReport> extract(const BlobStore& store, const std::string& manifest_digest,
                              const ExtractOptions& options) {
  auto archive = open_archive(store, manifest_digest, options.limits, Carried::kUsed);
  if (!archive) return unexpected(archive.error());
  if (options.wanted) leave_out(options.wanted, *archive);
  if (options.before_creating) {
    if (auto agreed = options.before_creating(archive->manifest, archive->config); !agreed)
      return unexpected(agreed.error());
  }
  auto destination = Destination::open(options.roots);
  if (!destination) return unexpected(destination.error());

  Status done;
  {
    ReadSession session({options.threads, memory_beside(archive->config, options.memory_bytes),
                         options.limits, options.checkpoint, options.hash_layers_up_to});
    set_totals(session.progress, *archive);
    FileSink sink(session, archive->config, destination->get());
    done = read_layers(session, *archive, sink);
  }
  if (!done) {
    Error error = done.error();
    if (auto removed = (*destination)->remove_created(); !removed)
      error.message += "; and " + removed.error().message;
    return unexpected(error);
  }
  return make_report(*archive, **destination);
}

Result<ArchiveInfo> verify(const BlobStore& store, const std::string& manifest_digest,
                           const VerifyOptions& options) {
  auto archive = open_archive(store, manifest_digest, options.limits, Carried::kIgnored);
  if (!archive) return unexpected(archive.error());
  ReadSession session({options.threads, memory_beside(archive->config, options.memory_bytes),
                       options.limits, options.checkpoint});
  set_totals(session.progress, *archive);
  FileSink sink(session, archive->config, nullptr);
  if (auto done = read_layers(session, *archive, sink); !done) return unexpected(done.error());
  return describe(archive->manifest, archive->config);
}

}  // namespace compilecache::archive
