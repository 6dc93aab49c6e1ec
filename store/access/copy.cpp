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

constexpr int kMostTries = 3;

// An unreadable blob counts as missing: it is written again.
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
  // All but the manifest.
  Status blobs_of(const archive::Manifest& manifest) {
    for (const Descriptor& layer : manifest.layers) {
      if (auto copied = blob(layer); !copied) return copied;
    }
    return blob(manifest.config);
  }
  // Whether it is there or not: where a registry has it without a tag, it gets one. kUnavailable,
  // with `lost`: the store has no longer what the manifest names.
  Status manifest(const archive::Manifest& manifest, bool& lost) {
    const Descriptor blob{archive::kManifestMediaType, manifest.digest, manifest.size};
    auto copied = put(blob);
    lost = !copied && copied.error().code == ErrorCode::kNotFound &&
           archive::check_blob_size(from_, blob).has_value();
    if (!lost) return copied;
    done_.clear();
    Error error = copied.error();
    error.code = ErrorCode::kUnavailable;
    return unexpected(error);
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
  // A registry that is collected in between deletes blobs that no manifest names yet.
  Status copied;
  for (int tries = 1;; ++tries) {
    bool lost = false;
    copied = copy.blobs_of(*manifest);
    // No manifest is there before its blobs are.
    if (copied) copied = to.sync();
    if (copied) copied = copy.manifest(*manifest, lost);
    if (!lost || tries == kMostTries) break;
  }
  if (copied) copied = to.sync();
  if (!copied) return unexpected(copied.error().with(context));
  return std::move(copy.report);
}

Result<size_t> copy_signatures(Store& from, Store& to, const std::string& manifest_digest) {
  Signatures *source = from.signatures(), *target = to.signatures();
  if (source == nullptr || target == nullptr) return 0;
  const FoundSignatures found = source->of(manifest_digest);
  const FoundSignatures there = target->of(manifest_digest);
  if (there.unread) return unexpected(*there.unread);
  size_t added = 0;
  for (const Signature& one : found.all) {
    // Anyone who pushes there can put any signature beside any archive.
    if (one.subject != manifest_digest || has(there.all, one)) continue;
    if (auto put = target->add(one); !put) return unexpected(put.error());
    ++added;
  }
  if (found.unread) return unexpected(*found.unread);
  return added;
}

}  // namespace compilecache::store
