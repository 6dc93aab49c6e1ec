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
// The new archive is the union: the parent's files stay unless a given file has the same path and
// another content. When the parent has kMaxLayers layers, or half of its stored bytes would be
// superseded, the new layer takes in the last of the parent's, or all (plan.hpp, kept_layers).
// Their content is read from the store, whatever this machine has of it.
//
// All blobs are durable when the call returns; nothing refers to them until the caller commits the
// manifest's digest. Any number of processes may write into one store at once.
// Memory: below 128 MiB at any level; high levels get fewer threads and smaller frames.

namespace compilecache::archive {

struct WriteRequest {
  std::string parent;                        // digest of its manifest, or empty
  std::vector<SourceFile> files;             // what may be new; at most one for each path
  Annotations annotations;                   // of the manifest
  std::map<std::string, std::string> notes;  // added to the parent's (Config::notes)
  WriteSettings settings;
  // Whether no archive may contain the file with this path; may be empty. If the parent has such
  // files, all others are rewritten, so that these files and their bytes are dropped.
  std::function<bool(const std::string& path)> unwanted;
  // Whether the parent's file with this path is of no use any more; may be empty. Its bytes are
  // dropped when the layer that has them is rewritten.
  std::function<bool(const std::string& path)> dropped;
  // Write an archive although no file is new, for its notes or what is dropped.
  bool anew = false;
  // Digests of blobs that are about to be deleted: they are rewritten even if they exist.
  std::vector<std::string> without;
  Checkpoint checkpoint;  // may be empty
};

struct WriteResult {
  // The parent has everything already; `archive` describes the parent (or is empty without one).
  bool nothing_new = false;
  bool compacted = false;  // the new layer took in layers of the parent
  ArchiveInfo archive;
  uint64_t added_files = 0;        // new or changed
  uint64_t added_plain_bytes = 0;  // of these
  uint64_t written_bytes = 0;      // to the store
  std::vector<LeftOut> left_out;
};

// kInvalid: settings or request make no sense. kNotFound: a blob of the parent is missing (or not
// yet visible, on a network file system). kCorrupt: a blob of the parent does not match its digest.
// Both name that blob and never mean the new archive. kTooLarge: all files together would exceed
// max_archive_bytes (a file that does so alone is left out, and so are units beyond a reader's
// limits). kUnavailable:
// too many files keep changing, try later. kCancelled, kIo. After any error nothing is left but
// whole blobs that no head reaches, which later sweeps delete.
Result<WriteResult> write_archive(BlobStore& store, WriteRequest request);

}  // namespace compilecache::archive
