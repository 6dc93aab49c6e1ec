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

// `layers` is the archive whose layers the image has, in `store`: one layer, as layers stacked as
// they are would lack what only the config says, copies of files in earlier layers. `annotations`
// become the image's, with `made_of`, the digest of the archive that it was made of, beside them.
// `architecture` is as Go and OCI name it. Errors as BlobStore::open's; kCorrupt: a layer is none.
Result<OciImage> make_oci_image(const BlobStore& store, const Manifest& layers,
                                const Annotations& annotations, const std::string& made_of,
                                const std::string& architecture);

}  // namespace compilecache::archive
