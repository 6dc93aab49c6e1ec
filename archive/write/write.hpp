#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "archive/blob_store.hpp"
#include "archive/checkpoint.hpp"
#include "archive/layer/write_settings.hpp"
#include "archive/manifest.hpp"
#include "archive/write/source_file.hpp"
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

struct WriteResult {
  // The parent holds everything already; `archive` describes the parent (or is empty without one).
  bool nothing_new = false;
  bool compacted = false;  // one full layer was written in place of a delta
  ArchiveInfo archive;
  uint64_t added_files = 0;        // new or changed
  uint64_t added_plain_bytes = 0;  // of these
  uint64_t written_bytes = 0;      // to the store
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
