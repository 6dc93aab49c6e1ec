#pragma once

#include <cstdint>
#include <string>

#include "archive/manifest.hpp"
#include "base/error.hpp"
#include "store/store.hpp"

// One archive out of a store and into another, as an OCI archive (a tar file that skopeo,
// registries and containerd know).
//
//   export_archive(store, digest, "/tmp/llama.tar", {});
//   import_archive(other_store, "/tmp/llama.tar", {});       // the same digests
//
// An archive is an OCI artifact: what pulls and mounts images refuses it. Exported as an image
// (ExportOptions::image) its files are one layer under an image's config, which `docker`, `ctr` and
// Kubernetes' image volumes take; it cannot be imported again.

namespace compilecache::store {

struct ExportOptions {
  std::string name;  // the reference in the OCI archive; empty: the archive's own name
  bool image = false;
  std::string architecture = "amd64";  // of an image, as Go and OCI name it
};

struct ExportReport {
  std::string digest;  // of the manifest that was exported: the archive's, or the image's
  std::string name;
  uint64_t bytes = 0;  // of the file
};

// Every blob is checked on the way. An image is made in a folder beside `path` that needs room for
// the plain files. Errors as read_manifest's; kConflict: `path` is there already; kForbidden, kIo.
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

// Puts the archive into the store, checks every byte of it as a load does, and only then names it
// in the index. kConflict: the store has another archive of that name with the same or a higher
// generation; kInvalid: not an archive of ours, or not one, or a store without an index; kCorrupt.
// On any error nothing is left but unreferenced blobs, which the next sweep takes.
Result<ImportReport> import_archive(Store& store, const std::string& path,
                                    const ImportOptions& options);

}  // namespace compilecache::store
