#include "archive/write.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <unordered_map>

#include "archive/encode.hpp"
#include "archive/large_bytes.hpp"
#include "archive/layer_reader.hpp"
#include "archive/layer_writer.hpp"
#include "archive/plan.hpp"
#include "archive/ratio.hpp"
#include "archive/source.hpp"
#include "base/quantity.hpp"
#include "base/sha256.hpp"
#include "base/sha256_pair.hpp"

namespace compilecache::archive {
namespace {

constexpr size_t kChunkBytes = 1U << 20;
// What a compaction reads ahead; the compressor has its own.
constexpr uint64_t kCompactionReadBytes = 20ULL << 20;
// What the lists take of the memory of a save, for each file of the archive, and what they leave to
// the compressor.
constexpr size_t kBytesOfAFile = 1000;
constexpr size_t kLeastCompressorBytes = 24U << 20;
// How often a layer is begun anew because a large file changed while it was packed, or packs into
// too little.
constexpr int kMaxAttempts = 4;
// What a layer has beside the content of its only file, at most.
constexpr uint64_t kAroundAFile = 64ULL << 10;
// Smaller files hardly pack into less than a two thousandth, and there may be very many of them.
constexpr uint64_t kSmallestToBlame = 64ULL << 10;

// A file that changed in the middle of the layer: the layer is worth nothing.
struct Changed {
  size_t source;
  LeftOut why;
};

// The contents of a layer, each by the index of a file of the plan that has it: there may be as
// many as files.
class Packed {
 public:
  // The one that has the same content, or this one, which is new.
  size_t add(const std::vector<FileEntry>& files, size_t file) {
    const FileEntry& added = files[file];
    uint64_t key = 0;
    std::memcpy(&key, added.sha256.data(), sizeof(key));
    for (auto [at, end] = known_.equal_range(key); at != end; ++at) {
      const FileEntry& other = files[at->second];
      if (other.sha256 == added.sha256 && other.executable == added.executable) return at->second;
    }
    known_.emplace(key, file);
    return file;
  }
  void clear() { known_.clear(); }

 private:
  std::unordered_multimap<uint64_t, size_t> known_;  // by a part of the digest
};

class ArchiveWriter {
 public:
  ArchiveWriter(BlobStore& store, WriteRequest request)
      : store_(store),
        request_(std::move(request)),
        settings_(request_.settings),
        chunk_(kChunkBytes) {}

  Result<WriteResult> run();

 private:
  Status check_request() const;
  Status read_parent();
  void look_at_sources();
  Status leave_out_too_large();
  Result<bool> fits_alone(const Source& source);
  void leave_out(size_t index, std::string detail);
  Status find_equal_files();
  Status hash_source(size_t index);
  void drop_left_out();
  void drop_changed();
  void drop_beyond_ratio();
  Status check_checkpoint() const;

  Result<WriteResult> write();
  Status write_delta(Plan& plan);
  Status write_full(Plan& plan);
  Status pack_all(LayerWriter& layer, Plan& plan);
  Status pack_large(LayerWriter& layer, Plan& plan, const Plan::Pack& item);
  Status read_whole(const Plan::Pack& item, std::span<uint8_t> bytes);
  Status pack_whole(LayerWriter& layer, Plan& plan, const Plan::Pack& item,
                    std::span<const uint8_t> bytes, const ContentHash& hash);
  Status end_pack(LayerWriter& layer, Plan& plan, const Plan::Pack& item, const ContentHash& hash);
  Status changed(size_t source, const LeftOut& why);
  void note_place(const LayerWriter& layer, size_t source, uint64_t size);
  Status finish_layer(LayerWriter& layer);
  void take_notes();
  Result<WriteResult> commit(Plan plan);
  Result<WrittenBlob> put_blob(const char* media_type, const std::string& content);

  BlobStore& store_;
  WriteRequest request_;  // its files become sources_
  WriteSettings settings_;
  std::vector<uint8_t> chunk_;
  std::array<LargeBytes, 2> whole_;  // for files that are read before packing
  // In this attempt.
  Packed packed_;
  std::vector<Placed> placed_;          // in the new layer
  std::vector<size_t> placed_sources_;  // which those are
  std::vector<size_t> beyond_ratio_;    // sources that made the layer useless

