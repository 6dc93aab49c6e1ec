#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "store/registry/registry_store.hpp"
#include "tests/support/registry_process.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// For tests of what other tools do with archives in registries as they are released.
//
//   class Skopeo : public ReleasedRegistry {};
//   INSTANTIATE_TEST_SUITE_P(Kinds, Skopeo, released_kinds(), kind_name);

namespace compilecache::store::test {

class ReleasedRegistry : public ::testing::TestWithParam<testing::RegistryKind> {
 protected:
  void SetUp() override {
    if (const std::string missing = testing::missing_registry(GetParam()); !missing.empty())
      GTEST_SKIP() << missing;
    registry_ = std::make_unique<testing::RegistryProcess>(GetParam(), temp_.path("registry"));
    ASSERT_EQ(registry_->problem(), "");
  }

  [[nodiscard]] RegistryOptions repository(const std::string& name) const {
    return {.host = registry_->host(),
            .repository = name,
            .plain_http = true,
            .spool_folder = temp_.path()};
  }
  // A save of `tree`; its manifest's digest.
  std::string save(archive::BlobStore& store, const archive::test::Tree& tree) {
    const std::string source = temp_.path("source");
    archive::test::write_tree(source, tree);
    archive::WriteRequest request;
    request.annotations = {{archive::kAnnotationName, "llama-3f2a91"},
                           {archive::kAnnotationGeneration, "7"}};
    for (const auto& [path, file] : tree)
      request.files.push_back({source + "/" + path, "torch/" + path});
    const auto saved = archive::write_archive(store, std::move(request));
    EXPECT_TRUE(saved) << saved.error().message;
    return saved ? saved->archive.manifest : "";
  }
  // The tag of that save.
  static std::string tag_of_save(const std::string& digest) { return "g7-" + digest.substr(7, 12); }

  archive::test::TempDir temp_;
  std::unique_ptr<testing::RegistryProcess> registry_;
};

inline auto released_kinds() {
  return ::testing::Values(testing::RegistryKind::kDebian, testing::RegistryKind::kDistribution);
}
inline std::string kind_name(const ::testing::TestParamInfo<testing::RegistryKind>& kind) {
  return kind.param == testing::RegistryKind::kDebian ? "Debian" : "Distribution";
}

}  // namespace compilecache::store::test
