#include "operator/registry/registry_audit.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/names.hpp"
#include "archive/format.hpp"
#include "archive/write/write.hpp"
#include "operator/registry/registry_quota.hpp"
#include "operator/registry_care.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/registry_store.hpp"
#include "tests/unit/operator/control_fixture.hpp"
#include "tests/unit/store/fake_registry.hpp"

// The operator's view of its registry, and its deletions there.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::minutes;
using store::test::FakeRegistry;
using test::kCaches;

constexpr char kPods[] = "/api/v1/pods";

TEST(RepositoryCare, WhatNobodyNeedsIsMarkedKeptForAWhileAndEmptied) {
  const WallTime now{hours(24 * 20'000)};
  const auto care = [&](bool needed, size_t tags, std::optional<WallTime> since) {
    return care_for({.needed = needed, .tags = tags, .unneeded_since = since, .now = now},
                    hours(24));
  };
  EXPECT_EQ(care(true, 3, std::nullopt), RepositoryCare::kNothing);
  EXPECT_EQ(care(true, 3, now - hours(100)), RepositoryCare::kUnmark);
  EXPECT_EQ(care(false, 3, std::nullopt), RepositoryCare::kMark);
  EXPECT_EQ(care(false, 0, std::nullopt), RepositoryCare::kNothing);
  EXPECT_EQ(care(false, 3, now - hours(23)), RepositoryCare::kNothing);
  EXPECT_EQ(care(false, 3, now - hours(24)), RepositoryCare::kEmpty);
  EXPECT_EQ(care(false, 0, now - hours(24)), RepositoryCare::kEmpty) << "but for the mark";
  EXPECT_EQ(care(false, 3, now + hours(1)), RepositoryCare::kMark) << "written by somebody";
}

TEST(RegistryTroubles, AreTheWorstThatThereIs) {
  const WallTime now{hours(24 * 20'000)};
  const Settings::Registry settings;
  RegistryCondition is{.since = now - hours(9), .now = now};
  is.health.audited = now - minutes(10);
  const auto reason = [&] { return registry_trouble(is, "ml/a", settings, "system").reason; };
  EXPECT_EQ(reason(), "");
  is.health.audited = now - hours(2);
  is.health.trouble = "connection refused";
  EXPECT_EQ(reason(), "RegistryNotChecked");
  EXPECT_NE(registry_trouble(is, "ml/a", settings, "system").message.find("connection refused"),
            std::string::npos);
  is.health.audited.reset();
  EXPECT_EQ(reason(), "RegistryNotChecked");
  is.since = now;
  EXPECT_EQ(reason(), "") << "not yet";
  is.health.collection = CollectionReport{.collected = false};
  EXPECT_EQ(reason(), "RegistryNotCollected");
  is.health.damaged = {"ml/b"};
  EXPECT_EQ(reason(), "RegistryNotCollected") << "another's damage";
  is.health.damaged = {"ml/a"};
  EXPECT_EQ(reason(), "RegistryDamaged");
  is.full_since = now;
  EXPECT_EQ(reason(), "RegistryFull");
}

// One repository, "ml/transformer".
class Audit : public ::testing::Test {
 protected:
  Audit() {
    std::filesystem::create_directories(temp);
    EXPECT_TRUE(minter.use(*make_token_authority({}, clock.wall())));
    stores.registry.set({registry.host(), ""});
    registry.refuse([this](const auto& call) -> std::optional<FakeRegistry::Answer> {
      if (call.target.find("/v2/another/") == 0) return FakeRegistry::Answer{.status = 500};
      if (call.target.find("/v2/_catalog") != 0) return std::nullopt;
      if (catalog_status != 200) return FakeRegistry::Answer{.status = catalog_status};
      return FakeRegistry::Answer{.body = json{{"repositories", names}}.dump()};
    });
  }
  ~Audit() override { std::filesystem::remove_all(temp); }
  // Pushes an archive; how many bytes it has.
  uint64_t push(const std::string& text, int generation = 1) {
    store::RegistryStore store({.host = registry.host(),
                                .repository = "ml/transformer",
                                .plain_http = true,
                                .spool_folder = temp});
    const std::string file = temp / "file";
    std::ofstream(file) << text;
    archive::WriteRequest request;
    request.files = {{file, "torch/file"}};
    request.annotations = {{archive::kAnnotationName, "transformer-1"},
                           {archive::kAnnotationGeneration, std::to_string(generation)}};
    const auto written = archive::write_archive(store, std::move(request));
    EXPECT_TRUE(written) << written.error().message;
    manifest = written->archive.manifest;
    return written->archive.compressed_bytes;
  }
  void create_cache(bool seen = true) {
    const json object =
        server.put(kCaches, {{"metadata", {{"name", "transformer"}, {"namespace", "ml"}}},
                             {"spec", {{"storage", json::object()}, {"frameworks", {"torch"}}}}});
    if (!seen) return;
    stores.caches.upsert("ml/transformer", std::make_shared<const api::CompileCache>(
                                               api::parse_compile_cache(object).value()));
  }
  RegistryAudit audit() {
    return RegistryAudit({.repositories = repositories,
                          .view = view,
                          .client = client,
                          .usage = usage,
                          .ns = "system",
                          .keep_deleted = hours(24),
                          .deleted = [this](uint64_t bytes) { deleted += bytes; }},
                         clock);
  }
  [[nodiscard]] bool is_marked() const { return registry.tags().contains("compilecache-unneeded"); }

  const std::filesystem::path temp =
      std::filesystem::temp_directory_path() / ("audit-" + std::to_string(::getpid()));
  FakeRegistry registry;
  int catalog_status = 200;
  std::vector<std::string> names{"ml/transformer"};
  testing::FakeApiServer server;
  kube::Client client = test::client_of(server);
  FakeClock clock;
  ClusterStores stores;
  ClusterView view{stores};
  RegistryUsage usage;
  TokenMinter minter{clock, seeded_random(1)};
  OwnRepositories repositories{{.place = [this] { return view.own_registry(); },
                                .authorities = [] { return std::string(); },
                                .minter = minter,
                                .plain_http = true}};
  std::string manifest;
  uint64_t deleted = 0;
};

TEST_F(Audit, TheArchivesOfADeletedCompileCacheGoAfterAWhile) {
  const uint64_t bytes = push("some code");
  RegistryAudit first = audit();
  ASSERT_TRUE(first.round());
  EXPECT_TRUE(is_marked());
  EXPECT_EQ(first.health().unneeded, 1U);
  EXPECT_EQ(usage.of_namespace("ml"), bytes) << "it is there, and counts";
  clock.advance(hours(23));
  ASSERT_TRUE(first.round());
  EXPECT_EQ(registry.tags().size(), 2U);
  // Another leader goes on counting.
  clock.advance(hours(2));
  RegistryAudit second = audit();
  ASSERT_TRUE(second.round());
  EXPECT_TRUE(registry.tags().empty());
  EXPECT_EQ(usage.of_namespace("ml"), 0U);
  EXPECT_GE(deleted, bytes);
  ASSERT_TRUE(second.round());
  EXPECT_TRUE(second.health().leftovers) << "its folder is collection's to remove";
  EXPECT_EQ(second.health().unneeded, 0U);
}

TEST_F(Audit, OneThatIsCreatedAgainKeepsThem) {
  push("some code");
  RegistryAudit audit = this->audit();
  ASSERT_TRUE(audit.round());
  ASSERT_TRUE(is_marked());
  create_cache();
  clock.advance(hours(30));
  ASSERT_TRUE(audit.round());
  EXPECT_FALSE(is_marked());
  clock.advance(hours(30));
  ASSERT_TRUE(audit.round());
  EXPECT_EQ(registry.tags().size(), 1U);
}

TEST_F(Audit, NothingIsEmptiedOfWhichTheApiServerKnowsMore) {
  push("some code");
  RegistryAudit audit = this->audit();
  ASSERT_TRUE(audit.round());
  clock.advance(hours(30));
  create_cache(false);  // a watch that is late, or a spec that cannot be read
  ASSERT_TRUE(audit.round());
  EXPECT_EQ(registry.tags().size(), 2U);
  server.erase(kCaches, "ml", "transformer");
  server.script([](const auto& request, auto& connection) {
    if (request.path.find("/compilecaches") == std::string::npos) return false;
    connection.reply(403, testing::fake_status(403, "Forbidden", "not now"));
    return true;
  });
  EXPECT_FALSE(audit.round());
  EXPECT_EQ(registry.tags().size(), 2U) << "no answer is not the answer that there is none";
}

TEST_F(Audit, WhatCannotBeListedIsNotEmpty) {
  const uint64_t bytes = push("some code");
  RegistryAudit audit = this->audit();
  ASSERT_TRUE(audit.round());
  for (const int status : {500, 401, 404}) {
    catalog_status = status;
    EXPECT_FALSE(audit.round());
    EXPECT_EQ(usage.of_namespace("ml"), bytes);
    EXPECT_NE(audit.health().trouble, "");
    EXPECT_EQ(audit.health().repositories, 1U) << "as it was found before";
  }
  catalog_status = 200;
  ASSERT_TRUE(audit.round());
  EXPECT_EQ(audit.health().trouble, "");
}

TEST_F(Audit, WhatCountsIsWhatIsThere) {
  create_cache();
  RegistryAudit audit = this->audit();
  EXPECT_EQ(usage.of_namespace("ml"), std::nullopt) << "nobody has looked";
  const uint64_t bytes = push(std::string(50'000, 'x'));
  // A manifest may state any size.
  json lying = json::parse(registry.content(manifest));
  for (json& layer : lying["layers"]) layer["size"] = 1;
  ASSERT_TRUE(audit.round());
  EXPECT_EQ(usage.of_namespace("ml"), bytes);
  store::RegistryClient pusher(
      {.host = registry.host(), .repository = "ml/transformer", .plain_http = true});
  ASSERT_TRUE(store::put_manifest(pusher, "g2-0123456789ab", lying.dump()));
  ASSERT_TRUE(audit.round());
  EXPECT_EQ(usage.of_namespace("ml"), bytes + lying.dump().size()) << "its blobs are shared";
  const auto cache = view.cache("ml", "transformer");
  EXPECT_EQ(registry_use(view, *cache, &usage).of_namespace, bytes + lying.dump().size());
  EXPECT_TRUE(over_quota(*cache, registry_use(view, *cache, &usage), bytes));
  EXPECT_FALSE(over_quota(*cache, registry_use(view, *cache, nullptr), bytes));
  usage.committed("ml/transformer", 7);
  EXPECT_EQ(usage.of_namespace("ml"), bytes + lying.dump().size() + 7);
  EXPECT_EQ(usage.of_namespace("m"), 0U);
}

TEST_F(Audit, ATagThatCannotBeReadIsCountedAndHidesNothing) {
  create_cache();
  const uint64_t bytes = push("some code");
  registry.tag("g9-0123456789ab", "sha256:" + std::string(64, '9'));
  RegistryAudit audit = this->audit();
  ASSERT_TRUE(audit.round());
  EXPECT_EQ(audit.health().unreadable, 1U);
  EXPECT_EQ(audit.health().damaged, std::vector<std::string>{"ml/transformer"});
  EXPECT_EQ(usage.of_namespace("ml"), bytes);
}

TEST_F(Audit, ARepositoryThatCannotBeListedHidesNoOther) {
  names = {"another/damaged", "ml/transformer"};
  create_cache();
  const uint64_t bytes = push("some code");
  RegistryAudit audit = this->audit();
  ASSERT_TRUE(audit.round());
  EXPECT_EQ(usage.of_namespace("ml"), bytes);
  EXPECT_EQ(audit.health().damaged, std::vector<std::string>{"another/damaged"});
  names = {"another/damaged"};
  EXPECT_FALSE(audit.round()) << "nothing at all can be read";
}

TEST_F(Audit, WhatCollectionSaidIsRead) {
  create_cache();
  RegistryAudit audit = this->audit();
  ASSERT_TRUE(audit.round());
  EXPECT_FALSE(audit.health().collection);
  json pod = {{"metadata",
               {{"name", "r-1"},
                {"namespace", "system"},
                {"labels", {{"app.kubernetes.io/name", api::kRegistryService}}}}}};
  pod["status"]["initContainerStatuses"] = json::array(
      {{{"name", "collect"},
        {"state", {{"terminated", {{"message", "{\"collected\":false,\"setAside\":3}\n"}}}}}}});
  server.put(kPods, pod);
  ASSERT_TRUE(audit.round());
  ASSERT_TRUE(audit.health().collection);
  EXPECT_FALSE(audit.health().collection->collected);
  EXPECT_EQ(audit.health().collection->set_aside, 3U);
}

TEST_F(Audit, ASaveIsWhatIsThereOfIt) {
  const uint64_t bytes = push(std::string(50'000, 'x'));
  const auto found = repositories.find_save("ml/transformer", manifest);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->bytes, bytes);
  EXPECT_EQ(repositories.find_save("ml/transformer", "sha256:" + std::string(64, '0')).error().code,
            ErrorCode::kNotFound);
  const json written = json::parse(registry.content(manifest));
  registry.take(written["config"]["digest"]);
  EXPECT_EQ(repositories.find_save("ml/transformer", manifest).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace compilecache::controller
