#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "archive/blob_store.hpp"
#include "archive/checkpoint.hpp"
#include "archive/format.hpp"
#include "archive/manifest.hpp"
#include "base/error.hpp"

// Reads an archive: into directories, or only to check it.
//
//   ExtractOptions options;
//   options.roots = {{"torch", "/cache/torch"}, {"triton", "/cache/triton"}};
//   auto loaded = extract(store, digest, options);
//
// Each layer is read once, from beginning to end; frames are decoded and files created in parallel;
// nothing is synced. After any failure all that was created is removed again. Manifest, config and
// every file's content are checked against their digests, so no unchecked byte is handed over.
// Layers are also hashed as a whole, which finds damage in superseded files: verify() hashes all
// layers, extract() those below a bound.

namespace compilecache::archive {

// Where the files below one top-level directory of the archive go.
struct RootMapping {
  std::string root;       // "torch"; "" for a mapping of the whole archive to one directory
  std::string directory;  // absolute; made (0777) when missing, its parents must exist
};

struct ExtractOptions {
  std::vector<RootMapping> roots;
  unsigned threads = 2;
  // The list of files may take up to half of it.
  uint64_t memory_bytes = kReadMemoryBytes;
  // A digest is computed by one thread, 18 ms for this size at 1.8 GB/s. For content that hardly
  // compresses that would take longer than all the rest, which runs in parallel.
  uint64_t hash_layers_up_to = 32ULL << 20;
  Limits limits;
  Checkpoint checkpoint;  // may be empty
  // Whether the file with this path is wanted; layers without a wanted file are not read. May be
  // empty: all are.
  std::function<bool(const std::string& path)> wanted;
  // Is called when manifest and config were read, the latter with the wanted files, before anything
  // is created; if it fails, the call ends with its error. May be empty.
  std::function<Status(const Manifest&, const Config&)> before_creating;
};

struct ExtractReport {
  uint64_t files = 0;
  uint64_t plain_bytes = 0;
  uint64_t compressed_bytes = 0;           // read
  std::vector<std::string> skipped_roots;  // in the archive, but not in the mapping
  uint64_t skipped_files = 0;              // of these
  uint64_t unwanted_files = 0;             // that options.wanted refused
};

// Creates files with mode 0666 (0777 if executable) and directories with 0777, whatever the umask,
// so that an application of any user can extend them. Each file has the modification time with
// which it was saved; its access time is 1970-01-01T00:00:01Z, so that later reads can be noticed.
// kNotFound: a blob is missing. kCorrupt: a blob does not match its digest, or is no archive that
// our writer makes (the message names the digest). kConflict: a file exists already. kTooLarge:
// over a limit. kCancelled, kIo. After any error the directories are as before.
Result<ExtractReport> extract(const BlobStore& store, const std::string& manifest_digest,
                              const ExtractOptions& options);

struct VerifyOptions {
  unsigned threads = 2;
  uint64_t memory_bytes = kReadMemoryBytes;
  Limits limits;
  Checkpoint checkpoint;
};

// Reads and checks everything (manifest, config, layers, files) and writes nothing; all blobs are
// read in the store, also those that the manifest has too. Errors as above.
Result<ArchiveInfo> verify(const BlobStore& store, const std::string& manifest_digest,
                           const VerifyOptions& options = {});

}  // namespace compilecache::archive