  Manifest parent_manifest_;
  bool rewrite_ = false;  // the parent's layers hold what is unwanted
  Config parent_;         // its files are in the plan while an attempt goes on
  std::vector<Source> sources_;
  std::vector<bool> dropped_;  // of sources_
  std::optional<Changed> changed_;

  Manifest manifest_;  // being made
  Config config_;
  WriteResult result_;
};

// What a reader would refuse is not written.
Status check_limits(const std::vector<FileEntry>& files, const Limits& limits) {
  uint64_t directories = 0;
  uint64_t path_bytes = 0;
  uint64_t plain_bytes = 0;
  std::string_view previous;
  for (const FileEntry& file : files) {
    plain_bytes += file.size;
    // Twice: another path may come to store its content.
    path_bytes += 2 * file.path.size();
    directories += new_directories(previous, file.path);
    previous = file.path;
  }
  const auto check = [](uint64_t count, const char* what, uint64_t most) -> Status {
    if (count <= most) return {};
    return fail(ErrorCode::kTooLarge, "an archive of " + std::to_string(count) + " " + what +
                                          ": allowed are " + std::to_string(most));
  };
  if (auto few = check(files.size(), "files", limits.max_entries); !few) return few;
  if (auto few = check(path_bytes, "bytes of paths", limits.max_path_bytes); !few) return few;
  if (auto few = check(plain_bytes, "bytes", limits.max_plain_bytes); !few) return few;
  return check(directories, "directories", limits.max_directories);
}

// Takes the parent's files that are still in use over into the new layer.
class CopySink : public LayerSink {
 public:
  // The contents of one layer, by the path under which it stores them.
  using Wanted = std::unordered_map<std::string, std::vector<FileEntry*>>;

  CopySink(LayerWriter& layer, Wanted wanted) : layer_(layer), wanted_(std::move(wanted)) {}

  Status begin_file(const TarEntry& entry) override {
    const auto found = wanted_.find(entry.path);
    current_ = nullptr;
    if (found == wanted_.end()) return {};
    entries_ = std::move(found->second);
    wanted_.erase(found);
    current_ = entries_.front();
    for (const FileEntry* file : entries_) {
      if (file->size != entry.size || file->sha256 != current_->sha256)
        return fail(ErrorCode::kCorrupt, "layer and config disagree about " + file->path);
    }
    return layer_.begin_file(current_->path, current_->size, current_->executable);
  }

  Status data(std::span<const uint8_t> bytes, const std::shared_ptr<const void>&) override {
    if (current_ == nullptr) return {};
    hash_.update(bytes);
    return layer_.data(bytes);
  }

  Status end_file() override {
    if (current_ == nullptr) return {};
    if (hash_.finish_hex() != to_hex(current_->sha256))
      return fail(ErrorCode::kCorrupt, "the content of " + current_->path + " is not as listed");
    if (auto ended = layer_.end_file(); !ended) return ended;
    for (FileEntry* file : entries_) {
      file->layer = 0;
      file->from.clear();
      if (file == current_) continue;
      file->from = current_->path;
      if (auto added = layer_.add_link(file->path, current_->path, file->executable); !added)
        return added;
    }
    return {};
  }

  [[nodiscard]] bool complete() const { return wanted_.empty(); }

