#pragma once

#include <memory>
#include <string>

#include "base/error.hpp"
#include "store/registry/registry_options.hpp"
#include "store/store.hpp"

// The one place that knows which kinds of stores there are.

namespace compilecache::store {

// The store at `path`, a directory on a volume. The directory is not touched yet: if it is missing,
// the first call fails.
std::unique_ptr<Store> open_store(const std::string& path);

// The store in a repository of a registry. Nothing is connected to, and no file read, yet.
std::unique_ptr<Store> open_registry(RegistryOptions options);

// For command lines. If the path is empty or missing, a store without an owner is made there;
// otherwise it must be a store. Links in the path are followed, as the caller knows where they
// lead.
Result<std::unique_ptr<Store>> open_or_make_store(const std::string& path);

}  // namespace compilecache::store
