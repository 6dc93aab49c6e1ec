#include "tests/unit/store/places.hpp"

#include <filesystem>

#include "store/registry/registry_store.hpp"
#include "tests/unit/store/fake_registry.hpp"

namespace compilecache::store::test {
namespace {

class DirectoryPlace : public Place {
 public:
  explicit DirectoryPlace(const std::string& folder) : store_(folder + "/store") {}

  Store& store() override { return store_; }
  void put(const std::string& digest, const std::string& content) override {
    archive::test::write_file(store_.blob_path(digest), content);
  }
  std::optional<std::string> take(const std::string& digest) override {
    const std::string path = store_.blob_path(digest);
    if (!std::filesystem::exists(path)) return std::nullopt;
    std::string content = archive::test::read_file(path);
    std::filesystem::remove(path);
    return content;
  }

 private:
  DirectoryStore store_;
};

class MemoryPlace : public Place {
 public:
  explicit MemoryPlace(uint64_t carried_up_to) : store_(clock_, carried_up_to) {}

  Store& store() override { return store_; }
  void put(const std::string& digest, const std::string& content) override {
    store_.put(digest, content);
  }
  std::optional<std::string> take(const std::string& digest) override {
    return store_.take(digest);
  }

 private:
  const SystemClock clock_;
  MemoryStore store_;
};

class RegistryPlace : public Place {
 public:
  RegistryPlace(const std::string& folder, uint64_t carry_up_to)
      : store_({.host = registry_.host(),
                .repository = "ml/caches/llama",
                .plain_http = true,
                .spool_folder = folder,
                .carry_up_to = carry_up_to,
                .sleep = [](std::chrono::milliseconds) {}}) {}

  Store& store() override { return store_; }
  void put(const std::string& digest, const std::string& content) override {
    registry_.put(digest, content);
  }
  std::optional<std::string> take(const std::string& digest) override {
    return registry_.take(digest);
  }
  [[nodiscard]] bool has_single_blobs() const override { return false; }

 private:
  FakeRegistry registry_;
  RegistryStore store_;
};

}  // namespace

std::string name_of(Kind kind) {
  switch (kind) {
    case Kind::kDirectory:
      return "Directory";
    case Kind::kMemory:
      return "Memory";
    case Kind::kCarryingMemory:
      return "CarryingMemory";
    case Kind::kPlainRegistry:
      return "PlainRegistry";
    case Kind::kRegistry:
      break;
  }
  return "Registry";
}

std::unique_ptr<Place> make_place(Kind kind, const std::string& folder) {
  switch (kind) {
    case Kind::kDirectory:
      return std::make_unique<DirectoryPlace>(folder);
    case Kind::kMemory:
      return std::make_unique<MemoryPlace>(0);
    case Kind::kCarryingMemory:
      return std::make_unique<MemoryPlace>(kCarriedUpTo);
    case Kind::kPlainRegistry:
      return std::make_unique<RegistryPlace>(folder, 0);
    case Kind::kRegistry:
      break;
  }
  return std::make_unique<RegistryPlace>(folder, kCarriedUpTo);
}

}  // namespace compilecache::store::test
