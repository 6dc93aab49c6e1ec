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

  // Never fails: a missing or damaged index is returned as an empty one with a problem.
  [[nodiscard]] virtual Index read_index() const = 0;
  // Replaces the whole index atomically.
  virtual Status write_index(const std::vector<IndexEntry>& entries) = 0;
  // Does what put_entry() (store/index.hpp) does. If two savers do it at once, one of the two
  // entries can be lost; the next sweep, which knows the truth, writes all. kInvalid: the entry has
  // no name.
  virtual Status update_index(const IndexEntry& entry) = 0;

  // Writes nothing if the note has this product already. kInvalid: see check_node_note().
  virtual Status note_node_product(const std::string& node, const std::string& product) = 0;
  // kNotFound: there is no note for this node.
  [[nodiscard]] virtual Result<std::string> node_product(const std::string& node) const = 0;
};

// Reads the store's index. If the store keeps none, returns an empty one with a problem.
Index read_index(Store& store);

// The archives in a store of any kind, for people and for copies: those of its index, or what it
// can name without one (Upkeep::archives). Of a registry that takes a request for each save that is
// kept.
Index archives_in(Store& store);

}  // namespace compilecache::store