 private:
  LayerWriter& layer_;
  Wanted wanted_;
  std::vector<FileEntry*> entries_;
  FileEntry* current_ = nullptr;
  Sha256 hash_;
};

Status ArchiveWriter::check_request() const {
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

Status ArchiveWriter::read_parent() {
  if (request_.parent.empty()) return {};
  auto manifest = read_manifest(store_, request_.parent, request_.settings.limits);
  if (!manifest) return unexpected(manifest.error().with("reading the parent archive"));
  auto config = read_config(store_, *manifest, request_.settings.limits);
  if (!config) return unexpected(config.error().with("reading the parent archive"));
  // A new manifest must not promise what is already lost.
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
  return {};
}

void ArchiveWriter::look_at_sources() {
  sources_.reserve(request_.files.size());
  for (SourceFile& file : request_.files) {
    auto source = look_at(std::move(file));
    if (source) {
      sources_.push_back(std::move(*source));
    } else {
      result_.left_out.push_back(source.error());
    }
  }
  request_.files = std::vector<SourceFile>();  // "{}" would keep its memory
  std::stable_sort(sources_.begin(), sources_.end(),
                   [](const Source& a, const Source& b) { return a.file.path < b.file.path; });
  const auto same = [](const Source& a, const Source& b) { return a.file.path == b.file.path; };
  sources_.erase(std::unique(sources_.begin(), sources_.end(), same), sources_.end());
  dropped_.assign(sources_.size(), false);
}

Status ArchiveWriter::hash_source(size_t index) {
  if (auto fine = check_checkpoint(); !fine) return fine;
  auto hash = hash_content(sources_[index], chunk_);
  if (hash) {
    sources_[index].hash = *hash;
  } else {
    dropped_[index] = true;
    result_.left_out.push_back(hash.error());
  }
  return {};
}

// Before any work is done on the others.
Status ArchiveWriter::leave_out_too_large() {
  const uint64_t most_plain = request_.settings.limits.max_plain_bytes;
  const uint64_t most = request_.settings.max_archive_bytes;
  const std::string keep_out = "keep the file out of the cache directory";
  for (size_t i = 0; i < sources_.size(); ++i) {
    const uint64_t size = sources_[i].stamp.size;
    if (dropped_[i] || size <= std::min(most, most_plain - std::min(most_plain, kAroundAFile))) {
      continue;
    }
    const std::string what = sources_[i].file.path + " of " + format_bytes(size);
    if (size + kAroundAFile > most_plain) {
      leave_out(i, what + ": all files of an archive have at most " + format_bytes(most_plain) +
                       "; " + keep_out);
      continue;
    }
    const auto fits = fits_alone(sources_[i]);
    if (!fits) return unexpected(fits.error());
    if (*fits) continue;
    leave_out(i, what + " would alone be more than the " + format_bytes(most) +
                     " of save.maxArchiveSize: raise it, or " + keep_out);
  }
  drop_left_out();
  return {};
}

// Packs it for nothing, up to the limit: it is only asked for what is larger than that.
Result<bool> ArchiveWriter::fits_alone(const Source& source) {
  auto layer = LayerWriter::create(store_, settings_, request_.checkpoint, 0);
  if (!layer) return unexpected(layer.error());
  auto reader = SourceReader::open(source);
  if (!reader) return true;  // said where it is packed
  const FileStamp& stamp = source.stamp;
  Status packed = (*layer)->begin_file(source.file.path, stamp.size, stamp.executable);
  for (uint64_t left = stamp.size; packed && left > 0;) {
    const auto piece =
        std::span(chunk_).first(static_cast<size_t>(std::min<uint64_t>(left, chunk_.size())));
    if (!reader->read(piece)) return true;
    packed = (*layer)->data(piece);
    left -= piece.size();
  }
  if (packed) packed = (*layer)->end_file();
  if (packed) packed = (*layer)->end();
  if (!packed && packed.error().code != ErrorCode::kTooLarge) return unexpected(packed.error());
  return packed.has_value();
}

// With all that is of no use without it.
void ArchiveWriter::leave_out(size_t index, std::string detail) {
  const SourceFile& file = sources_[index].file;
  dropped_[index] = true;
  result_.left_out.push_back({file.path, LeftOutReason::kTooLarge, std::move(detail)});
  if (file.unit == 0) return;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (dropped_[i] || sources_[i].file.unit != file.unit) continue;
    dropped_[i] = true;
    result_.left_out.push_back({sources_[i].file.path, LeftOutReason::kIncomplete,
                                sources_[i].file.path + " is of no use without " + file.path});
  }
}

// Hashes as little as is needed to know which sources are equal to something.
Status ArchiveWriter::find_equal_files() {
  const Candidates candidates = find_candidates(parent_, sources_);
  for (const size_t index : candidates.hash) {
    if (auto hashed = hash_source(index); !hashed) return hashed;
  }
  for (const std::vector<size_t>& group : candidates.same_size) {
    std::map<uint64_t, std::vector<size_t>> alike;
    for (const size_t index : group) {
      auto print = fingerprint(sources_[index]);
      if (print) {
        alike[*print].push_back(index);
      } else {
        dropped_[index] = true;
        result_.left_out.push_back(print.error());
      }
    }
    for (const auto& [print, indices] : alike) {
      if (indices.size() < 2) continue;
      for (const size_t index : indices) {
        if (auto hashed = hash_source(index); !hashed) return hashed;
      }
    }
  }
  drop_left_out();
  return {};
}

void ArchiveWriter::drop_left_out() {
  std::vector<Source> kept;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (!dropped_[i]) kept.push_back(std::move(sources_[i]));
  }
  sources_ = std::move(kept);
  dropped_.assign(sources_.size(), false);
}

Status ArchiveWriter::check_checkpoint() const {
  if (request_.checkpoint && !request_.checkpoint({}))
    return fail(ErrorCode::kCancelled, "writing the archive: given up by the caller");
  return {};
}

Result<WriteResult> ArchiveWriter::run() {
  if (auto good = check_request(); !good) return unexpected(good.error());
  if (auto read = read_parent(); !read) return unexpected(read.error());
  look_at_sources();
  if (auto left = leave_out_too_large(); !left) return unexpected(left.error());
  if (auto found = find_equal_files(); !found) return unexpected(found.error());
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    changed_.reset();
    beyond_ratio_.clear();
    auto written = write();
    if (written || (!changed_ && beyond_ratio_.empty())) return written;
    changed_ ? drop_changed() : drop_beyond_ratio();
    // Its files went into the plan.
    if (auto read = read_parent(); !read) return unexpected(read.error());
  }
  if (!changed_) {
    return fail(ErrorCode::kTooLarge,
                "writing the archive: it packs into so little that no reader would take it");
  }
  return fail(ErrorCode::kUnavailable,
              "writing the archive: files keep changing while they are read, the last one " +
                  changed_->why.path + "; try again when the directory is still");
}

