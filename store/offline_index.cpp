#include "store/offline_index.hpp"

#include "store/upkeep.hpp"

namespace compilecache::store {

Index read_index(Store& store) {
  if (const OfflineIndex* index = store.offline_index()) return index->read_index();
  return {{}, {store.describe() + " keeps no index of its archives"}};
}

Index archives_in(Store& store) {
  const Upkeep* upkeep = store.upkeep();
  if (store.offline_index() != nullptr || upkeep == nullptr) return read_index(store);
  auto archives = upkeep->archives();
  if (!archives) return {{}, {archives.error().message}};
  return {std::move(*archives), {}};
}

}  // namespace compilecache::store
