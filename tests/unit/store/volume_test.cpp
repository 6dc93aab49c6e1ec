#include <optional>

#include "tests/support/slow_volume/slow_volume.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// On a network file system the number of round trips counts.

namespace compilecache::archive::test {
namespace {

using testing::kMetadataOperations;
using testing::SlowVolume;

class OnAVolume : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = SlowVolume::missing()) GTEST_SKIP() << *why;
    volume_.emplace();
    ASSERT_TRUE(store::DirectoryStore(store()).prepare({"cluster", "ns", "uid"}, false));
  }

  [[nodiscard]] std::string store() const { return volume_->path("store"); }

  // Saves an archive with `files` more files than the parent.
  std::string save(const std::string& name, int files, const std::string& parent = "") {
    WriteRequest request;
    request.parent = parent;
    for (int i = 0; i < files; ++i) {
      const std::string path = name + std::to_string(i % 50) + "/" + std::to_string(i);
      write_file(temp_.path("tree/" + path), noise(100 + i % 900, i + 10'000 * name.size()));
      request.files.push_back({temp_.path("tree/" + path), "torch/" + path});
    }
    const auto saved = write_into(store(), request);
    EXPECT_TRUE(saved) << saved.error().message;
    return saved ? saved->archive.manifest : "";
  }

  uint64_t metadata_operations_of_load(const std::string& manifest, uint64_t files) {
    volume_->reset_counts();
    ExtractOptions options;
    options.roots = {{"torch", temp_.path("loaded-" + std::to_string(++loads_))}};
    const auto loaded = extract(store::DirectoryStore(store()), manifest, options);
    EXPECT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded ? loaded->files : 0, files);
    return volume_->count(kMetadataOperations);
  }

  TempDir temp_;
  std::optional<SlowVolume> volume_;
  int loads_ = 0;
};

TEST_F(OnAVolume, ALoadNeedsFewMetadataOperationsHoweverManyFilesThereAre) {
  const auto few = metadata_operations_of_load(save("few", 3), 3);
  EXPECT_LE(few, 12U) << volume_->counts();
  const auto many = metadata_operations_of_load(save("many", 1500), 1500);
  EXPECT_EQ(many, few) << volume_->counts();
}

TEST_F(OnAVolume, EachLayerMoreIsLookedUpAndOpened) {
  const std::string first = save("a", 10);
  const std::string second = save("bb", 10, first);
  const auto one = metadata_operations_of_load(first, 10);
  EXPECT_EQ(metadata_operations_of_load(second, 20), one + 2) << volume_->counts();
}

}  // namespace
}  // namespace compilecache::archive::test
