#pragma once

#include <cstdint>
#include <string>

#include "archive/manifest.hpp"
#include "base/error.hpp"
#include "store/store.hpp"

// Exports an archive from a store and imports it into another, as an OCI archive (a tar file that
// skopeo, registries and containerd know).
//
//   export_archive(store, digest, "/tmp/llama.tar", {});
//   import_archive(other_store, "/tmp/llama.tar", {});       // the same digests
//
// An archive is an OCI artifact, which programs that pull and mount images refuse. Exported as an
// image (ExportOptions::image) its files are one layer under an image's config, which `docker`,
// `ctr` and Kubernetes' image volumes take; it cannot be imported again.

namespace compilecache::store {

struct ExportOptions {
  std::string name;  // the reference in the OCI archive; empty: the archive's name
  bool image = false;
  std::string architecture = "amd64";  // of an image, in the names of Go and OCI
};

struct ExportReport {
  std::string digest;  // of the exported manifest: the archive's, or the image's
  std::string name;
  uint64_t bytes = 0;  // of the file
};

// Every blob is checked. An image is made in a folder beside `path`, which needs room for the plain
// files. `path` "-": to standard output; what was written there before an error is no archive.
// Errors are those of read_manifest; kConflict: `path` exists already; kForbidden, kIo.
Result<ExportReport> export_archive(const archive::BlobStore& store,
                                    const std::string& manifest_digest, const std::string& path,
                                    const ExportOptions& options);

struct ImportOptions {
  std::string name;  // in the store; empty: the archive's own
};

struct ImportReport {
  archive::ArchiveInfo archive;
  std::string name;
  uint64_t generation = 0;
  bool existed = false;  // the index had it already
};

// Puts the archive into the store, checks every byte of it as a load does, and only then adds it to
// the index. kConflict: the index has another archive of that name with the same or a higher
// generation. kInvalid: the file does not have exactly one archive, or the store has no index.
// kCorrupt. After any error nothing is left but blobs that no head reaches, which later sweeps
// delete. `path` "-": from standard input.
Result<ImportReport> import_archive(Store& store, const std::string& path,
                                    const ImportOptions& options);

}  // namespace compilecache::store
