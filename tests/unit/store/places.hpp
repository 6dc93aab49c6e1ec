#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "store/directory/directory_store.hpp"
#include "store/memory/memory_store.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

namespace compilecache::store::test {

// A store of one kind, with methods that change its blobs without its knowledge.
class Place {
 public:
  virtual ~Place() = default;
  virtual Store& store() = 0;
  // Stores this content under that name, whether it matches it or not.
  virtual void put(const std::string& digest, const std::string& content) = 0;
  // Removes and returns the blob. None: there is no such blob.
  virtual std::optional<std::string> take(const std::string& digest) = 0;

  // Whether it lists, compares and deletes single blobs. A registry's are the registry's own: it
  // returns their sizes, and lists and deletes archives.
  [[nodiscard]] virtual bool has_single_blobs() const { return true; }

  // Of kinds with single blobs.
  OfflineIndex& index() { return *store().offline_index(); }
  Upkeep& upkeep() { return *store().upkeep(); }
};

enum class Kind { kDirectory, kMemory, kRegistry, kCarryingMemory, kPlainRegistry };
inline constexpr Kind kKinds[] = {Kind::kDirectory, Kind::kMemory, Kind::kRegistry};
// Those whose manifests carry nothing, and those where they carry what is small.
inline constexpr Kind kPlainKinds[] = {Kind::kDirectory, Kind::kMemory, Kind::kPlainRegistry};
inline constexpr Kind kCarryingKinds[] = {Kind::kCarryingMemory, Kind::kRegistry};
inline constexpr Kind kKindsWithSingleBlobs[] = {Kind::kDirectory, Kind::kMemory};
std::string name_of(Kind kind);

// Makes a store that is not prepared yet. A directory's store is in `folder`, as are uploads on
// their way to a registry, which is one in this process.
std::unique_ptr<Place> make_place(Kind kind, const std::string& folder);

}  // namespace compilecache::store::test
