#include "store/access/open.hpp"

#include <filesystem>
#include <utility>

#include "store/directory/directory_store.hpp"
#include "store/registry/registry_store.hpp"

namespace compilecache::store {

std::unique_ptr<Store> open_store(const std::string& path) {
  return std::make_unique<DirectoryStore>(path);
}

std::unique_ptr<Store> open_registry(RegistryOptions options) {
  return std::make_unique<RegistryStore>(std::move(options));
}

Result<std::unique_ptr<Store>> open_or_make_store(const std::string& path) {
  auto store = std::make_unique<DirectoryStore>(path);
  std::error_code ignored;
  const auto place = std::filesystem::absolute(path, ignored);
  if (std::filesystem::exists(place, ignored) && !std::filesystem::is_empty(place, ignored)) {
    if (auto owner = store->owner(); !owner) return unexpected(owner.error());
    return std::unique_ptr<Store>(std::move(store));
  }
  const auto parent = std::filesystem::weakly_canonical(place.parent_path(), ignored);
  auto prepared = DirectoryStore(parent / place.filename()).prepare({}, false);
  if (!prepared) return unexpected(prepared.error());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace compilecache::store
