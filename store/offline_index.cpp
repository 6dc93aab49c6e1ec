#include "store/offline_index.hpp"

namespace compilecache::store {

Index read_index(Store& store) {
  if (const OfflineIndex* index = store.offline_index()) return index->read_index();
  return {{}, {store.describe() + " keeps no index of its archives"}};
}

}  // namespace compilecache::store