// Where one file changed others may have: each costs a whole attempt, so they are looked for now.
void ArchiveWriter::drop_changed() {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (i == changed_->source) {
      result_.left_out.push_back(changed_->why);
      dropped_[i] = true;
      continue;
    }
    auto now = look_at(sources_[i].file);
    if (now && now->stamp == sources_[i].stamp) continue;
    result_.left_out.push_back(now ? LeftOut{sources_[i].file.path, LeftOutReason::kBusy,
                                             sources_[i].file.local + " changed"}
                                   : now.error());
    dropped_[i] = true;
  }
  drop_left_out();
}

void ArchiveWriter::drop_beyond_ratio() {
  const uint64_t times = request_.settings.limits.max_ratio;
  for (const size_t i : beyond_ratio_) {
    if (dropped_[i]) continue;
    leave_out(i, sources_[i].file.path + " of " + format_bytes(sources_[i].stamp.size) +
                     " packs into less than 1/" + std::to_string(times) +
                     " of that, which no loader takes; keep the file out of the cache directory");
  }
  drop_left_out();
}

Result<WriteResult> ArchiveWriter::write() {
  placed_.clear();
  placed_sources_.clear();
  const size_t held = parent_.files.size();
  Plan plan = make_plan(parent_, sources_);
  result_.added_files = plan.added_files;
  result_.added_plain_bytes = plan.added_plain_bytes;
  result_.written_bytes = 0;
  if (plan.added_files == 0 && (!rewrite_ || plan.files.empty())) {
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
  result_.compacted = rewrite_ || should_compact(parent_, plan);
  manifest_ = {};
  config_ = {};
  auto written = result_.compacted ? write_full(plan) : write_delta(plan);
  if (!written) return unexpected(written.error());
  return commit(std::move(plan));
}

Status ArchiveWriter::write_delta(Plan& plan) {
  manifest_.layers = parent_manifest_.layers;
  config_.layers = parent_.layers;
  if (plan.packs.empty()) return {};  // other names for what is there
  uint64_t others = 0;
  for (const Descriptor& layer : parent_manifest_.layers) others += layer.size;
  auto layer = LayerWriter::create(store_, settings_, request_.checkpoint, others);
  if (!layer) return unexpected(layer.error());
  if (auto packed = pack_all(**layer, plan); !packed) return packed;
  return finish_layer(**layer);
}

// All that is in use, the parent's layers first, in their order.
Status ArchiveWriter::write_full(Plan& plan) {
  auto layer = LayerWriter::create(store_, settings_, request_.checkpoint, 0);
  if (!layer) return unexpected(layer.error());
  std::vector<CopySink::Wanted> wanted(parent_manifest_.layers.size());
  for (FileEntry& file : plan.files) {
    if (file.layer != plan.new_layer) wanted[file.layer][file.stored_as()].push_back(&file);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].empty()) continue;
    // One thread to decode is enough: compressing what it yields takes many times longer.
    ReadSession session(
        {1, 2 * request_.settings.limits.max_frame_bytes, request_.settings.limits, nullptr});
    CopySink sink(**layer, std::move(wanted[i]));
    const Descriptor& from = parent_manifest_.layers[i];
    if (auto read = read_layer(session, store_, from, sink); !read)
      return unexpected(read.error().with("rewriting the parent archive as one layer"));
    if (!sink.complete()) {
      return unexpected(Error{ErrorCode::kCorrupt,
                              "layer " + from.digest + " lacks files of its config", from.digest});
    }
  }
  if (auto packed = pack_all(**layer, plan); !packed) return packed;
  for (FileEntry& file : plan.files) file.layer = 0;
  return finish_layer(**layer);
}

