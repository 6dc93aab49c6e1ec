#include "agent/sweep/copy.hpp"

#include <chrono>

#include "agent/index_lookup.hpp"
#include "base/log.hpp"
#include "base/time_format.hpp"
#include "store/access/copy.hpp"
#include "store/offline_index.hpp"

namespace compilecache::agent {
namespace {

// What trying again cannot mend.
bool is_lost(const Error& error) {
  return error.code == ErrorCode::kNotFound || error.code == ErrorCode::kCorrupt ||
         error.code == ErrorCode::kTooLarge || error.code == ErrorCode::kInvalid;
}

// A manifest does not say when it was saved, and an index may not: about when its newest file was
// written.
std::string about_when(const store::CopyReport& copied) {
  const std::chrono::nanoseconds since(copied.newest_file_ns);
  return format_time(WallTime(std::chrono::duration_cast<WallTime::duration>(since)));
}

}  // namespace

CopiedArchives copy_archives(store::Store& from, store::Store& to,
                             const std::set<api::ArchiveKey>& known,
                             const std::function<bool(api::FoundArchive)>& tell) {
  CopiedArchives result;
  const store::Index archives = store::archives_in(from);
  if (!archives.problems.empty()) {
    result.error = archives.problems.front();
  } else if (archives.entries.empty()) {
    result.error = from.describe() +
                   " names no archive; spec.storage.copyFrom.cache must be the name of the "
                   "CompileCache that saved there";
  }
  for (const store::IndexEntry& entry : archives.entries) {
    api::FoundArchive found = found_archive(entry, {});
    if (known.contains(found.key)) {
      ++result.there;
      continue;
    }
    const auto copied = store::copy_archive(from, to, entry.digest);
    if (!copied && is_lost(copied.error())) {
      log_warn(
          "an archive is left out",
          {{"archive", entry.name()}, {"digest", entry.digest}, {"error", copied.error().message}});
      continue;
    }
    if (!copied) {
      result.error = copied.error().message;
      break;
    }
    log_info("copied an archive", {{"archive", entry.name()},
                                   {"digest", entry.digest},
                                   {"blobs", std::to_string(copied->copied_blobs)},
                                   {"bytes", std::to_string(copied->copied_bytes)}});
    found = found_archive(entry, copied->archive);
    if (found.saved_at.empty() && copied->newest_file_ns > 0) found.saved_at = about_when(*copied);
    if (!tell(std::move(found))) {
      result.error = "the operator was not told of an archive that was copied";
      break;
    }
    ++result.there;
  }
  return result;
}

}  // namespace compilecache::agent
