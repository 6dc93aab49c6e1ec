#include "operator/archives/adoption.hpp"

#include <algorithm>

#include "base/time_format.hpp"
#include "operator/archives/save_rules.hpp"

namespace compilecache::controller {
namespace {

// A generation grows by one with every save; none gets here by saving.
constexpr int64_t kMaxGeneration = int64_t{1} << 50;

// A time in the future would be the newest forever.
std::string past(const std::string& text, WallTime now) {
  const auto time = parse_time(text);
  if (!time) return "";
  return *time <= now ? text : format_time(now);
}

}  // namespace

Result<api::CompileCacheArchive> adopted_archive(const api::CompileCache& cache,
                                                 const std::optional<api::StoreRef>& store,
                                                 const api::FoundArchive& found, WallTime now) {
  const api::CommitRequest as_commit{.manifest_digest = found.manifest_digest,
                                     .blobs = found.blobs,
                                     .compressed_bytes = found.compressed_bytes,
                                     .plain_bytes = found.plain_bytes,
                                     .files = found.files,
                                     .layers = found.layers};
  if (const Status valid = check_commit_request(as_commit); !valid) {
    return unexpected(valid.error().with("taking over an archive"));
  }
  if (found.key.empty() || found.generation < 1 || found.generation > kMaxGeneration) {
    return fail(ErrorCode::kInvalid,
                "taking over archive " + found.manifest_digest +
                    ": its entry in the index has no key or no generation that can be meant");
  }
  api::CompileCacheArchive archive;
  archive.metadata.ns = cache.metadata.ns;
  archive.metadata.name = api::archive_name(cache.metadata.name, found.key);
  archive.cache = cache.metadata.name;
  archive.cache_uid = cache.metadata.uid;
  archive.key = found.key;
  archive.store = store;
  api::ArchiveHead& head = archive.head;
  head.manifest_digest = found.manifest_digest;
  head.generation = found.generation;
  head.compressed_bytes = found.compressed_bytes;
  head.plain_bytes = found.plain_bytes;
  head.files = found.files;
  head.layers = found.layers;
  head.saved_at = past(found.saved_at, now);
  head.blobs = found.blobs;
  if (std::find(head.blobs.begin(), head.blobs.end(), head.manifest_digest) == head.blobs.end()) {
    head.blobs.push_back(head.manifest_digest);
  }
  return archive;
}

}  // namespace compilecache::controller
