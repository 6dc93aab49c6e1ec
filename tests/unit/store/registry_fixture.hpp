#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/sha256.hpp"
#include "store/registry/registry_store.hpp"
#include "tests/unit/archive/archive_fixture.hpp"
#include "tests/unit/store/fake_registry.hpp"

namespace compilecache::store::test {

// A registry in this process and a store in it.
class RegistryTest : public ::testing::Test {
 protected:
  using Tree = archive::test::Tree;

  [[nodiscard]] RegistryOptions options() const {
    return {.host = registry_.host(),
            .repository = "ml/caches/llama",
            .plain_http = true,
            .spool_folder = temp_.path(),
            // Nothing is waited for.
            .sleep = [](std::chrono::milliseconds) {}};
  }

  // A request that saves the tree in small frames.
  archive::WriteRequest request(const Tree& tree, const std::string& parent = "") {
    const std::string root = temp_.path("source-" + std::to_string(++counter_));
    archive::test::write_tree(root, tree);
    archive::WriteRequest request;
    request.parent = parent;
    request.settings.compression_level = 1;
    request.settings.frame_bytes = 64 << 10;
    request.annotations = {{"dev.compilecache.generation", std::to_string(counter_)}};
    for (const auto& [path, file] : tree)
      request.files.push_back({root + "/" + path, "torch/" + path});
    return request;
  }
  Result<archive::WriteResult> save(Store& store, const Tree& tree,
                                    const std::string& parent = "") {
    return archive::write_archive(store, request(tree, parent));
  }
  // Loads into a new folder.
  Result<Tree> load(Store& store, const std::string& manifest) {
    const std::string into = temp_.path("loaded-" + std::to_string(++counter_));
    archive::ExtractOptions options;
    options.roots = {{"torch", into}};
    options.threads = 1;
    auto loaded = archive::extract(store, manifest, options);
    if (!loaded) return unexpected(loaded.error());
    return archive::test::read_tree(into);
  }

  static Tree some_tree(uint64_t seed = 1) {
    return {{"a", {archive::test::noise(400'000, seed), false}},
            {"b/c", {archive::test::noise(70'000, seed + 1), true}},
            {"empty", {"", false}}};
  }

  archive::test::TempDir temp_;
  FakeRegistry registry_;
  int counter_ = 0;
};

}  // namespace compilecache::store::test
