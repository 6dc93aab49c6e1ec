#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "archive/format.hpp"
#include "http/server.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/registry_store.hpp"
#include "tests/support/registry_process.hpp"
#include "tests/unit/archive/archive_fixture.hpp"
#include "tests/unit/http/certificates.hpp"
#include "tests/unit/store/registry_tokens.hpp"

// Stores in registries as they are released: anonymous, with Basic authentication, a private
// authority, and tokens.

namespace compilecache::store::test {
namespace {

namespace fs = std::filesystem;
using archive::test::Tree;
using http::testing::TestCa;
using ::testing::HasSubstr;
using testing::kHtpasswd;
using testing::RegistryKind;
using testing::RegistryProcess;
using testing::RegistrySetup;

constexpr char kRepository[] = "ml/caches/team-a/llama";

class RealRegistry : public ::testing::TestWithParam<RegistryKind> {
 protected:
  void SetUp() override {
    if (const std::string missing = testing::missing_registry(GetParam()); !missing.empty())
      GTEST_SKIP() << missing;
  }

  std::unique_ptr<RegistryProcess> start(RegistrySetup setup = {}) {
    auto registry = std::make_unique<RegistryProcess>(
        GetParam(), temp_.path("registry-" + std::to_string(++counter_)), std::move(setup));
    EXPECT_EQ(registry->problem(), "");
    return registry;
  }
  [[nodiscard]] RegistryOptions options(const RegistryProcess& registry, bool plain = true) const {
    return {.host = registry.host(),
            .repository = kRepository,
            .plain_http = plain,
            .spool_folder = temp_.path(),
            .sleep = [](std::chrono::milliseconds) {}};
  }
  std::string credentials(const RegistryProcess& registry, const std::string& password) {
    const std::string path = temp_.path("config-" + std::to_string(++counter_) + ".json");
    archive::test::write_file(path, R"({"auths":{"https://)" + registry.host() +
                                        R"(":{"username":"me","password":")" + password +
                                        R"("}}})");
    return path;
  }

