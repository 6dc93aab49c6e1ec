#include "archive/oci/oci_archive.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>

#include "archive/blob_store.hpp"
#include "archive/layer/tar_parser.hpp"
#include "archive/layer/tar_writer.hpp"
#include "base/checked_json.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {
namespace {

constexpr size_t kChunkBytes = 256U << 10;
constexpr std::string_view kBlobs = "blobs/sha256/";
constexpr uint64_t kMaxIndexBytes = 1U << 20;
// The most entries of the tar: an archive's blobs, other manifests, directories.
constexpr uint64_t kMaxTarEntries = 1000;

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Puts the tar's blobs into the store and keeps its index in memory.
class LayoutSink : public TarSink {
 public:
  LayoutSink(BlobStore& store, const Limits& limits) : store_(store), limits_(limits) {}

  [[nodiscard]] const std::string& index() const { return index_; }

  Status begin_file(const TarEntry& entry) override {
    path_ = entry.path;
    total_ += entry.size;
    // No archive is larger: that is the most plain bytes, uncompressed, and a little more.
    if (total_ > limits_.max_plain_bytes + limits_.max_config_plain_bytes)
      return fail(ErrorCode::kTooLarge, "it holds more than an archive may");
    if (path_ == "index.json" && entry.size > kMaxIndexBytes)
      return fail(ErrorCode::kTooLarge, "its index.json is larger than 1 MiB");
    if (!path_.starts_with(kBlobs)) return {};
    if (!is_digest("sha256:" + path_.substr(kBlobs.size())))
      return fail(ErrorCode::kCorrupt, path_ + " is not named by a SHA-256");
    // Only the index says which blobs are manifests, and it may be the last entry.
    auto blob = store_.create(kLayerMediaType);
    if (!blob) return unexpected(blob.error());
    blob_ = std::move(*blob);
    return {};
  }
  Status data(std::span<const uint8_t> bytes, const std::shared_ptr<const void>&) override {
    if (blob_) return blob_->write(bytes);
    if (path_ == "index.json") index_.append(bytes.begin(), bytes.end());
    return {};
  }
  Status end_file() override {
    if (!blob_) return {};
    auto finished = blob_->commit({});
    blob_.reset();
    if (!finished) return unexpected(finished.error());
    if (finished->digest != "sha256:" + path_.substr(kBlobs.size()))
      return fail(ErrorCode::kCorrupt, path_ + " holds " + finished->digest);
    return {};
  }

 private:
  BlobStore& store_;
  const Limits& limits_;
  std::string path_, index_;
  uint64_t total_ = 0;
  std::unique_ptr<BlobWriter> blob_;
};

Result<Fd> open_input(const std::string& path) {
  if (path == kStandardStream) return Fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
  auto file = open_regular(path);
  if (!file) return unexpected(file.error());
  return std::move(file->fd);
}

Status parse_tar(const std::string& path, TarSink& sink) {
  auto file = open_input(path);
  if (!file) return unexpected(file.error());
  TarParser parser(sink, kMaxTarEntries);
  std::vector<uint8_t> chunk(kChunkBytes);
  for (;;) {
    auto count = read_full(file->get(), chunk, path);
    if (!count) return unexpected(count.error());
    if (auto fed = parser.feed(std::span(chunk).first(*count), nullptr); !fed) return fed;
    if (*count < chunk.size()) return parser.finish();
  }
}

Result<UnpackedOciArchive> parse_entries(const std::string& index) {
  if (index.empty()) return fail(ErrorCode::kCorrupt, "it has no index.json: no OCI image layout");
  auto json = parse_json(index, "its index.json");
  if (!json) return unexpected(json.error());
  UnpackedOciArchive unpacked;
  const auto manifests = json->is_object() ? json->find("manifests") : json->end();
  if (manifests == json->end() || !manifests->is_array())
    return fail(ErrorCode::kCorrupt, "its index.json has no list of manifests");
  for (const auto& item : *manifests) {
    const auto digest = string_member(item, "digest");
    if (!digest || !is_digest(*digest))
      return fail(ErrorCode::kCorrupt, "its index.json has an entry without a usable digest");
    const auto annotations = item.find("annotations");
    const auto name =
        annotations == item.end() ? std::nullopt : string_member(*annotations, kAnnotationName);
    unpacked.entries.push_back({*digest, name.value_or("")});
  }
  return unpacked;
}

}  // namespace

