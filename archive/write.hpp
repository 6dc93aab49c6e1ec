#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "archive/blob_store.hpp"
#include "archive/checkpoint.hpp"
#include "archive/format.hpp"
#include "archive/fs.hpp"
#include "archive/manifest.hpp"
#include "base/error.hpp"

// Writes an archive: the files that its parent lacks as one new layer, a new config, a new
// manifest.
//
//   WriteRequest request;
//   request.parent = head.manifest;                          // empty: a first save
//   request.files = {{"/compilecache/cache/torch/ab/x.py", "torch/ab/x.py"}};
//   auto saved = write_archive(store, request);
//   if (saved && !saved->nothing_new) commit(saved->archive.manifest, saved->archive.blobs());
//
// The new archive is the union: what the parent holds stays unless a given file has the same path
// with another content. When the parent has kMaxLayers layers, or half of its stored bytes would be
// superseded, one full layer is written instead.
//
// All blobs are durable when the call returns; nothing refers to them until the caller commits the
// manifest's digest. Any number of processes may write into one store at once.
// Memory: below 128 MiB at any level; high levels get fewer threads and smaller frames.

namespace compilecache::archive {

inline constexpr uint64_t kManyFiles = 10'000;
inline constexpr uint64_t kFrameOfMany = 4ULL << 20;

struct SourceFile {
  std::string local;  // an absolute path, or one below `folder`; a link at its end is not followed
  std::string path;   // in the archive
  // Where others change what is read: no link on the way from this folder is followed then.
  std::shared_ptr<const Fd> folder;
  // Files with the same number, not 0, are of use only together: where no archive can hold one of
  // them, none is packed.
  uint32_t unit = 0;
};

struct WriteSettings {
  int compression_level = 9;  // zstd's, 1 to 19
  // Plain bytes of a frame, 64 KiB to Limits::max_frame_bytes. Larger ones find more of what files
  // have in common (16 near-equal vLLM caches, 571 MB: 11 MB in frames of 4 MiB, 7.6 in 8, 3.9 in
  // 16), smaller ones take less memory: archives of more than kManyFiles have no larger ones than
  // kFrameOfMany, as lists of files take memory too.
  uint64_t frame_bytes = 16ULL << 20;
  unsigned threads = 2;                     // that compress
  size_t compressor_bytes = 92U << 20;      // less is left where there are many files
  uint64_t max_archive_bytes = 1ULL << 30;  // of all blobs of the archive together
  Limits limits;
};

struct WriteRequest {
  std::string parent;                        // digest of its manifest, or empty
  std::vector<SourceFile> files;             // what may be new; at most one for each path
  Annotations annotations;                   // of the manifest
  std::map<std::string, std::string> notes;  // beside the parent's (Config::notes)
  WriteSettings settings;
  // What no archive is to hold, by its path, whoever packed it; may be empty. What the parent has
  // of it goes, with its bytes: all else is written anew.
  std::function<bool(const std::string& path)> unwanted;
  // Digests that are about to be deleted: written anew even if a blob of that name is there.
  std::vector<std::string> without;
  Checkpoint checkpoint;  // may be empty
};

enum class LeftOutReason {
  kBusy,         // changed while it was read; a later save may have it
  kUnreadable,   // no permission, or an I/O error
  kVanished,     // is not there any more
  kNotRegular,   // a link, device, directory, ...
  kInvalidPath,  // cannot stand in an archive, see check_archive_path
  kTooLarge,     // no archive can hold it: larger than all may be, or packed too small to be taken
  kIncomplete,   // of no use without another of its unit, which is kTooLarge
};
const char* to_string(LeftOutReason reason);

struct LeftOut {
  std::string path;  // in the archive
  LeftOutReason reason;
  std::string detail;  // for people; of kTooLarge with sizes, limit and what to do
};

struct WriteResult {
  // The parent holds everything already; `archive` describes the parent (or is empty without one).
  bool nothing_new = false;
  bool compacted = false;  // one full layer was written in place of a delta
  ArchiveInfo archive;
  uint64_t added_files = 0;        // new or changed
  uint64_t added_plain_bytes = 0;  // of these
  uint64_t written_bytes = 0;      // to the volume
  std::vector<LeftOut> left_out;
};

// kInvalid: settings or request make no sense; kNotFound: a blob of the parent is not there (or not
// seen, on a network file system); kCorrupt: one is not what its digest promises; both name it and
// are never about what is written; kTooLarge: all files together would exceed max_archive_bytes or
// what a reader accepts (one that does so alone is left out); kUnavailable: too many files keep
// changing, try later; kCancelled; kIo. On any error nothing is left behind but whole unreferenced
// blobs, which the next sweep takes.
Result<WriteResult> write_archive(BlobStore& store, WriteRequest request);

}  // namespace compilecache::archive
