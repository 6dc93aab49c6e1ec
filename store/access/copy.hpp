#pragma once

#include <cstdint>
#include <string>

#include "archive/manifest.hpp"
#include "base/error.hpp"
#include "store/store.hpp"

namespace compilecache::store {

struct CopyReport {
  archive::ArchiveInfo archive;
  archive::Annotations annotations;  // of the manifest
  // When the newest of its files was written, in nanoseconds since 1970; 0: it does not say.
  int64_t newest_file_ns = 0;
  uint64_t copied_blobs = 0, copied_bytes = 0;  // without what was there
};

// Copies an archive from one store into another, of whichever kinds; digests stay as they are.
//
//   auto copied = copy_archive(from, to, digest);     // the store has it; nothing names it yet
//
// Blobs are streamed, one at a time, and each is checked; one that is there already is read and
// stays if it is right. The manifest comes last, so that after a failure, wherever it was, there
// are but blobs that no manifest names: a second call goes on where the first one ended. Errors are
// those of archive::read_manifest and Store::receive; the message says of which store.
Result<CopyReport> copy_archive(const archive::BlobStore& from, Store& to,
                                const std::string& manifest_digest);

// Puts the signatures of an archive beside its copy, those that are not there yet; how many those
// were. None where one of the stores has no place for them.
Result<size_t> copy_signatures(Store& from, Store& to, const std::string& manifest_digest);

}  // namespace compilecache::store
