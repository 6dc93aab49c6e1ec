#pragma once

#include "archive/blob_store.hpp"
#include "base/error.hpp"

namespace compilecache::store {

class OfflineIndex;
class Upkeep;

// Why a store could not be used, as far as it can tell.
enum class Trouble {
  kFull,       // no space, or over a quota
  kMissing,    // the store is not there, or not prepared
  kForbidden,  // it is there, and we may not do that to it
  kOther,      // the error's message says it
};

enum class Use { kRead, kWrite };

// A store of blobs, with what only some kinds have beside them.
//
//   const auto store = open_store(path);                   // store/access/open.hpp
//   auto saved = archive::write_archive(*store, request);  // blobs are all that archives need
//   if (OfflineIndex* index = store->offline_index()) index->update_index(entry);
//   if (Upkeep* upkeep = store->upkeep()) upkeep->list();
//
// Thread-safe, and so are its capabilities, which live as long as it does.
class Store : public archive::BlobStore {
 public:
  // A copy of which archives are current, for loads without the operator; null: it keeps none.
  virtual OfflineIndex* offline_index() { return nullptr; }
  // Preparing, trying, listing and deleting; null: somebody else looks after it.
  virtual Upkeep* upkeep() { return nullptr; }
  // Looks at the store as it is now, after it failed with `error`.
  [[nodiscard]] virtual Trouble trouble(const Error& error, Use use) const = 0;
};

}  // namespace compilecache::store