Result<OciArchiveWriter> OciArchiveWriter::create(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  if (::access(path.c_str(), F_OK) == 0)
    return fail(ErrorCode::kConflict, path + " is there already; give another name, or remove it");
  std::string temporary = folder + incomplete_name();
  Fd fd(create_file(temporary));
  if (!fd.valid()) return unexpected(local_error("creating a file beside " + path, errno));
  return OciArchiveWriter(path, std::move(temporary), std::move(fd));
}

OciArchiveWriter OciArchiveWriter::to_standard_output() {
  return OciArchiveWriter("standard output", "", Fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)));
}

OciArchiveWriter::~OciArchiveWriter() {
  if (fd_.valid() && !temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OciArchiveWriter::begin(const std::string& name, uint64_t size) {
  const std::string header = tar_header({name, TarType::kFile, size, false, ""});
  return write_all(fd_.get(), bytes_of(header), target());
}

Status OciArchiveWriter::pad(uint64_t size) {
  return write_all(fd_.get(), bytes_of(std::string(tar_padding(size), '\0')), target());
}

Status OciArchiveWriter::add(const std::string& name, const std::string& content) {
  if (auto begun = begin(name, content.size()); !begun) return begun;
  if (auto written = write_all(fd_.get(), bytes_of(content), target()); !written) return written;
  return pad(content.size());
}

Status OciArchiveWriter::add_blob(const BlobStore& store, const Descriptor& blob) {
  if (auto good = check_blob_size(store, blob); !good) return good;
  const auto reader = store.open(blob);
  if (!reader) return unexpected(reader.error());
  (*reader)->expect_sequential_reads();
  if (auto begun = begin(std::string(kBlobs) + blob.digest.substr(7), blob.size); !begun)
    return begun;
  Sha256 hash;
  std::vector<uint8_t> chunk(kChunkBytes);
  for (uint64_t left = blob.size; left > 0;) {
    const auto piece = std::span(chunk).first(std::min<uint64_t>(left, chunk.size()));
    auto count = (*reader)->read_at(piece, blob.size - left);
    if (!count) return unexpected(count.error());
    if (*count != piece.size())
      return fail(ErrorCode::kCorrupt, "blob " + blob.digest + " is cut off");
    hash.update(piece);
    if (auto written = write_all(fd_.get(), piece, target()); !written) return written;
    left -= piece.size();
  }
  if ("sha256:" + hash.finish_hex() != blob.digest)
    return fail(ErrorCode::kCorrupt, "blob " + blob.digest + " in " + store.describe() +
                                         " is not what its name promises: the archive is lost");
  return pad(blob.size);
}

Status OciArchiveWriter::finish() {
  if (auto written = write_all(fd_.get(), bytes_of(std::string(kTarEndBytes, '\0')), target());
      !written)
    return written;
  if (temporary_.empty()) return {};
  if (auto synced = sync_file(fd_.get(), temporary_); !synced) return synced;
  if (auto renamed = rename_file(temporary_, path_, fd_.get()); !renamed) return renamed;
  temporary_.clear();
  if (const int error = fd_.close(); error != 0)
    return unexpected(local_error("closing " + path_, error));
  return {};
}

Result<UnpackedOciArchive> unpack_oci_archive(const std::string& path, BlobStore& store,
                                              const Limits& limits) {
  LayoutSink sink(store, limits);
  const std::string context = "unpacking " + path;
  if (auto parsed = parse_tar(path, sink); !parsed) return unexpected(parsed.error().with(context));
  if (auto synced = store.sync(); !synced) return unexpected(synced.error().with(context));
  auto entries = parse_entries(sink.index());
  if (!entries) return unexpected(entries.error().with(context));
  return entries;
}

}  // namespace compilecache::archive
