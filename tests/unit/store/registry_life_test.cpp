#include <gmock/gmock.h>

#include <filesystem>
#include <optional>
#include <set>

#include "store/registry/manifests.hpp"
#include "store/registry/registry_store.hpp"
#include "store/registry/repository_use.hpp"
#include "tests/support/registry_process.hpp"
#include "tests/support/small_disk.hpp"
#include "tests/unit/store/redirecting_front.hpp"
#include "tests/unit/store/saves_and_loads.hpp"

// What happens to registries in their life, with those that are released: they are upgraded, move
// their blobs elsewhere, and have no room left.

namespace compilecache::store::test {
namespace {

namespace fs = std::filesystem;
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
  // The blobs of all manifests with one of our tags.
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

// Uploads that failed stay until the registry's pod is recreated, which needs no space.
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

// --- months ----------------------------------------------------------------------------------

class RegistryMonths : public RegistryLife {
 protected:
  void SetUp() override {
    if (const auto why = missing({RegistryKind::kDistribution}); !why.empty()) GTEST_SKIP() << why;
    registry_.emplace(RegistryKind::kDistribution, temp_.path("registry"));
    ASSERT_EQ(registry_->problem(), "");
  }
  [[nodiscard]] RegistryOptions of(const std::string& repository) const {
    RegistryOptions with = options(registry_->host());
    with.repository = repository;
    return with;
  }
  [[nodiscard]] std::string at(const std::string& repository) const {
    return registry_->data() + "/docker/registry/v2/repositories/" + repository;
  }
  [[nodiscard]] std::string data_of(const std::string& digest) const {
    return registry_->data() + "/docker/registry/v2/blobs/sha256/" + digest.substr(7, 2) + "/" +
           digest.substr(7) + "/data";
  }
  void collect() {
    registry_->end();
    EXPECT_THAT(registry_->collect(), HasSubstr("collected"));
    registry_->start_again();
    ASSERT_EQ(registry_->problem(), "");
  }

  std::optional<RegistryProcess> registry_;
};

TEST_F(RegistryMonths, DamageInOneRepositoryKeepsNoOtherFromBeingCollected) {
  RegistryStore damaged(of("a/damaged")), torn(of("b/torn")), other(of("c/other"));
  const Tree tree = some_tree();
  const auto bad = save(damaged, noisy_tree(kMiB, 3));
  const auto mended = save(torn, noisy_tree(kMiB, 4));
  const auto old = save(other, noisy_tree(kMiB, 5));
  const auto kept = save(other, tree);
  ASSERT_TRUE(bad && mended && old && kept);
  ASSERT_TRUE(other.upkeep()->remove({old->archive.manifest}));
  archive::test::write_file(data_of(bad->archive.manifest), "what is left of a manifest");
  const std::string hex = mended->archive.manifest.substr(7);
  archive::test::write_file(at("b/torn") + "/_manifests/revisions/sha256/" + hex + "/link", "");
  collect();
  EXPECT_FALSE(fs::exists(data_of(old->archive.config))) << "it was freed";
  EXPECT_FALSE(fs::exists(at("a/damaged"))) << "nothing is left there";
  expect_loads(other, kept->archive.manifest, tree);
  expect_loads(torn, mended->archive.manifest, noisy_tree(kMiB, 4));
  ASSERT_TRUE(save(damaged, noisy_tree(kMiB, 3)));
}

TEST_F(RegistryMonths, WhatNobodyNeedsIsMarkedEmptiedAndGone) {
  const WallTime since{std::chrono::hours(24 * 20'000)};
  RegistryStore gone(of("pr-1/app")), kept(of("ml/app"));
  const auto first = save(gone, noisy_tree(kMiB, 3));
  const auto second = save(kept, noisy_tree(kMiB, 4));
  ASSERT_TRUE(first && second);
  RegistryClient client(of("pr-1/app"));
  const auto names = list_repositories(client);
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_THAT(*names, ::testing::UnorderedElementsAre("ml/app", "pr-1/app"));
  const auto use = read_use(client);
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_EQ(use->bytes, first->archive.compressed_bytes);
  EXPECT_FALSE(use->unneeded_since);
  ASSERT_TRUE(mark_unneeded(client, since));
  EXPECT_EQ(read_use(client)->unneeded_since, since);
  EXPECT_EQ(read_use(client)->tags, 1U);
  ASSERT_TRUE(mark_needed(client));
  EXPECT_FALSE(read_use(client)->unneeded_since);
  // A tag that cannot be read goes too.
  const std::string tag = tag_of(2, "sha256:" + std::string(64, '1'));
  archive::test::write_file(at("pr-1/app") + "/_manifests/tags/" + tag + "/current/link", "torn");
  const auto torn = read_use(client);
  ASSERT_TRUE(torn) << torn.error().message;
  EXPECT_EQ(torn->unreadable, std::vector<std::string>{tag});
  const auto emptied = empty_repository(client);
  ASSERT_TRUE(emptied) << emptied.error().message;
  EXPECT_EQ(read_use(client)->tags, 0U);
  EXPECT_EQ(find_save(client, first->archive.manifest).error().code, ErrorCode::kNotFound);
  collect();
  EXPECT_FALSE(fs::exists(at("pr-1")));
  EXPECT_FALSE(fs::exists(data_of(first->archive.config)));
  RegistryClient other(of("ml/app"));
  EXPECT_EQ(find_save(other, second->archive.manifest)->bytes, second->archive.compressed_bytes);
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
  EXPECT_GT(disk.free_bytes(), kMiB) << "a failed upload keeps no space in the spool";
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
