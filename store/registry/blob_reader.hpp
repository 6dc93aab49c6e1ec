#pragma once

#include <memory>
#include <string>

#include "archive/blob_store.hpp"
#include "store/registry/registry_client.hpp"

namespace compilecache::store {

// Opens a blob of a registry. The end of a layer is fetched first, where the seek table is. A small
// layer is fetched at once; other blobs are read from their beginning. Reads in order come
// from one answer as it arrives, so that decoding begins with the first
// byte; other places are ranges of their own. An answer that is cut off is continued once from
// there. The client must outlive the reader.
//   kNotFound: no such blob; kUnavailable, kTimeout and others: it could not be read. Not kCorrupt:
//   the reader checks the bytes.
Result<std::unique_ptr<archive::BlobReader>> open_registry_blob(RegistryClient& client,
                                                                const archive::Descriptor& blob);

// How many bytes the blob has. kNotFound: no such blob.
Result<uint64_t> registry_blob_size(RegistryClient& client, const std::string& digest);

}  // namespace compilecache::store