void ArchiveWriter::note_place(const LayerWriter& layer, size_t source, uint64_t size) {
  if (size < kSmallestToBlame) return;
  placed_.push_back({layer.plain_bytes(), size});
  placed_sources_.push_back(source);
}

Status ArchiveWriter::finish_layer(LayerWriter& layer) {
  if (auto ended = layer.end(); !ended) {
    if (ended.error().code != ErrorCode::kTooLarge) return ended;
    const uint64_t times = request_.settings.limits.max_ratio;
    for (const size_t i : beyond_ratio(layer.frames(), placed_, times))
      beyond_ratio_.push_back(placed_sources_[i]);
    return ended;
  }
  auto finished = layer.finish(request_.without);
  if (!finished) return unexpected(finished.error());
  manifest_.layers.push_back(finished->descriptor);
  config_.layers.push_back(finished->stats);
  result_.written_bytes += finished->written_bytes;
  return {};
}

// Two files that are read as a whole are hashed together, in little more than the time of one.
Status ArchiveWriter::pack_all(LayerWriter& layer, Plan& plan) {
  packed_.clear();
  changed_.reset();
  const auto whole = [&](size_t i) {
    return i < plan.packs.size() && plan.files[plan.packs[i].file].size <= kWholeBytes;
  };
  for (size_t i = 0; i < plan.packs.size();) {
    const Plan::Pack& item = plan.packs[i];
    if (!whole(i)) {
      if (auto packed = pack_large(layer, plan, item); !packed) return packed;
      ++i;
      continue;
    }
    const size_t count = whole(i + 1) ? 2 : 1;
    std::array<std::span<uint8_t>, 2> bytes;
    for (size_t k = 0; k < count; ++k) {
      if (!whole_[k]) whole_[k] = make_large_bytes(kWholeBytes);
      bytes[k] = {whole_[k].get(), plan.files[plan.packs[i + k].file].size};
      if (auto read = read_whole(plan.packs[i + k], bytes[k]); !read) return read;
    }
    const auto hashes = sha256_pair(bytes[0], bytes[1]);
    for (size_t k = 0; k < count; ++k) {
      auto packed = pack_whole(layer, plan, plan.packs[i + k], bytes[k], hashes[k]);
      if (!packed) return packed;
    }
    i += count;
  }
  return {};
}

Status ArchiveWriter::read_whole(const Plan::Pack& item, std::span<uint8_t> bytes) {
  const Source& source = sources_[item.source];
  auto reader = SourceReader::open(source);
  if (!reader) return changed(item.source, reader.error());
  if (auto read = reader->read(bytes); !read) return changed(item.source, read.error());
  if (auto same = reader->finish(); !same) return changed(item.source, same.error());
  return {};
}

Status ArchiveWriter::pack_whole(LayerWriter& layer, Plan& plan, const Plan::Pack& item,
                                 std::span<const uint8_t> bytes, const ContentHash& hash) {
  FileEntry& file = plan.files[item.file];
  file.sha256 = hash;
  if (file.size > 0) {
    const size_t equal = packed_.add(plan.files, item.file);
    if (equal != item.file) {
      file.from = plan.files[equal].path;
      if (auto added = layer.add_link(file.path, file.from, file.executable); !added) return added;
      return end_pack(layer, plan, item, hash);
    }
  }
  if (auto begun = layer.begin_file(file.path, file.size, file.executable); !begun) return begun;
  note_place(layer, item.source, file.size);
  if (auto added = layer.data(bytes); !added) return added;
  if (auto ended = layer.end_file(); !ended) return ended;
  return end_pack(layer, plan, item, hash);
}

