#include "store/access/copy.hpp"

#include <algorithm>
#include <set>

#include "archive/format.hpp"
#include "store/checked_blob.hpp"
#include "store/signatures.hpp"

namespace compilecache::store {
namespace {

using archive::BlobStore;
using archive::Descriptor;

// What cannot be read is as good as missing: it is written anew.
bool has_whole(const BlobStore& store, const Descriptor& blob) {
  if (!archive::check_blob_size(store, blob)) return false;
  const auto reader = store.open(blob);
  if (!reader) return false;
  (*reader)->expect_sequential_reads();
  return check_blob(blob, **reader).has_value();
}

class Copy {
 public:
  Copy(const BlobStore& from, Store& to) : from_(from), to_(to) {}

  Status blob(const Descriptor& blob) {
    if (!done_.insert(blob.digest).second || has_whole(to_, blob)) return {};
    return put(blob);
  }
  // Whether it is there or not: where a registry has it without a tag, it gets one.
  Status manifest(const archive::Manifest& manifest) {
    return put({archive::kManifestMediaType, manifest.digest, manifest.size});
  }

  CopyReport report;

 private:
  Status put(const Descriptor& blob) {
    if (blob.size == 0)
      return unexpected(
          Error{ErrorCode::kCorrupt, "blob " + blob.digest + " is empty", blob.digest});
    if (auto good = archive::check_blob_size(from_, blob); !good) return good;
    const auto reader = from_.open(blob);
    if (!reader) return unexpected(reader.error());
    (*reader)->expect_sequential_reads();
    if (auto received = to_.receive(blob, **reader); !received) return received;
    ++report.copied_blobs;
    report.copied_bytes += blob.size;
    return {};
  }

  const BlobStore& from_;
  Store& to_;
  std::set<std::string> done_;
};

bool has(const std::vector<Signature>& signatures, const Signature& wanted) {
  return std::any_of(signatures.begin(), signatures.end(), [&](const Signature& one) {
    return one.message == wanted.message && one.signature == wanted.signature;
  });
}

int64_t newest_file(const archive::Config& config) {
  int64_t newest = 0;
  for (const auto& file : config.files) newest = std::max(newest, file.modified_ns.value_or(0));
  return newest;
}

}  // namespace

Result<CopyReport> copy_archive(const BlobStore& from, Store& to,
                                const std::string& manifest_digest) {
  const std::string context =
      "copying " + manifest_digest + " from " + from.describe() + " to " + to.describe();
  const auto manifest = archive::read_manifest(from, manifest_digest);
  if (!manifest) return unexpected(manifest.error().with(context));
  const auto config = archive::read_config(from, *manifest);
  if (!config) return unexpected(config.error().with(context));
  Copy copy(from, to);
  copy.report.archive = archive::describe(*manifest, *config);
  copy.report.annotations = manifest->annotations;
  copy.report.newest_file_ns = newest_file(*config);
  for (const Descriptor& layer : manifest->layers) {
    if (auto copied = copy.blob(layer); !copied) return unexpected(copied.error().with(context));
  }
  if (auto copied = copy.blob(manifest->config); !copied)
    return unexpected(copied.error().with(context));
  // No manifest is there before its blobs are.
  if (auto synced = to.sync(); !synced) return unexpected(synced.error().with(context));
  if (auto copied = copy.manifest(*manifest); !copied)
    return unexpected(copied.error().with(context));
  if (auto synced = to.sync(); !synced) return unexpected(synced.error().with(context));
  return std::move(copy.report);
}

Result<size_t> copy_signatures(Store& from, Store& to, const std::string& manifest_digest) {
  Signatures *source = from.signatures(), *target = to.signatures();
  if (source == nullptr || target == nullptr) return 0;
  const auto found = source->of(manifest_digest);
  if (!found) return unexpected(found.error());
  const auto there = target->of(manifest_digest);
  if (!there) return unexpected(there.error());
  size_t added = 0;
  for (const Signature& one : *found) {
    // Whoever pushes there can put any signature beside any archive.
    if (one.subject != manifest_digest || has(*there, one)) continue;
    if (auto put = target->add(one); !put) return unexpected(put.error());
    ++added;
  }
  return added;
}

}  // namespace compilecache::store
