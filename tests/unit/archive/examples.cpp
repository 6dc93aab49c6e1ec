// The examples in the headers of archive/, word for word (tests/support/header_examples.py). They
// are compiled and never run.

#include <fcntl.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "archive/beneath.hpp"
#include "archive/blob_store.hpp"
#include "archive/extract/content_queue.hpp"
#include "archive/extract/extract.hpp"
#include "archive/extract/output_file.hpp"
#include "archive/format.hpp"
#include "archive/fs.hpp"
#include "archive/layer/layer_writer.hpp"
#include "archive/layer/shared_state.hpp"
#include "archive/manifest.hpp"
#include "archive/oci/oci_archive.hpp"
#include "archive/write/packer.hpp"
#include "archive/write/plan.hpp"
#include "archive/write/source.hpp"
#include "archive/write/write.hpp"
#include "base/error.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::archive_examples {

using namespace archive;

inline void beneath() {
  const Fd folder = open_folder("/compilecache/cache/torch", O_RDONLY);
  const Fd file = open_beneath(folder.get(), "ab/x.py", O_RDONLY | O_NONBLOCK);
}

inline void blob_store(BlobStore& store, std::span<const uint8_t> bytes, std::span<uint8_t> piece,
                       uint64_t offset) {
  auto blob = store.create(kLayerMediaType);
  (*blob)->write(bytes);
  auto written = (*blob)->commit({});
  store.sync();

  auto reader = store.open({kLayerMediaType, written->digest, written->size});
  (*reader)->read_at(piece, offset);
}

inline void content_queue(ContentQueue& queue, std::unique_ptr<OutputFile> file,
                          std::span<const uint8_t> piece,
                          const std::shared_ptr<const void>& owner) {
  auto content = ContentQueue::begin(std::move(file));
  queue.add(content, piece, owner);
  queue.flush();
}

inline void extraction(const BlobStore& store, const std::string& digest) {
  ExtractOptions options;
  options.roots = {{"torch", "/cache/torch"}, {"triton", "/cache/triton"}};
  auto loaded = extract(store, digest, options);
}

inline void shared_state(Activity& activity, bool (*something_to_do)()) {
  using namespace std::chrono_literals;

  const uint64_t seen = activity.count();
  if (!something_to_do()) activity.wait(seen, 50ms);
}

inline Result<uint64_t> manifests(const BlobStore& store, const std::string& digest) {
  auto manifest = read_manifest(store, digest);
  if (!manifest) return unexpected(manifest.error());
  auto config = read_config(store, *manifest);
  if (const FileEntry* file = config->find("torch/ab/cabc.py")) return file->size;
  return 0;
}

inline void oci_archive(const BlobStore& store, const Descriptor& descriptor,
                        const std::string& text) {
  auto writer = OciArchiveWriter::create("/tmp/llama.tar");
  writer->add("oci-layout", text);
  writer->add_blob(store, descriptor);
  writer->finish();
}

inline void packing(std::span<uint8_t> chunk, LayerWriter& layer,
                    const std::vector<Source>& sources, Plan& plan, const Limits& limits) {
  Packer packer(chunk);
  auto packed = packer.pack(layer, sources, plan);
  if (!packed && packer.changed()) return;
  if (auto ended = layer.end(); !ended) {
    const auto useless = packer.beyond_ratio(layer, limits.max_ratio);
    return;
  }
  packer.forget();
}

inline void source_reader(const Source& source, std::span<uint8_t> chunk, bool (*more)()) {
  auto reader = SourceReader::open(source);
  while (more()) reader->read(chunk);
  auto same = reader->finish();
}

inline void writing(BlobStore& store, const ArchiveInfo& head,
                    void (*commit)(const std::string&, const std::vector<std::string>&)) {
  WriteRequest request;
  request.parent = head.manifest;
  request.files = {{"/compilecache/cache/torch/ab/x.py", "torch/ab/x.py"}};
  auto saved = write_archive(store, request);
  if (saved && !saved->nothing_new) commit(saved->archive.manifest, saved->archive.blobs());
}

}  // namespace compilecache::archive_examples

#pragma GCC diagnostic pop