  Result<archive::WriteResult> save(Store& store, const Tree& tree,
                                    const std::string& parent = "") {
    const std::string root = temp_.path("source-" + std::to_string(++counter_));
    archive::test::write_tree(root, tree);
    archive::WriteRequest request;
    request.parent = parent;
    request.settings.compression_level = 1;
    request.annotations = {{archive::kAnnotationGeneration, std::to_string(counter_)}};
    for (const auto& [path, file] : tree)
      request.files.push_back({root + "/" + path, "torch/" + path});
    return archive::write_archive(store, request);
  }
  Result<Tree> load(Store& store, const std::string& manifest) {
    const std::string into = temp_.path("loaded-" + std::to_string(++counter_));
    archive::ExtractOptions extraction;
    extraction.roots = {{"torch", into}};
    auto loaded = archive::extract(store, manifest, extraction);
    if (!loaded) return unexpected(loaded.error());
    return archive::test::read_tree(into);
  }
  // Saves, extends and loads.
  void expect_works(Store& store) {
    const auto first = save(store, tree_);
    ASSERT_TRUE(first) << first.error().message;
    const auto second =
        save(store, {{"d", {archive::test::noise(300'000, 9), false}}}, first->archive.manifest);
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->archive.layers.size(), 2U);
    for (const auto& saved : {*first, *second}) {
      const auto loaded = load(store, saved.archive.manifest);
      ASSERT_TRUE(loaded) << loaded.error().message;
      EXPECT_EQ(loaded->at("a"), tree_.at("a"));
    }
  }

  archive::test::TempDir temp_;
  int counter_ = 0;
  const Tree tree_{{"a", {archive::test::noise(3'000'000, 1), false}},
                   {"b/c", {std::string(70'000, 'x'), true}},
                   {"empty", {"", false}}};
};

INSTANTIATE_TEST_SUITE_P(Kinds, RealRegistry,
                         ::testing::Values(RegistryKind::kDebian, RegistryKind::kDistribution),
                         [](const auto& kind) {
                           return kind.param == RegistryKind::kDebian ? "Debian" : "Distribution";
                         });

TEST_P(RealRegistry, Anonymous) {
  const auto registry = start();
  RegistryStore store(options(*registry));
  expect_works(store);
}

TEST_P(RealRegistry, WithNameAndPassword) {
  const auto registry = start({.htpasswd = kHtpasswd});
  RegistryOptions with = options(*registry);
  with.docker_config_file = credentials(*registry, "secret");
  RegistryStore store(with);
  expect_works(store);

  with.docker_config_file = credentials(*registry, "wrong");
  RegistryStore refused(with);
  RegistryStore anonymous(options(*registry));
  for (RegistryStore* one : {&refused, &anonymous}) {
    const auto saved = save(*one, tree_);
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().code, ErrorCode::kUnauthorized) << saved.error().message;
    EXPECT_EQ(saved.error().reason, kReasonUnauthorized);
  }
}

TEST_P(RealRegistry, WithAnAuthorityOfItsOwn) {
  const TestCa authority("a test"), other("another");
  const auto pair = authority.issue("127.0.0.1");
  const auto registry = start({.certificate_pem = pair.certificate_pem, .key_pem = pair.key_pem});
  archive::test::write_file(temp_.path("ca.crt"), authority.pem());
  RegistryOptions with = options(*registry, false);
  with.ca_file = temp_.path("ca.crt");
  RegistryStore store(with);
  expect_works(store);

  with.ca_file = "";
  with.ca_pem = other.pem();
  RegistryStore distrusting(with);
  const auto saved = save(distrusting, tree_);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().reason, kReasonCertificate) << saved.error().message;
  EXPECT_THAT(saved.error().message, HasSubstr("caConfigMapName"));
}

TEST_P(RealRegistry, WithTokensOfTheOperator) {
  const TestCa authority("a token authority");
  const auto signer = authority.issue("signer");
  const auto registry =
      start({.token_realm = "http://127.0.0.1:1/token", .token_authority_pem = authority.pem()});
  std::atomic<int> pulls{0}, pushes{0};
  RegistryOptions with = options(*registry);
  with.tokens = [&](bool push, http::SteadyTime) -> Result<Token> {
    ++(push ? pushes : pulls);
    return Token{sign_token(signer, kRepository, push ? "pull,push" : "pull"),
                 std::chrono::seconds(300)};
  };
  RegistryStore store(with);
  expect_works(store);
  EXPECT_EQ(pulls, 1);
  EXPECT_EQ(pushes, 1);

  // For another repository, for pulling alone, expired, and signed by another.
  const TestCa other("another");
  const auto stranger = other.issue("signer");
  for (const std::string& token :
       {sign_token(signer, "ml/caches/team-b/llama", "pull,push"),
        sign_token(signer, kRepository, "pull"), sign_token(signer, kRepository, "pull,push", -300),
        sign_token(stranger, kRepository, "pull,push")}) {
    with.tokens = [&](bool, http::SteadyTime) -> Result<Token> { return Token{token}; };
    RegistryStore refused(with);
    const auto saved = save(refused, {{"new", {archive::test::noise(5000, 77), false}}});
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().code, ErrorCode::kUnauthorized) << saved.error().message;
  }
}

TEST_P(RealRegistry, WithATokenServiceOfTheRegistry) {
  const TestCa authority("a token authority");
  const auto signer = authority.issue("signer");
  std::atomic<int> given{0};
  auto service = http::Server::start(
      {.address = "127.0.0.1", .tls = false}, [&](http::Request request, http::Responder respond) {
        if (!request.header("Authorization")) return respond(http::text_response(401, "who?"));
        ++given;
        const std::string scope = request.query_parameter("scope").value_or("");
        const bool push = scope == std::string("repository:") + kRepository + ":pull,push";
        respond({.body = R"({"access_token":")" +
                         sign_token(signer, kRepository, push ? "pull,push" : "pull") + "\"}"});
      });
  ASSERT_TRUE(service);
  const std::string realm = "127.0.0.1:" + std::to_string((*service)->port());
  const auto registry =
      start({.token_realm = "http://" + realm + "/token", .token_authority_pem = authority.pem()});
  RegistryOptions with = options(*registry);
  with.plain_hosts = {realm};
  with.docker_config_file = credentials(*registry, "secret");
  RegistryStore store(with);
  expect_works(store);
  EXPECT_EQ(given, 2);
}

TEST_P(RealRegistry, ItIsLookedAfter) {
  const auto registry = start();
  RegistryStore store(options(*registry));
  Upkeep& upkeep = *store.upkeep();
  EXPECT_TRUE(upkeep.list().value().empty());
  EXPECT_EQ(upkeep.owner().error().code, ErrorCode::kNotFound);
  const StoreOwner owner{"cluster-1", "ml", "uid-1"};
  const auto prepared = upkeep.prepare(owner, false);
  ASSERT_TRUE(prepared) << prepared.error().message;
  EXPECT_TRUE(prepared->created);
  EXPECT_EQ(*upkeep.owner(), owner);
  EXPECT_EQ(upkeep.prepare({"cluster-2", "ml", "uid-1"}, false).error().code, ErrorCode::kConflict);
  ASSERT_TRUE(upkeep.probe());

  const auto first = save(store, tree_);
  const auto second = save(store, {{"d", {archive::test::noise(300'000, 9), false}}});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(upkeep.list()->size(), 6U);
  const auto counts = upkeep.remove({first->archive.manifest, first->archive.config});
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->removed, 1U);
  EXPECT_EQ(counts->missing, 1U);
  EXPECT_EQ(counts->freed_bytes, first->archive.compressed_bytes);
  EXPECT_EQ(upkeep.list()->size(), 3U);
  EXPECT_EQ(load(store, first->archive.manifest).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(load(store, second->archive.manifest));
  // Deleted blobs are uploaded again by the next save.
  EXPECT_TRUE(save(store, tree_));
}

// With `crane tag`, or a button of the registry's.
TEST_P(RealRegistry, WhatSomebodyTaggedIsListedAndKept) {
  const auto registry = start();
  RegistryStore store(options(*registry));
  const auto first = save(store, tree_);
  const auto second =
      save(store, {{"d", {archive::test::noise(300'000, 9), false}}}, first->archive.manifest);
  ASSERT_TRUE(first && second);
  RegistryClient client(options(*registry));
  const auto text = get_manifest(client, first->archive.manifest);
  ASSERT_TRUE(text);
  ASSERT_TRUE(put_manifest(client, "production", *text));
  const auto listed = store.upkeep()->list();
  ASSERT_TRUE(listed) << listed.error().message;
  std::map<std::string, bool> kept;
  for (const StoredBlob& blob : *listed) kept[blob.digest] = blob.kept;
  for (const std::string& blob : second->archive.blobs())
    EXPECT_TRUE(kept.contains(blob)) << "nobody misses it";
  for (const std::string& blob : first->archive.blobs()) EXPECT_TRUE(kept[blob]) << blob;
  EXPECT_FALSE(kept[second->archive.manifest]);
}

TEST_P(RealRegistry, ThatLetsNothingBeDeleted) {
  const auto registry = start({.deletes = false});
  RegistryStore store(options(*registry));
  const auto saved = save(store, tree_);
  ASSERT_TRUE(saved);
  const auto counts = store.upkeep()->remove({saved->archive.manifest});
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->removed, 0U);
  EXPECT_TRUE(counts->failures.empty());
  EXPECT_TRUE(load(store, saved->archive.manifest));
}

// As distribution's garbage collection and a lost disk do it.
TEST_P(RealRegistry, WhatItLosesIsSavedAgain) {
  const auto registry = start();
  RegistryStore store(options(*registry));
  const auto saved = save(store, tree_);
  ASSERT_TRUE(saved);
  registry->kill();
  fs::remove_all(registry->data());
  registry->start_again();
  ASSERT_EQ(registry->problem(), "");
  const auto lost = load(store, saved->archive.manifest);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(lost.error().digest, saved->archive.manifest);
  EXPECT_EQ(save(store, {{"x", {"y", false}}}, saved->archive.manifest).error().code,
            ErrorCode::kNotFound);
  expect_works(store);
}

// It keeps the file of a blob that is there.
TEST_P(RealRegistry, WhatRottedThereIsSavedInOtherBytes) {
  const auto registry = start();
  RegistryStore store(options(*registry));
  const auto saved = save(store, tree_);
  ASSERT_TRUE(saved);
  const auto manifest = archive::read_manifest(store, saved->archive.manifest);
  const std::string hex = manifest->layers.at(0).digest.substr(7);
  {
    std::fstream file(registry->data() + "/docker/registry/v2/blobs/sha256/" + hex.substr(0, 2) +
                          "/" + hex + "/data",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1000);
    file.put('?').put('!');
    ASSERT_TRUE(file.good());
  }
  ASSERT_EQ(load(store, saved->archive.manifest).error().code, ErrorCode::kCorrupt);
  archive::WriteRequest request;
  const std::string root = temp_.path("source-again");
  archive::test::write_tree(root, tree_);
  request.settings.compression_level = 1;
  request.without = saved->archive.blobs();
  for (const auto& [path, file] : tree_)
    request.files.push_back({root + "/" + path, "torch/" + path});
  const auto again = archive::write_archive(store, std::move(request));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(load(store, again->archive.manifest).value_or(Tree{}), tree_);
}

TEST_P(RealRegistry, ThatIsAwayIsSaidToBeAway) {
  const auto registry = start();
  RegistryStore store(options(*registry));
  const auto saved = save(store, tree_);
  ASSERT_TRUE(saved);
  registry->kill();
  const auto loaded = load(store, saved->archive.manifest);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().reason, kReasonUnreachable);
  EXPECT_FALSE(save(store, {{"x", {"y", false}}}));
  registry->start_again();
  EXPECT_EQ(*load(store, saved->archive.manifest), tree_);
}

}  // namespace
}  // namespace compilecache::store::test
