#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/sha256.hpp"
#include "store/registry/registry_store.hpp"
#include "tests/unit/store/fake_registry.hpp"
#include "tests/unit/store/saves_and_loads.hpp"

namespace compilecache::store::test {

// A registry in this process and a store in it.
class RegistryTest : public SavesAndLoads {
 protected:
  [[nodiscard]] RegistryOptions options() const {
    return {.host = registry_.host(),
            .repository = "ml/caches/llama",
            .plain_http = true,
            .spool_folder = temp_.path(),
            // Nothing is waited for.
            .sleep = [](std::chrono::milliseconds) {}};
  }

  // The same with a config that its manifest does not carry.
  static Tree many_files() {
    Tree tree = some_tree();
    for (int i = 0; i < 700; ++i)
      tree["m/" + std::to_string(i)] = {"file " + std::to_string(i), false};
    return tree;
  }

  FakeRegistry registry_;
};

}  // namespace compilecache::store::test
