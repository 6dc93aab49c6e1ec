#include "targets.hpp"

#include <zstd.h>

#include <algorithm>
#include <vector>

#include "archive/encode.hpp"
#include "archive/layer/layer_reader.hpp"
#include "archive/layer/seek_table.hpp"
#include "archive/layer/tar_parser.hpp"
#include "archive/manifest.hpp"
#include "base/clock.hpp"
#include "base/sha256.hpp"
#include "store/index.hpp"
#include "store/memory/memory_store.hpp"

namespace compilecache::fuzz {
namespace {

using namespace compilecache::archive;

using Bytes = std::span<const uint8_t>;

Limits small_limits() {
  Limits limits;
  limits.max_entries = 2'000;
  limits.max_plain_bytes = 32ULL << 20;
  limits.max_config_plain_bytes = 4ULL << 20;
  limits.max_frame_bytes = 1ULL << 20;
  return limits;
}

store::MemoryStore& memory() {
  static const SystemClock clock;
  static store::MemoryStore the_store(clock);
  return the_store;
}

// A blob with the right digest, gone again at the end.
class Blob {
 public:
  explicit Blob(const std::string& content) : digest_("sha256:" + sha256_hex(content)) {
    memory().put(digest_, content);
  }
  ~Blob() { memory().take(digest_); }
  Blob(const Blob&) = delete;
  Blob& operator=(const Blob&) = delete;
  [[nodiscard]] const std::string& digest() const { return digest_; }

 private:
  std::string digest_;
};

void manifest(Bytes input) {
  const Blob blob(text(input));
  const auto read = read_manifest(memory(), blob.digest());
  if (!read) return;
  require(read->layers.size() <= kMaxLayers && is_digest(read->config.digest),
          "a manifest's blobs");
  for (const Descriptor& layer : read->layers)
    require(layer.data.empty() || "sha256:" + sha256_hex(layer.data) == layer.digest,
            "what a manifest carries is what it promises");
  const Blob encoded(encode_manifest(*read));
  const auto again = read_manifest(memory(), encoded.digest());
  require(again.has_value(), "a manifest that is written can be read");
  require(again->annotations == read->annotations && again->layers.size() == read->layers.size() &&
              again->config.digest == read->config.digest &&
              again->config.data == read->config.data,
          "a manifest stays the same");
}

bool same_files(const Config& a, const Config& b) {
  return std::equal(a.files.begin(), a.files.end(), b.files.begin(), b.files.end(),
                    [](const FileEntry& x, const FileEntry& y) {
                      return x.path == y.path && x.size == y.size && x.sha256 == y.sha256 &&
                             x.layer == y.layer && x.stored_as() == y.stored_as() &&
                             x.executable == y.executable;
                    });
}

// The first byte says whether the rest is JSON or already compressed.
void config(Bytes input) {
  if (input.empty()) return;
  std::string content = text(input.subspan(1));
  if (input[0] % 2 == 0) {
    std::string compressed(ZSTD_compressBound(content.size()), '\0');
    compressed.resize(
        ZSTD_compress(compressed.data(), compressed.size(), content.data(), content.size(), 1));
    content = std::move(compressed);
  }
  const auto decoded = decode_config(content, small_limits());
  if (!decoded) return;
  for (size_t i = 0; i < decoded->files.size(); ++i) {
    const FileEntry& file = decoded->files[i];
    require(check_archive_path(file.path).has_value(), "paths can be in an archive");
    require(i == 0 || decoded->files[i - 1].path < file.path, "paths are sorted");
    require(file.layer < decoded->layers.size(), "layers are there");
  }
  const auto encoded = encode_config(*decoded);
  require(encoded.has_value(), "a config can be written");
  const auto again = decode_config(*encoded, {});
  require(again.has_value() && same_files(*decoded, *again), "a config stays the same");
}

void index(Bytes input) {
  const store::Index read = store::parse_index(text(input), "index.json");
  if (read.entries.empty()) return;
  const store::Index again = store::parse_index(store::index_text(read.entries), "index.json");
  require(again.problems.empty() && again.entries.size() == read.entries.size(),
          "an index that is written can be read");
  for (size_t i = 0; i < read.entries.size(); ++i)
    require(again.entries[i].digest == read.entries[i].digest, "an index stays the same");
}

// The first two bytes say how many bytes of frames are before the table.
void seek_table(Bytes input) {
  if (input.size() < 2) return;
  const Bytes table = input.subspan(2);
  const uint64_t before = input[0] * 256U + input[1];
  const auto parsed = parse_seek_table(table, before + table.size(), small_limits());
  if (!parsed) return;
  require(parsed->compressed_bytes() == before, "frames fill the layer");
  require(encode_seek_table(*parsed).size() == table.size(), "a table stays as long");
}

// Remembers the reported entries, and checks that they are allowed.
class Recorder : public LayerSink {
 public:
  Status begin_file(const TarEntry& entry) override {
    require(left_ == 0, "files come one after the other");
    require(check_archive_path(entry.path).has_value(), "paths can be in an archive");
    require(entry.type == TarType::kFile, "only files are reported");
    left_ = entry.size;
    heard_ += entry.path + "\n";
    return {};
  }
  Status data(Bytes bytes, const std::shared_ptr<const void>&) override {
    require(bytes.size() <= left_ && !bytes.empty(), "a file has as many bytes as its header says");
    left_ -= bytes.size();
    heard_ += text(bytes);
    return {};
  }
  Status end_file() override {
    require(left_ == 0, "a file is whole when it ends");
    return {};
  }
  [[nodiscard]] const std::string& heard() const { return heard_; }

