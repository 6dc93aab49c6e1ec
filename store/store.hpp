#pragma once

#include <chrono>

#include "archive/blob_store.hpp"
#include "base/error.hpp"

namespace compilecache::store {

class OfflineIndex;
class Signatures;
class Upkeep;

// Why a store could not be used, as far as the store itself can find out.
enum class Trouble {
  kFull,       // no space, or over a quota
  kMissing,    // the store is not there, or not prepared
  kForbidden,  // it is there, but permissions are missing
  kDiskFull,   // the disk here is full, where blobs are kept on their way to the store
  kNamed,      // the error's reason names it
  kOther,      // see the error's message
};

enum class Use { kRead, kWrite };

// A store of blobs, with capabilities that only some kinds of stores have.
//
//   const auto store = open_store(path);                   // store/access/open.hpp
//   auto saved = archive::write_archive(*store, request);  // blobs are all that archives need
//   if (OfflineIndex* index = store->offline_index()) index->update_index(entry);
//   if (Upkeep* upkeep = store->upkeep()) upkeep->list();
//
// Thread-safe, and so are its capabilities, which live as long as it does.
class Store : public archive::BlobStore {
 public:
  // The list of current archives, for loads without the operator; null: the store keeps none.
  virtual OfflineIndex* offline_index() { return nullptr; }
  // Who vouches for archives (signatures.hpp); null: nobody can.
  virtual Signatures* signatures() { return nullptr; }
  // Prepares, tests, lists and deletes; null: the store is maintained by others.
  virtual Upkeep* upkeep() { return nullptr; }
  // Calls, also those under way, end by then with kCancelled, in stores that can be left in the
  // middle of one. Called once at most.
  virtual void end_by(std::chrono::steady_clock::time_point) {}
  // Puts a blob of another store into this one, whether it is here or not. Its bytes are checked on
  // the way, and those of another blob are not kept. kCorrupt: `from` does not have what the
  // digest promises; other errors are of either store.
  virtual Status receive(const archive::Descriptor& blob, const archive::BlobReader& from);
  // Finds out why the store failed with `error`, by looking at its present state.
  [[nodiscard]] virtual Trouble trouble(const Error& error, Use use) const = 0;
};

}  // namespace compilecache::store
