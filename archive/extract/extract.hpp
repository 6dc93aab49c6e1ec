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
// nothing is synced. When anything is wrong all that was created is removed again. Manifest, config
// and every file's content are checked against their digests, so no byte is handed over that was
// not checked. Layers are hashed as a whole too, which finds damage in what nobody uses: all by
// verify(), by extract() those below a bound.

namespace compilecache::archive {

// Where the files below one top-level directory of the archive go.
struct RootMapping {
  std::string root;       // "torch"; "" for a mapping of the whole archive to one directory
  std::string directory;  // absolute; made (0777) when missing, its parents must exist
};

struct ExtractOptions {
  std::vector<RootMapping> roots;
  unsigned threads = 2;
  // Up to half of it is left to the list of files.
  uint64_t memory_bytes = kReadMemoryBytes;
  // A digest is one chain, 18 ms for this much at 1.8 GB/s: where content hardly compresses it
  // would take longer than everything else, which goes side by side.
  uint64_t hash_layers_up_to = 32ULL << 20;
  Limits limits;
  Checkpoint checkpoint;  // may be empty
  // Asked once it is known what the archive holds, before anything is created; an error of it ends
  // the call. May be empty.
  std::function<Status(const Config&)> before_creating;
};

struct ExtractReport {
  uint64_t files = 0;
  uint64_t plain_bytes = 0;
  uint64_t compressed_bytes = 0;           // read
  std::vector<std::string> skipped_roots;  // in the archive, but not in the mapping
  uint64_t skipped_files = 0;
};

// Files come out 0666 (0777 if executable) and directories 0777 whatever the umask, so that an app
// of any user can extend them; every file's time of writing is the one that it was saved with, its
// access time is 1970-01-01T00:00:01Z, so that a later read shows. kNotFound: a blob is missing;
// kCorrupt: a blob is not what its digest promises, or not an archive that a writer of ours makes
// (the message names the digest); kConflict: a file is already there; kTooLarge: over a limit;
// kCancelled; kIo. After any error the directories are as before.
Result<ExtractReport> extract(const BlobStore& store, const std::string& manifest_digest,
                              const ExtractOptions& options);

struct VerifyOptions {
  unsigned threads = 2;
  uint64_t memory_bytes = kReadMemoryBytes;
  Limits limits;
  Checkpoint checkpoint;
};

// Reads everything and writes nothing: manifest, config, every layer, every file. Errors as above.
Result<ArchiveInfo> verify(const BlobStore& store, const std::string& manifest_digest,
                           const VerifyOptions& options = {});

}  // namespace compilecache::archive
