#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/index.hpp"
#include "store/store.hpp"

namespace compilecache::store {

// What agents that cannot reach the operator read from the store: which archives are current, and
// which GPU product each node has. A copy of the truth, which is in the API server. Thread-safe.
class OfflineIndex {
 public:
  virtual ~OfflineIndex() = default;

  // A missing or damaged index is returned as an empty one with a problem. An error: it is there,
  // but cannot be read now, so that nobody knows what it names.
  [[nodiscard]] virtual Result<Index> read_index() const = 0;
  // Replaces the whole index atomically.
  virtual Status write_index(const std::vector<IndexEntry>& entries) = 0;
  // Does what put_entry() (store/index.hpp) does. Savers that do it at once take turns. On a volume
  // without locks one of two entries can be lost; the next sweep, which knows the truth, writes
  // all. kInvalid: the entry has no name.
  virtual Status update_index(const IndexEntry& entry) = 0;
  // The same for savers that have no operator to ask: only where the entry of that name has the
  // manifest `expected` still ("": there is none). kConflict: another saver was first, and nothing
  // is changed; kUnavailable: others have the index locked.
  virtual Status extend_index(const std::string& expected, const IndexEntry& entry) = 0;

  // Writes nothing if the note has this product already. kInvalid: see check_node_note().
  virtual Status note_node_product(const std::string& node, const std::string& product) = 0;
  // kNotFound: there is no note for this node.
  [[nodiscard]] virtual Result<std::string> node_product(const std::string& node) const = 0;
};

// Reads the store's index. If the store keeps none, returns an empty one with a problem.
Result<Index> read_index(Store& store);

// The archives in a store of any kind, for people and for copies: those of its index, or what it
// can name without one (Upkeep::archives). For a registry that takes a request for each kept
// save.
Result<Index> archives_in(Store& store);
// The same with each save of an archive that is still there, as sort_entries() sorts them.
Result<Index> saves_in(Store& store);

}  // namespace compilecache::store
