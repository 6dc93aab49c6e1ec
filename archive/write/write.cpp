#include "archive/write/write.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "archive/encode.hpp"
#include "archive/format.hpp"
#include "archive/layer/layer_reader.hpp"
#include "archive/layer/layer_writer.hpp"
#include "archive/write/copy_sink.hpp"
#include "archive/write/packer.hpp"
#include "archive/write/plan.hpp"
#include "archive/write/source_list.hpp"
#include "archive/write/too_large.hpp"

namespace compilecache::archive {
namespace {

constexpr size_t kChunkBytes = 1U << 20;
// The memory that a save's lists take for each file of the archive, and the least that is left for
// the compressor.
constexpr size_t kBytesOfAFile = 1000;
constexpr size_t kLeastCompressorBytes = 24U << 20;
// Readers refuse a string that takes more than 24,576 bytes as JSON, line ends being two each.
constexpr size_t kLongestWrittenNote = 20U << 10;
// The most attempts of a save. A layer is restarted if a large file changed while it was packed,
// or compressed too well for readers.
constexpr int kMaxAttempts = 4;
constexpr char kVariationNote[] = "written-otherwise";

// One save, with as many attempts as it needs.
class Save {
 public:
  Save(BlobStore& store, WriteRequest request)
      : store_(store),
        request_(std::move(request)),
        settings_(request_.settings),
        chunk_(kChunkBytes),
        packer_(chunk_) {}

  Result<WriteResult> run();

 private:
  Status check_request() const;
  Status read_parent();
  Status check_checkpoint() const;
  Result<WriteResult> attempt();

  Result<WriteResult> write();
  Status write_layer(Plan& plan, size_t kept);
  Status copy_layers(Plan& plan, size_t kept, LayerWriter& layer);
  Status finish_layer(LayerWriter& layer);
  void vary();
  void take_notes();
  void carry_small_blobs(std::string config);
  Result<WriteResult> commit(Plan plan);
  Result<WrittenBlob> put_blob(const char* media_type, const std::string& content);

  BlobStore& store_;
  WriteRequest request_;  // its files become sources_
  WriteSettings settings_;
  std::vector<uint8_t> chunk_;
  Packer packer_;
  SourceList sources_;
  std::vector<size_t> beyond_ratio_;  // sources that made the layer of this attempt useless

  Manifest parent_manifest_;
  bool rewrite_ = false;  // the parent's layers have unwanted files
  Config parent_;         // its files are in the plan while an attempt goes on

