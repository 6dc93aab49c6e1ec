#pragma once

#include <string>

#include "base/error.hpp"
#include "http/session.hpp"
#include "store/registry/registry_client.hpp"

namespace compilecache::store {

// Pushes one blob, whether it is there or not: POST, then one PUT of all of it, which is what every
// registry takes. Nothing is resumed: where a PUT fails the blob is pushed again, as often as the
// client's limits say. Errors are not about content: never kNotFound, never kCorrupt.
Status push_blob(RegistryClient& client, const std::string& digest, http::BodySource& content);

// Begins an upload and gives it up: whether pushing is possible.
Status try_upload(RegistryClient& client);

// The failure of a write: what registries answer with 404 there is no missing blob.
Error write_error(const Refusal& refusal);

}  // namespace compilecache::store
