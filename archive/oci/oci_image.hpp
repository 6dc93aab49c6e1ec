#pragma once

#include <string>

#include "archive/blob_store.hpp"
#include "archive/manifest.hpp"
#include "base/error.hpp"

namespace compilecache::archive {

// An archive's files as an OCI image, which `docker`, `ctr` and Kubernetes' image volumes take: the
// archive's layers under an image's config.
struct OciImage {
  std::string config;  // JSON
  Descriptor config_blob;
  std::string manifest;  // JSON
  Descriptor manifest_blob;
};

// Makes the image from `layers`, an archive in `store` that must have a single layer. With several,
// the image would lack the files that only the config lists, copies of files in earlier layers. The
// image gets `annotations` and the digest `made_of` of the archive from which it was made.
// `architecture` has the name that Go and OCI use. Errors are those of BlobStore::open; kCorrupt: a
// layer is not a tar in zstd frames.
Result<OciImage> make_oci_image(const BlobStore& store, const Manifest& layers,
                                const Annotations& annotations, const std::string& made_of,
                                const std::string& architecture);

}  // namespace compilecache::archive
