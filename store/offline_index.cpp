#include "store/offline_index.hpp"

#include "store/upkeep.hpp"

namespace compilecache::store {

Result<Index> read_index(Store& store) {
  if (const OfflineIndex* index = store.offline_index()) return index->read_index();
  return Index{{}, {store.describe() + " keeps no index of its archives"}};
}

Result<Index> archives_in(Store& store) {
  auto index = saves_in(store);
  if (index) keep_newest(index->entries);
  return index;
}

Result<Index> saves_in(Store& store) {
  const Upkeep* upkeep = store.upkeep();
  if (store.offline_index() != nullptr || upkeep == nullptr) return read_index(store);
  return upkeep->archives();
}

}  // namespace compilecache::store
