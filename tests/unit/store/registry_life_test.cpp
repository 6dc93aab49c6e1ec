#include <gmock/gmock.h>

#include <set>

#include "store/registry/registry_store.hpp"
#include "tests/support/registry_process.hpp"
#include "tests/support/small_disk.hpp"
#include "tests/unit/store/redirecting_front.hpp"
#include "tests/unit/store/saves_and_loads.hpp"

// What happens to registries in their life, with those that are released: they are upgraded, move
// their blobs elsewhere, and have no room left.

namespace compilecache::store::test {
namespace {

using ::testing::HasSubstr;
using testing::kHtpasswd;
using testing::RegistryKind;
using testing::RegistryProcess;
using testing::RegistrySetup;
using testing::SmallDisk;

constexpr uint64_t kMiB = 1 << 20;

class RegistryLife : public SavesAndLoads {
 protected:
  // Why this test cannot run; "": it can.
  static std::string missing(std::initializer_list<RegistryKind> kinds) {
    for (const RegistryKind kind : kinds) {
      if (std::string why = testing::missing_registry(kind); !why.empty()) return why;
    }
    return "";
  }
  [[nodiscard]] RegistryOptions options(const std::string& host) const {
    return {.host = host,
            .repository = "ml/caches/llama",
            .plain_http = true,
            .spool_folder = temp_.path(),
            .sleep = [](std::chrono::milliseconds) {}};
  }
  static Tree noisy_tree(size_t bytes, uint64_t seed) {
    return {{"n" + std::to_string(seed), {archive::test::noise(bytes, seed), false}}};
  }
  // The blobs of all that has a tag of ours.
  static std::set<std::string> listed(Store& store) {
    const auto blobs = store.upkeep()->list();
    EXPECT_TRUE(blobs) << blobs.error().message;
    std::set<std::string> digests;
    for (const StoredBlob& blob : blobs.value_or(std::vector<StoredBlob>())) {
      digests.insert(blob.digest);
    }
    return digests;
  }
  void expect_loads(Store& store, const std::string& manifest, const Tree& tree) {
    const auto loaded = load(store, manifest);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(*loaded, tree);
  }
};

// --- a front ---------------------------------------------------------------------------------

TEST_F(RegistryLife, BlobsThatAreRedirectedComeWithoutTheCredentials) {
  if (const auto why = missing({RegistryKind::kDebian}); !why.empty()) GTEST_SKIP() << why;
  RegistryProcess registry(RegistryKind::kDebian, temp_.path("registry"), {.htpasswd = kHtpasswd});
  ASSERT_EQ(registry.problem(), "");
  RedirectingFront front(registry.port(), registry.data());
  RegistryOptions with = options(front.host());
  with.plain_hosts = {front.blob_host()};
  with.docker_config_file = temp_.path("config.json");
  archive::test::write_file(
      with.docker_config_file,
      R"({"auths":{")" + front.host() + R"(":{"username":"me","password":"secret"}}})");
  RegistryStore store(with);

  const Tree tree = some_tree(), more = noisy_tree(3 * kMiB, 7);
  const auto first = save(store, tree);
  ASSERT_TRUE(first) << first.error().message;
  const auto second = save(store, more, first->archive.manifest);
  ASSERT_TRUE(second) << second.error().message;
  Tree both = tree;
  both.insert(more.begin(), more.end());
  expect_loads(store, first->archive.manifest, tree);
  expect_loads(store, second->archive.manifest, both);
  EXPECT_TRUE(archive::verify(store, second->archive.manifest));
  EXPECT_GT(front.redirected(), 0);
  EXPECT_EQ(front.served(), front.redirected());
  EXPECT_EQ(front.credentials_shown(), 0);

  front.lose_blob_host(true);
  const auto lost = load(store, second->archive.manifest);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().reason, kReasonUnreachable)
      << "not a missing blob: " << lost.error().message;
  EXPECT_NE(lost.error().code, ErrorCode::kNotFound);
  front.lose_blob_host(false);
  expect_loads(store, second->archive.manifest, both);
}

// --- an upgrade ------------------------------------------------------------------------------

// Forth, with the collection that comes before each start, and back.
TEST_F(RegistryLife, ArchivesOutliveAnUpgradeAndTheWayBack) {
  if (const auto why = missing({RegistryKind::kDebian, RegistryKind::kDistribution});
      !why.empty()) {
    GTEST_SKIP() << why;
  }
  RegistryProcess registry(RegistryKind::kDebian, temp_.path("registry"));
  ASSERT_EQ(registry.problem(), "");
  Tree whole = some_tree();
  std::vector<std::pair<std::string, Tree>> saved;  // each extends the one before
  const auto extend = [&](const Tree& more) {
    RegistryStore store(options(registry.host()));
    const std::string parent = saved.empty() ? "" : saved.back().first;
    const auto done = save(store, more, parent);
    ASSERT_TRUE(done) << done.error().message;
    whole.insert(more.begin(), more.end());
    saved.emplace_back(done->archive.manifest, whole);
    EXPECT_EQ(done->archive.layers.size(), saved.size()) << "a layer more";
  };
  const auto expect_all = [&] {
    RegistryStore store(options(registry.host()));
    const auto blobs = listed(store);
    for (const auto& [manifest, tree] : saved) {
      expect_loads(store, manifest, tree);
      EXPECT_TRUE(blobs.contains(manifest));
    }
  };
  extend(whole);
  expect_all();

  registry.start_again(RegistryKind::kDistribution);
  ASSERT_EQ(registry.problem(), "");
  expect_all();
  extend(noisy_tree(100'000, 11));
  registry.end();
  EXPECT_THAT(registry.collect(), HasSubstr("collected"));
  registry.start_again();
  ASSERT_EQ(registry.problem(), "");
  expect_all();

  registry.start_again(RegistryKind::kDebian);
  ASSERT_EQ(registry.problem(), "");
  expect_all();
  extend(noisy_tree(100'000, 12));
  expect_all();
}

// --- no room ---------------------------------------------------------------------------------

class RegistryWithoutRoom : public RegistryLife,
                            public ::testing::WithParamInterface<RegistryKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, RegistryWithoutRoom,
                         ::testing::Values(RegistryKind::kDebian, RegistryKind::kDistribution),
                         [](const auto& kind) {
                           return kind.param == RegistryKind::kDebian ? "Debian" : "Distribution";
                         });

TEST_P(RegistryWithoutRoom, SavesFailSayingSoAndHealWhenThereIsRoom) {
  if (const auto why = missing({GetParam()}); !why.empty()) GTEST_SKIP() << why;
  SmallDisk disk(temp_.path("disk"), 4 * kMiB);
  if (!disk.problem().empty()) GTEST_SKIP() << disk.problem();
  RegistryProcess registry(GetParam(), temp_.path("registry"), {.data = disk.folder() + "/data"});
  ASSERT_EQ(registry.problem(), "");
  RegistryStore store(options(registry.host()));
  const Tree tree = some_tree(), large = noisy_tree(6 * kMiB, 7);
  const auto first = save(store, tree);
  ASSERT_TRUE(first) << first.error().message;
  const auto before = listed(store);
  ASSERT_TRUE(before.contains(first->archive.manifest));

  for (const std::string& parent : {std::string(), first->archive.manifest}) {
    const auto refused = save(store, large, parent);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, kReasonFull) << refused.error().message;
    EXPECT_THAT(refused.error().message, HasSubstr("make room there"));
    EXPECT_EQ(store.trouble(refused.error(), Use::kWrite), Trouble::kNamed);
  }
  EXPECT_EQ(listed(store), before) << "nothing else has a tag";
  expect_loads(store, first->archive.manifest, tree);

  ASSERT_EQ(disk.resize(32 * kMiB), "");
  const auto healed = save(store, large, first->archive.manifest);
  ASSERT_TRUE(healed) << healed.error().message;
  Tree both = tree;
  both.insert(large.begin(), large.end());
  expect_loads(store, healed->archive.manifest, both);
  expect_loads(store, first->archive.manifest, tree);
}

// Uploads that failed stay until the registry's pod is made anew, which no room is needed for.
TEST_F(RegistryLife, AFullRegistryIsEmptiedByItsNextStart) {
  if (const auto why = missing({RegistryKind::kDistribution}); !why.empty()) GTEST_SKIP() << why;
  SmallDisk disk(temp_.path("disk"), 4 * kMiB);
  if (!disk.problem().empty()) GTEST_SKIP() << disk.problem();
  RegistryProcess registry(RegistryKind::kDistribution, temp_.path("registry"),
                           {.data = disk.folder() + "/data"});
  ASSERT_EQ(registry.problem(), "");
  RegistryStore store(options(registry.host()));
  const Tree tree = some_tree(), old_tree = noisy_tree(kMiB, 5),
             next_tree = noisy_tree(2 * kMiB, 6);
  const auto kept = save(store, tree);
  const auto old = save(store, old_tree);
  ASSERT_TRUE(kept && old);
  ASSERT_FALSE(save(store, noisy_tree(6 * kMiB, 7)));
  ASSERT_TRUE(store.upkeep()->remove({old->archive.manifest}));
  registry.end();
  EXPECT_THAT(registry.collect(), HasSubstr("collected"));
  EXPECT_GT(disk.free_bytes(), 3 * kMiB);
  registry.start_again();
  ASSERT_EQ(registry.problem(), "");
  expect_loads(store, kept->archive.manifest, tree);
  const auto next = save(store, next_tree);
  ASSERT_TRUE(next) << next.error().message;
  expect_loads(store, next->archive.manifest, next_tree);
}

TEST_F(RegistryLife, AFullDiskOfTheSaversIsSaidAndLoadsGoOn) {
  if (const auto why = missing({RegistryKind::kDistribution}); !why.empty()) GTEST_SKIP() << why;
  SmallDisk disk(temp_.path("disk"), 2 * kMiB);
  if (!disk.problem().empty()) GTEST_SKIP() << disk.problem();
  RegistryProcess registry(RegistryKind::kDistribution, temp_.path("registry"));
  ASSERT_EQ(registry.problem(), "");
  RegistryOptions with = options(registry.host());
  with.spool_folder = disk.folder();
  RegistryStore store(with);
  const Tree tree = some_tree(), large = noisy_tree(6 * kMiB, 7);
  const auto first = save(store, tree);
  ASSERT_TRUE(first) << first.error().message;
  const auto before = listed(store);

  const auto refused = save(store, large, first->archive.manifest);
  ASSERT_FALSE(refused);
  EXPECT_EQ(store.trouble(refused.error(), Use::kWrite), Trouble::kDiskFull)
      << refused.error().message;
  EXPECT_THAT(refused.error().message, HasSubstr(disk.folder()));
  EXPECT_EQ(listed(store), before);
  expect_loads(store, first->archive.manifest, tree);
  EXPECT_GT(disk.free_bytes(), kMiB) << "what was spooled in vain takes no room";
  const Tree small = noisy_tree(300'000, 8);
  const auto next = save(store, small, first->archive.manifest);
  EXPECT_TRUE(next) << next.error().message;

  ASSERT_EQ(disk.resize(32 * kMiB), "");
  const auto healed = save(store, large, first->archive.manifest);
  ASSERT_TRUE(healed) << healed.error().message;
  Tree both = tree;
  both.insert(large.begin(), large.end());
  expect_loads(store, healed->archive.manifest, both);
}

}  // namespace
}  // namespace compilecache::store::test