 private:
  uint64_t left_ = 0;
  std::string heard_;
};

// The first byte says in pieces of which size the rest comes; it must not matter.
void tar(Bytes input) {
  if (input.empty()) return;
  const Bytes bytes = input.subspan(1);
  const auto parse = [&](size_t piece, Recorder& recorder) {
    TarParser parser(recorder, 1'000);
    for (size_t at = 0; at < bytes.size(); at += piece) {
      auto fed = parser.feed(bytes.subspan(at, std::min(piece, bytes.size() - at)), nullptr);
      if (!fed) return fed;
    }
    return parser.finish();
  };
  Recorder whole;
  Recorder pieces;
  const Status once = parse(bytes.size() + 1, whole);
  const Status again = parse(1U + input[0], pieces);
  require(once.has_value() == again.has_value(), "pieces do not matter");
  require(once || once.error().message == again.error().message, "pieces do not change the error");
  require(!once || whole.heard() == pieces.heard(), "pieces do not change the content");
}

// The first byte says whether the rest is a tar, to be packed in frames of this size, or a layer.
void layer(Bytes input) {
  if (input.empty()) return;
  std::string bytes = text(input.subspan(1));
  if (input[0] % 4 != 0) {
    const size_t frame = 256U * (1U + input[0]);
    SeekTable table;
    std::string frames;
    for (size_t at = 0; at < bytes.size(); at += frame) {
      const std::string plain = bytes.substr(at, frame);
      std::string compressed(ZSTD_compressBound(plain.size()), '\0');
      compressed.resize(
          ZSTD_compress(compressed.data(), compressed.size(), plain.data(), plain.size(), 1));
      table.frames.push_back(
          {static_cast<uint32_t>(compressed.size()), static_cast<uint32_t>(plain.size())});
      frames += compressed;
    }
    bytes = frames + encode_seek_table(table);
  }
  const Blob blob(bytes);
  // On this thread: the same input always takes the same way.
  ReadSession session({0, 2U << 20, small_limits(), nullptr});
  Recorder recorder;
  (void)read_layer(session, memory(), {kLayerMediaType, blob.digest(), bytes.size()}, recorder);
  session.pool.drain();
}

const Registration kRegistration{{"config", config},         {"index", index},
                                 {"layer", layer},           {"manifest", manifest},
                                 {"seek_table", seek_table}, {"tar", tar}};

}  // namespace
}  // namespace compilecache::fuzz