  Manifest manifest_;  // of the new archive
  Config config_;
  WriteResult result_;
};

Status Save::check_request() const {
  const WriteSettings& settings = request_.settings;
  if (settings.compression_level < 1 || settings.compression_level > 19) {
    return fail(ErrorCode::kInvalid, "compression level " +
                                         std::to_string(settings.compression_level) +
                                         ": allowed are 1 to 19");
  }
  if (settings.frame_bytes < (64U << 10) || settings.frame_bytes > settings.limits.max_frame_bytes)
    return fail(ErrorCode::kInvalid, "frames of " + std::to_string(settings.frame_bytes) +
                                         " bytes: allowed are 64 KiB to 16 MiB");
  return {};
}

Status Save::read_parent() {
  if (request_.parent.empty()) return {};
  auto manifest = read_manifest(store_, request_.parent, request_.settings.limits);
  if (!manifest) return unexpected(manifest.error().with("reading the parent archive"));
  auto config = read_config(store_, *manifest, request_.settings.limits);
  if (!config) return unexpected(config.error().with("reading the parent archive"));
  // A new manifest must not name blobs that are already lost.
  for (const Descriptor& layer : manifest->layers) {
    if (auto there = check_blob_size(store_, layer); !there)
      return unexpected(there.error().with("looking at the parent archive"));
  }
  parent_manifest_ = std::move(*manifest);
  parent_ = std::move(*config);
  const auto& unwanted = request_.unwanted;
  rewrite_ = unwanted && std::erase_if(parent_.files, [&](const FileEntry& file) {
                           return unwanted(file.path);
                         }) > 0;
  if (request_.dropped) {
    std::erase_if(parent_.files,
                  [&](const FileEntry& file) { return request_.dropped(file.path); });
  }
  return {};
}

Status Save::check_checkpoint() const {
  if (request_.checkpoint && !request_.checkpoint({}))
    return fail(ErrorCode::kCancelled, "writing the archive: given up by the caller");
  return {};
}

Result<WriteResult> Save::run() {
  if (auto good = check_request(); !good) return unexpected(good.error());
  if (auto read = read_parent(); !read) return unexpected(read.error());
  sources_ = SourceList(std::move(request_.files));
  const TooLargeCheck check{store_, settings_, request_.checkpoint, chunk_};
  if (auto left = leave_out_too_large(sources_, check); !left) return unexpected(left.error());
  leave_out_too_many(sources_, parent_, settings_.limits);
  auto found = sources_.find_equal_files(parent_, chunk_, [this] { return check_checkpoint(); });
  if (!found) return unexpected(found.error());
  auto written = attempt();
  if (!written) return written;
  written->left_out = sources_.left_out();
  return written;
}

Result<WriteResult> Save::attempt() {
  Error last;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    packer_.forget();
    beyond_ratio_.clear();
    auto written = write();
    const bool kept = !written && written.error().code == ErrorCode::kAlreadyExists;
    if (written || (!kept && !packer_.changed() && beyond_ratio_.empty())) return written;
    last = written.error();
    if (kept) {
      vary();
    } else if (packer_.changed()) {
      sources_.leave_out_changed(packer_.changed()->source, packer_.changed()->why);
    } else {
      leave_out_beyond_ratio(sources_, beyond_ratio_, request_.settings.limits.max_ratio);
    }
    sources_.drop_left_out();
    // The parent's files were moved into the plan.
    if (auto read = read_parent(); !read) return unexpected(read.error());
  }
  if (last.code == ErrorCode::kAlreadyExists) return unexpected(last);
  if (!packer_.changed()) {
    return fail(ErrorCode::kTooLarge,
                "writing the archive: it packs into so little that no reader would take it");
  }
  return fail(ErrorCode::kUnavailable,
              "writing the archive: files keep changing while they are read, the last one " +
                  packer_.changed()->why.path + "; try again when the directory is still");
}

Result<WriteResult> Save::write() {
  const size_t held = parent_.files.size();
  Plan plan = make_plan(parent_, sources_.all());
  result_.added_files = plan.added_files;
  result_.added_plain_bytes = plan.added_plain_bytes;
  result_.written_bytes = 0;
  const bool anew = (rewrite_ || request_.anew) && !plan.files.empty();
  if (plan.added_files == 0 && !anew) {
    result_.nothing_new = true;
    parent_.files = std::move(plan.files);
    if (!request_.parent.empty()) result_.archive = describe(parent_manifest_, parent_);
    return result_;
  }
  if (auto fits = check_limits(plan.files, request_.settings.limits); !fits)
    return unexpected(fits.error());
  if (plan.files.size() > kManyFiles)
    settings_.frame_bytes = std::min(settings_.frame_bytes, kFrameOfMany);
  const size_t lists = std::max(plan.files.size(), held) * kBytesOfAFile;
  const size_t most = request_.settings.compressor_bytes;
  settings_.compressor_bytes = std::max(most - std::min(most, lists), kLeastCompressorBytes);
  const size_t kept = rewrite_ ? 0 : kept_layers(parent_, plan);
  result_.compacted = kept < parent_.layers.size();
  manifest_ = {};
  config_ = {};
  const auto written = write_layer(plan, kept);
  if (!written) return unexpected(written.error());
  return commit(std::move(plan));
}

// Writes one layer behind the `kept` oldest ones of the parent's: what the others hold that is in
// use, in their order, then what is new.
Status Save::write_layer(Plan& plan, size_t kept) {
  const auto& before = parent_manifest_.layers;
  const auto end = static_cast<std::ptrdiff_t>(kept);
  manifest_.layers.assign(before.begin(), before.begin() + end);
  config_.layers.assign(parent_.layers.begin(), parent_.layers.begin() + end);
  if (kept == before.size() && plan.packs.empty()) return {};  // only names for stored contents
  uint64_t others = 0;
  for (const Descriptor& layer : manifest_.layers) others += layer.size;
  auto layer = LayerWriter::create(store_, settings_, request_.checkpoint, others);
  if (!layer) return unexpected(layer.error());
  if (auto copied = copy_layers(plan, kept, **layer); !copied) return copied;
  if (auto packed = packer_.pack(**layer, sources_.all(), plan); !packed) return packed;
  for (FileEntry& file : plan.files) file.layer = std::min(file.layer, static_cast<uint32_t>(kept));
  return finish_layer(**layer);
}

Status Save::copy_layers(Plan& plan, size_t kept, LayerWriter& layer) {
  std::vector<CopySink::Wanted> wanted(parent_manifest_.layers.size());
  for (FileEntry& file : plan.files) {
    if (file.layer == plan.new_layer || file.layer < kept) continue;
    wanted[file.layer][file.stored_as()].push_back(&file);
  }
  for (size_t i = kept; i < wanted.size(); ++i) {
    if (wanted[i].empty()) continue;
    // One thread to decode is enough, as compressing takes many times longer.
    ReadSession session(
        {1, 2 * request_.settings.limits.max_frame_bytes, request_.settings.limits, nullptr});
    CopySink sink(layer, std::move(wanted[i]));
    const Descriptor& from = parent_manifest_.layers[i];
    if (auto read = read_layer(session, store_, from, sink); !read) {
      // A refusal by the new layer is no fault of the one that is read.
      const Error& why = sink.refused() ? *sink.refused() : read.error();
      return unexpected(why.with("rewriting layers of the parent archive as one"));
    }
    if (!sink.complete()) {
      return unexpected(Error{ErrorCode::kCorrupt,
                              "layer " + from.digest + " lacks files of its config", from.digest});
    }
  }
  return {};
}

Status Save::finish_layer(LayerWriter& layer) {
  if (auto ended = layer.end(); !ended) {
    if (ended.error().code != ErrorCode::kTooLarge) return ended;
    beyond_ratio_ = packer_.beyond_ratio(layer, request_.settings.limits.max_ratio);
    return ended;
  }
  auto finished = layer.finish(request_.without);
  if (!finished) return unexpected(finished.error());
  manifest_.layers.push_back(finished->descriptor);
  config_.layers.push_back(finished->stats);
  result_.written_bytes += finished->written_bytes;
  return {};
}

Result<WrittenBlob> Save::put_blob(const char* media_type, const std::string& content) {
  auto blob = store_.create(media_type);
  if (!blob) return unexpected(blob.error());
  auto written = (*blob)->write({reinterpret_cast<const uint8_t*>(content.data()), content.size()});
  if (!written) return unexpected(written.error());
  auto finished = (*blob)->commit(request_.without);
  if (finished && !finished->existed) result_.written_bytes += finished->size;
  return finished;
}

// A store that keeps damaged bytes under their digest takes the same files in other bytes.
void Save::vary() { ++settings_.variation; }

// If there are too many notes, the parent's are dropped.
void Save::take_notes() {
  if (settings_.variation > 0)
    config_.notes.emplace(kVariationNote, std::to_string(settings_.variation));
  for (const auto* notes : {&request_.notes, &parent_.notes}) {
    for (const auto& [name, text] : *notes) {
      if (config_.notes.size() < kMostNotes && text.size() <= kLongestWrittenNote) {
        config_.notes.emplace(name, text);
      }
    }
  }
}

// Which those are depends on their sizes alone, so that equal archives have equal manifests.
// A layer that cannot be read stays where it is.
void Save::carry_small_blobs(std::string config) {
  const uint64_t most = store_.carried_up_to();
  if (config.size() <= most) manifest_.config.data = std::move(config);
  for (Descriptor& layer : manifest_.layers) {
    if (layer.size > most) {
      layer.data.clear();
    } else if (layer.data.empty()) {
      layer.data = read_blob(store_, layer, most).value_or("");
    }
  }
}

Result<WriteResult> Save::commit(Plan plan) {
  config_.files = std::move(plan.files);
  take_notes();
  auto encoded = encode_config(config_);
  if (!encoded) return unexpected(encoded.error());
  auto config = put_blob(kConfigMediaType, *encoded);
  if (!config) return unexpected(config.error().with("writing the config"));
  manifest_.config = {kConfigMediaType, config->digest, config->size};
  manifest_.annotations = request_.annotations;
  carry_small_blobs(std::move(*encoded));
  const std::string text = encode_manifest(manifest_);
  auto manifest = put_blob(kManifestMediaType, text);
  if (!manifest) return unexpected(manifest.error().with("writing the manifest"));
  manifest_.digest = manifest->digest;
  manifest_.size = manifest->size;
  if (auto synced = store_.sync(); !synced) return unexpected(synced.error());
  result_.archive = describe(manifest_, config_);
  if (result_.archive.compressed_bytes > request_.settings.max_archive_bytes)
    return fail(ErrorCode::kTooLarge,
                "the archive would be larger than save.maxArchiveSize allows: raise it");
  return result_;
}

}  // namespace

Result<WriteResult> write_archive(BlobStore& store, WriteRequest request) {
  return Save(store, std::move(request)).run();
}

}  // namespace compilecache::archive
