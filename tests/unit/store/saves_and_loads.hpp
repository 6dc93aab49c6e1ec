#pragma once

#include <gtest/gtest.h>

#include <string>

#include "store/store.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

namespace compilecache::store::test {

// Trees that are saved into a store and loaded from it.
class SavesAndLoads : public ::testing::Test {
 protected:
  using Tree = archive::test::Tree;

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
  int counter_ = 0;
};

}  // namespace compilecache::store::test