// As it goes: if it changes meanwhile, the layer is worth nothing.
Status ArchiveWriter::pack_large(LayerWriter& layer, Plan& plan, const Plan::Pack& item) {
  const FileEntry& file = plan.files[item.file];
  auto reader = SourceReader::open(sources_[item.source]);
  if (!reader) return changed(item.source, reader.error());
  Sha256 hash;
  if (auto begun = layer.begin_file(file.path, file.size, file.executable); !begun) return begun;
  note_place(layer, item.source, file.size);
  for (uint64_t left = file.size; left > 0;) {
    const auto piece =
        std::span(chunk_).first(static_cast<size_t>(std::min<uint64_t>(left, chunk_.size())));
    if (auto read = reader->read(piece); !read) return changed(item.source, read.error());
    hash.update(piece);
    left -= piece.size();
    if (auto added = layer.data(piece); !added) return added;
  }
  if (auto same = reader->finish(); !same) return changed(item.source, same.error());
  if (auto ended = layer.end_file(); !ended) return ended;
  return end_pack(layer, plan, item, *parse_content_hash(hash.finish_hex()));
}

Status ArchiveWriter::end_pack(LayerWriter& layer, Plan& plan, const Plan::Pack& item,
                               const ContentHash& hash) {
  FileEntry& file = plan.files[item.file];
  const Source& source = sources_[item.source];
  if (source.hash && *source.hash != hash) {
    return changed(item.source, {file.path, LeftOutReason::kBusy,
                                 source.file.local + " changed while it was read"});
  }
  file.sha256 = hash;
  for (const size_t link : item.links) {
    FileEntry& other = plan.files[link];
    other.from = file.stored_as();
    if (auto added = layer.add_link(other.path, other.from, other.executable); !added) return added;
  }
  return {};
}

Status ArchiveWriter::changed(size_t source, const LeftOut& why) {
  changed_ = Changed{source, why};
  return fail(ErrorCode::kUnavailable, why.path + ": " + why.detail);
}

Result<WrittenBlob> ArchiveWriter::put_blob(const char* media_type, const std::string& content) {
  auto blob = store_.create(media_type);
  if (!blob) return unexpected(blob.error());
  auto written = (*blob)->write({reinterpret_cast<const uint8_t*>(content.data()), content.size()});
  if (!written) return unexpected(written.error());
  auto finished = (*blob)->commit(request_.without);
  if (finished && !finished->existed) result_.written_bytes += finished->size;
  return finished;
}

// Where there are too many, the parent's go.
void ArchiveWriter::take_notes() {
  for (const auto* notes : {&request_.notes, &parent_.notes}) {
    for (const auto& [name, text] : *notes) {
      if (config_.notes.size() < kMostNotes && text.size() <= kLongestNote) {
        config_.notes.emplace(name, text);
      }
    }
  }
}

Result<WriteResult> ArchiveWriter::commit(Plan plan) {
  config_.files = std::move(plan.files);
  take_notes();
  auto encoded = encode_config(config_);
  if (!encoded) return unexpected(encoded.error());
  auto config = put_blob(kConfigMediaType, *encoded);
  if (!config) return unexpected(config.error().with("writing the config"));
  manifest_.config = {kConfigMediaType, config->digest, config->size};
  manifest_.annotations = request_.annotations;
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

const char* to_string(LeftOutReason reason) {
  switch (reason) {
    case LeftOutReason::kBusy:
      return "busy";
    case LeftOutReason::kUnreadable:
      return "unreadable";
    case LeftOutReason::kVanished:
      return "vanished";
    case LeftOutReason::kNotRegular:
      return "not_regular";
    case LeftOutReason::kInvalidPath:
      return "invalid_path";
    case LeftOutReason::kTooLarge:
      return "too_large";
    case LeftOutReason::kIncomplete:
      return "incomplete";
  }
  return "unknown";
}

Result<WriteResult> write_archive(BlobStore& store, WriteRequest request) {
  return ArchiveWriter(store, std::move(request)).run();
}

}  // namespace compilecache::archive
