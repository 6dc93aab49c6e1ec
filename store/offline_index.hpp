#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/index.hpp"
#include "store/store.hpp"

namespace compilecache::store {

// What a store says of its archives to who cannot ask the operator: which are current, and which
// GPU product each node has. A copy of the truth, which is in the API server. Thread-safe.
class OfflineIndex {
 public:
  virtual ~OfflineIndex() = default;

  // Never fails: an index that is missing or damaged is an empty one with a problem.
  [[nodiscard]] virtual Index read_index() const = 0;
  // Replaces all of it at once.
  virtual Status write_index(const std::vector<IndexEntry>& entries) = 0;
  // As put_entry() (store/index.hpp). Two savers doing this at once can lose one of the two
  // entries; the next sweep, which knows the truth, writes all. kInvalid: the entry has no name.
  virtual Status update_index(const IndexEntry& entry) = 0;

  // Nothing is written when the note already says so. kInvalid: not a node name.
  virtual Status note_node_product(const std::string& node, const std::string& product) = 0;
  // kNotFound: no note for this node.
  [[nodiscard]] virtual Result<std::string> node_product(const std::string& node) const = 0;
};

// The store's index; of a store that keeps none, an empty one with a problem.
Index read_index(Store& store);

}  // namespace compilecache::store
