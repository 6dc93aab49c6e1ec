#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <random>

#include "agent/coordinator.hpp"
#include "agent/registry_access.hpp"
#include "agent/sweep/sweep.hpp"
#include "api/registry_trouble.hpp"
#include "archive/format.hpp"
#include "archive/manifest.hpp"
#include "archive/write/write.hpp"
#include "base/clock.hpp"
#include "base/p256.hpp"
#include "base/random.hpp"
#include "store/registry/refusal.hpp"
#include "store/registry/registry_store.hpp"
#include "store/signatures.hpp"
#include "store/trust/trusted_keys.hpp"
#include "store/upkeep.hpp"
#include "tests/unit/agent/save_fixture.hpp"
#include "tests/unit/store/fake_registry.hpp"
#include "tests/unit/store/trust_keys.hpp"

// The program with a registry as its store.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using store::test::FakeRegistry;
using ::testing::HasSubstr;
using ::testing::Not;

class Registry : public Save {
 protected:
  Registry() {
    config_.store = api::RegistryRef{
        .host = registry_.host(), .repository = "ml/caches/demo", .parent = "ml/caches"};
    config_.index_fallback = false;
    fs::remove_all(store_);
  }
  // With one archive of these files.
  void save_some() {
    write("fxgraph/ab/KEY/file", "an entry");
    write("cd/cmodule.py", "print(1)");
    ASSERT_EQ(run("save", {"--once"}), 0) << log_;
    ASSERT_FALSE(operator_.head().empty()) << log_;
  }
  nlohmann::json sweep() {
    operator_.script([](const Call& call) -> std::optional<http::Response> {
      if (call.path != "/v1/sweeps" || call.body["phase"] != "begin") return {};
      return json_response({{"archives", nlohmann::json::array()}});
    });
    run("sweep");
    const auto calls = operator_.calls("POST", "/v1/sweeps");
    return calls.empty() ? nlohmann::json() : calls.back().body;
  }

  FakeRegistry registry_;
};

TEST_F(Registry, WhatIsSavedThereIsLoadedFromThere) {
  save_some();
  EXPECT_EQ(registry_.tags().size(), 1U);
  EXPECT_EQ(registry_.tags().begin()->second, operator_.head());
  EXPECT_EQ(registry_.tags().begin()->first, "g1-" + operator_.head().substr(7, 12));
  remove_cache();
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
  EXPECT_EQ(content("cd/cmodule.py"), "print(1)");
  EXPECT_FALSE(fs::exists(store_)) << "no folder is made";
}

TEST_F(Registry, APodStartsColdWithoutIt) {
  save_some();
  remove_cache();
  registry_.refuse([](const auto&) { return FakeRegistry::Answer{.status = 503}; });
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "ERROR") << log_;
  EXPECT_EQ(status()["reason"], "registry_unreachable") << log_;
  EXPECT_TRUE(fs::is_empty(torch_));
}

// It takes connections and says nothing, as a process that hangs.
TEST_F(Registry, APodStartsColdLongBeforeItsBudgetIsOverIfItIsSilent) {
  save_some();
  remove_cache();
  config_.load.timeout = std::chrono::seconds(12);  // it would wait longer for a byte
  std::promise<void> over;
  registry_.refuse([&, until = over.get_future().share()](const auto&) {
    until.wait();
    return FakeRegistry::Answer{.status = 503};
  });
  EXPECT_EQ(run("load"), 0);
  over.set_value();
  EXPECT_EQ(status()["outcome"], "ERROR") << log_;
  EXPECT_EQ(status()["reason"], "registry_unreachable") << "not timeout; " << log_;
}

// It has no index of its own.
TEST_F(Registry, APodStartsColdWithoutTheOperator) {
  save_some();
  remove_cache();
  config_.index_fallback = true;
  operator_.script([](const Call&) { return error_response(503, "Unavailable"); });
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["reason"], "operator_unreachable") << log_;
  EXPECT_THAT(log_, HasSubstr("operator_unreachable"));
  EXPECT_THAT(log_, Not(HasSubstr("index")));
}

TEST_F(Registry, APodStartsColdWhereABlobIsGoneOrWrong) {
  // Larger than what the manifest carries.
  std::minstd_rand random;
  std::string noise(40'000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random() >> 8);
  write("fxgraph/cd/KEY/file", noise);
  save_some();
  const std::string manifest = registry_.content(operator_.head());
  const auto layer = nlohmann::json::parse(manifest)["layers"][0]["digest"].get<std::string>();
  std::string bytes = *registry_.take(layer);
  remove_cache();
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "DOES_NOT_EXIST") << log_;
  EXPECT_EQ(status()["reason"], "blob_missing") << log_;
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  registry_.put(layer, bytes);
  remove_cache();
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["reason"], "corrupt") << log_;
  EXPECT_TRUE(fs::is_empty(torch_));
}

TEST_F(Registry, ASaverTellsWhatIsWrongWithIt) {
  for (const auto& [answer, reason] :
       {std::pair{FakeRegistry::Answer{.status = 403}, "registry_unauthorized"},
        {FakeRegistry::Answer{.status = 507}, "registry_full"},
        {FakeRegistry::Answer{.status = 503}, "registry_unreachable"}}) {
    registry_.refuse([&](const FakeRegistry::Call& call) -> std::optional<FakeRegistry::Answer> {
      if (call.method == "HEAD") return std::nullopt;
      return answer;
    });
    write("fxgraph/ab/KEY/file", std::string("an entry ") + reason);
    EXPECT_EQ(run("save", {"--once"}), 1);
    EXPECT_THAT(log_, HasSubstr(reason));
    EXPECT_TRUE(operator_.head().empty());
  }
  registry_.refuse(nullptr);
  EXPECT_EQ(run("save", {"--once"}), 0) << log_;
}

// The last save has time for a whole try, and none for the pause that the registry asks for.
TEST_F(Registry, ARegistryThatAsksForPatienceDoesNotHoldUpThePodsEnd) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  config_.save.at_termination = std::chrono::milliseconds(8'000);
  write("fxgraph/ab/KEY/file", "an entry");
  for (const int status : {429, 503}) {
    registry_.refuse([&](const auto&) {
      return FakeRegistry::Answer{.status = status, .headers = {{"Retry-After", "9"}}};
    });
    AgentProcess saver = start("save");
    ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
    EXPECT_EQ(end(saver), 0);
    const auto reports = operator_.calls("POST", "/v1/effect");
    EXPECT_TRUE(std::any_of(
        reports.begin(), reports.end(),
        [](const Call& call) { return call.body["save_reason"] == "registry_unreachable"; }))
        << "the operator gets the report; " << saver.log();
    EXPECT_FALSE(operator_.calls("DELETE", "/v1/saves").empty()) << "the lock is free for others";
    EXPECT_TRUE(operator_.head().empty());
  }
}

TEST_F(Registry, ARegistryThatStallsDoesNotHoldUpThePodsEnd) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  config_.save.at_termination = std::chrono::milliseconds(3'000);
  write("fxgraph/ab/KEY/file", "an entry");
  for (const char* method : {"HEAD", "POST", "PUT"}) {
    registry_.on_every_call([=](const auto& call) -> std::optional<FakeRegistry::Fault> {
      if (call.method != method) return std::nullopt;
      return FakeRegistry::stall();
    });
    AgentProcess saver = start("save");
    ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
    EXPECT_EQ(end(saver), 0);
    EXPECT_THAT(saver.log(), HasSubstr("out_of_time")) << method;
    EXPECT_TRUE(operator_.head().empty());
  }
  registry_.on_every_call(nullptr);
  config_.save.quiet_period = std::chrono::milliseconds(200);  // which it waits for
  EXPECT_EQ(run("save", {"--once"}), 0) << log_;
  EXPECT_FALSE(operator_.head().empty());
}

TEST_F(Registry, ASweepCopiesFromOneIntoAnother) {
  save_some();
  const std::string saved = operator_.head();
  config_.sweep.copy_from = config_.store;
  config_.sweep.copy_name = "old";
  config_.store = api::RegistryRef{
      .host = registry_.host(), .repository = "ml/caches/new", .parent = "ml/caches"};
  operator_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/sweeps") return {};
    if (call.body["phase"] == "copy") return json_response({{"taken", call.body["found"].size()}});
    return json_response({{"archives", nlohmann::json::array()}});
  });
  EXPECT_EQ(run("sweep"), 0) << log_;
  std::vector<nlohmann::json> told;
  for (const auto& call : operator_.calls("POST", "/v1/sweeps")) {
    if (call.body["phase"] == "copy") told.push_back(call.body);
  }
  ASSERT_EQ(told.size(), 2u) << log_;
  EXPECT_EQ(told[0]["found"][0]["manifest_digest"], saved) << "the same digest";
  EXPECT_EQ(told[0]["found"][0]["generation"], 1);
  EXPECT_EQ(told[1]["copied_from"], "old");
  EXPECT_EQ(told[1]["copied_archives"], 1);
  EXPECT_EQ(told[1]["copy_error"], "");
}

// A CompileCache that trusts a key, about to take external archives. Three are there: one
// signed by the key, one by another, one by nobody.
class Trusting : public Registry {
 protected:
  Trusting() {
    config_.sweep.trusted_keys = {store::test::ours().public_key};
    operator_.script([](const Call& call) -> std::optional<http::Response> {
      if (call.path != "/v1/sweeps") return {};
      if (call.body["phase"] == "copy")
        return json_response({{"taken", call.body["found"].size()}});
      return json_response({{"archives", nlohmann::json::array()}});
    });
    signed_ = put("signed", &store::test::ours());
    put("wrongly-signed", &store::test::anothers());
    put("unsigned", nullptr);
  }

  std::string put(const std::string& name, const store::test::KeyPair* keys,
                  const std::string& generation = "3") {
    const std::string local = root_ + "/" + name;
    std::ofstream(local) << name << generation;
    archive::WriteRequest request;
    request.files = {{local, "torch/" + name}};
    request.annotations = {{archive::kAnnotationName, name},
                           {archive::kAnnotationGeneration, generation},
                           {"dev.compilecache.key.GPUProduct", name}};
    const auto written = archive::write_archive(store_of_others_, std::move(request));
    EXPECT_TRUE(written) << written.error().message;
    const std::string digest = written->archive.manifest;
    if (keys == nullptr) return digest;
    const std::string payload = store::simple_payload("r", digest);
    EXPECT_TRUE(
        store_of_others_.signatures()->add({payload, *sign_p256(keys->key, payload), digest}));
    return digest;
  }
  // The reports that the operator got in that phase.
  std::vector<nlohmann::json> told(const char* phase) {
    std::vector<nlohmann::json> all;
    for (const auto& call : operator_.calls("POST", "/v1/sweeps")) {
      if (call.body["phase"] == phase) all.push_back(call.body);
    }
    return all;
  }
  std::vector<std::string> found(const char* phase) {
    std::vector<std::string> digests;
    for (const auto& page : told(phase)) {
      for (const auto& one : page["found"]) digests.push_back(one["manifest_digest"]);
    }
    return digests;
  }

  store::RegistryStore store_of_others_{{.host = registry_.host(),
                                         .repository = "ml/caches/demo",
                                         .plain_http = true,
                                         .spool_folder = root_}};
  std::string signed_;
};

TEST_F(Trusting, CopiesWhatItsKeyHasSignedAndSaysWhatItLeaves) {
  config_.sweep.copy_from = config_.store;
  config_.sweep.copy_name = "old";
  config_.store = api::RegistryRef{
      .host = registry_.host(), .repository = "ml/caches/new", .parent = "ml/caches"};
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_THAT(found("copy"), ::testing::ElementsAre(signed_)) << log_;
  const std::string error = told("copy").back()["copy_error"];
  EXPECT_THAT(error, HasSubstr("2 archives of"));
  EXPECT_THAT(error, HasSubstr("no signature by a key of spec.trust.publicKeys (unsigned, "
                               "wrongly-signed)"));
  EXPECT_THAT(error, HasSubstr("kubectl compilecache sign"));

  config_.sweep.trusted_keys = {"no key"};
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_THAT(found("copy"), ::testing::ElementsAre(signed_)) << "none more";
  EXPECT_THAT(told("copy").back()["copy_error"], HasSubstr("spec.trust.publicKeys[0]"));
  config_.sweep.trusted_keys.clear();
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_EQ(found("copy").size(), 4U) << "without keys all are";
}

TEST_F(Trusting, AnArchiveThatCannotBeCopiedHidesNoOther) {
  config_.sweep.copy_from = config_.store;
  config_.sweep.copy_name = "old";
  config_.sweep.trusted_keys.clear();
  config_.store = api::RegistryRef{
      .host = registry_.host(), .repository = "ml/caches/new", .parent = "ml/caches"};
  registry_.refuse([&](const auto& call) -> std::optional<FakeRegistry::Answer> {
    if (!call.target.ends_with("/manifests/" + signed_)) return std::nullopt;
    return FakeRegistry::Answer{.status = 500};
  });
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_EQ(found("copy").size(), 2U) << "those that come after it by name";
  EXPECT_THAT(found("copy"), Not(::testing::Contains(signed_)));
  const auto last = told("copy").back();
  EXPECT_EQ(last["copied_archives"], 2);
  EXPECT_THAT(last["copy_error"], HasSubstr("500")) << "so that it is tried again";
  registry_.refuse(nullptr);
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_THAT(found("copy"), ::testing::Contains(signed_));
  EXPECT_EQ(told("copy").back()["copy_error"], "");
}

TEST_F(Trusting, CopiesSignaturesAlongWhereTheyAreTaken) {
  for (const bool taken : {false, true}) {
    SCOPED_TRACE(taken);
    FakeRegistry elsewhere;
    elsewhere.refuse([&](const auto& call) -> std::optional<FakeRegistry::Answer> {
      if (taken || call.method != "PUT" || !call.target.ends_with(".sig")) return std::nullopt;
      return FakeRegistry::Answer{.status = 403};
    });
    config_.sweep.copy_from = api::RegistryRef{
        .host = registry_.host(), .repository = "ml/caches/demo", .parent = "ml/caches"};
    config_.sweep.copy_name = "old";
    config_.store = api::RegistryRef{
        .host = elsewhere.host(), .repository = "ml/caches/new", .parent = "ml/caches"};
    EXPECT_EQ(run("sweep"), 0) << log_;
    EXPECT_EQ(found("copy"), std::vector<std::string>(taken ? 2 : 1, signed_)) << log_;
    store::RegistryStore copied({.host = elsewhere.host(),
                                 .repository = "ml/caches/new",
                                 .plain_http = true,
                                 .spool_folder = root_});
    const auto signatures = copied.signatures()->of(signed_);
    ASSERT_FALSE(signatures.unread) << signatures.unread->message;
    const auto keys = store::TrustedKeys::parse(config_.sweep.trusted_keys);
    EXPECT_EQ(keys->vouch_for(signed_, signatures.all), taken);
    EXPECT_EQ(log_.find("signatures are not copied along") == std::string::npos, taken) << log_;
  }
}

TEST_F(Trusting, TakesOverWhatItsKeyHasSigned) {
  config_.sweep.cluster_uid = "here";
  config_.sweep.adopt = true;
  ASSERT_TRUE(store_of_others_.upkeep()->prepare({"there", "ml", "uid"}, false));
  config_.sweep.trusted_keys = {"no key"};
  run("sweep");
  EXPECT_TRUE(told("adopt").empty());
  EXPECT_THAT(told("end").back()["storage_error"], HasSubstr("spec.trust.publicKeys[0]"));
  EXPECT_EQ(store_of_others_.upkeep()->owner()->cluster, "there") << "it can be tried again";

  config_.sweep.trusted_keys = {store::test::ours().public_key};
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_THAT(found("adopt"), ::testing::ElementsAre(signed_)) << log_;
  EXPECT_EQ(store_of_others_.upkeep()->owner()->cluster, "here");
}

// Anyone who may push can put any number of them there.
TEST_F(Trusting, NewerSavesThatItsKeyHasNotSignedHideNone) {
  put("signed", nullptr, "4");
  put("signed", &store::test::anothers(), "5");
  const auto there = config_.store;
  config_.sweep.copy_from = config_.store;
  config_.sweep.copy_name = "old";
  config_.store = api::RegistryRef{
      .host = registry_.host(), .repository = "ml/caches/new", .parent = "ml/caches"};
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_THAT(found("copy"), ::testing::ElementsAre(signed_)) << log_;
  EXPECT_THAT(told("copy").back()["copy_error"], HasSubstr("(unsigned, wrongly-signed)"));

  config_.sweep.copy_from.reset();
  config_.store = there;
  config_.sweep.cluster_uid = "here";
  config_.sweep.adopt = true;
  ASSERT_TRUE(store_of_others_.upkeep()->prepare({"there", "ml", "uid"}, true));
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_THAT(found("adopt"), ::testing::ElementsAre(signed_)) << log_;
}

TEST_F(Trusting, ANewerSaveWhoseSignaturesCannotBeReadHidesNone) {
  const std::string newer = put("signed", &store::test::ours(), "4");
  config_.sweep.copy_from = config_.store;
  config_.sweep.copy_name = "old";
  config_.store = api::RegistryRef{
      .host = registry_.host(), .repository = "ml/caches/new", .parent = "ml/caches"};
  const auto refuse_signatures_of = [&](const std::vector<std::string>& digests) {
    registry_.refuse([digests](const auto& call) -> std::optional<FakeRegistry::Answer> {
      for (const std::string& digest : digests) {
        const std::string hex = digest.substr(digest.find(':') + 1);
        if (call.target.ends_with("/demo/manifests/sha256-" + hex + ".sig"))
          return FakeRegistry::Answer{.status = 403};
      }
      return std::nullopt;
    });
  };
  refuse_signatures_of({newer, signed_});
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_THAT(found("copy"), ::testing::IsEmpty()) << "nobody knows, so it is tried again";
  EXPECT_THAT(told("copy").back()["copy_error"], HasSubstr("looking for who has signed " + newer));
  refuse_signatures_of({newer});
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_THAT(found("copy"), ::testing::ElementsAre(signed_)) << log_;
  EXPECT_THAT(log_, HasSubstr("the signer of a later one is unknown"));
}

TEST_F(Trusting, WithoutKeysARepositoryIsTakenOverWithAllItsArchives) {
  config_.sweep.cluster_uid = "here";
  config_.sweep.adopt = true;
  config_.sweep.trusted_keys.clear();
  ASSERT_TRUE(store_of_others_.upkeep()->prepare({"there", "ml", "uid"}, false));
  // Until it is given up once; later callers get an answer.
  const int tries = store::RetryLimits().attempts;
  for (const std::string call_for :
       {"tags/list", "/manifests/compilecache-owner", "/manifests/g3-", "/manifests/sha256:"}) {
    SCOPED_TRACE(call_for);
    std::atomic<int> refused = 0;
    registry_.refuse([&](const auto& call) -> std::optional<FakeRegistry::Answer> {
      if (call.target.find(call_for) == std::string::npos || refused == tries) return std::nullopt;
      ++refused;
      return FakeRegistry::Answer{.status = 500};
    });
    run("sweep");
    registry_.refuse(nullptr);
    EXPECT_EQ(refused, tries);
    EXPECT_TRUE(told("adopt").empty());
    EXPECT_EQ(store_of_others_.upkeep()->owner()->cluster, "there") << "it can be tried again";
  }
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_EQ(found("adopt").size(), 3U) << log_;
}

// In the installation's own registry, whose tokens the operator mints.
class Recreated : public Trusting {
 protected:
  Recreated() {
    auto registry = *config_.store->registry();
    registry.own = true;
    config_.store = registry;
    config_.sweep.cluster_uid = "here";
    config_.sweep.trusted_keys.clear();
    config_.cache_uid = "second";
  }
  bool sweep_it() {
    const auto coordinator =
        make_operator_client(config_, SystemClock::instance(), seeded_random(1),
                             [](std::chrono::milliseconds) { return true; });
    return run_sweep(config_, store_of_others_, nullptr, *coordinator, SystemClock::instance());
  }
};

TEST_F(Recreated, ACompileCacheTakesOverItsRepositoryWithItsArchives) {
  ASSERT_TRUE(store_of_others_.upkeep()->prepare({"here", config_.ns, "first"}, false));
  EXPECT_TRUE(sweep_it());
  EXPECT_EQ(found("adopt").size(), 3U);
  EXPECT_EQ(store_of_others_.upkeep()->owner()->compile_cache, "second");
  EXPECT_EQ(told("end").back()["storage_error"], "");
  EXPECT_TRUE(sweep_it());
  EXPECT_EQ(found("adopt").size(), 3U) << "once";
}

TEST_F(Recreated, WhatIsAnotherClustersOrAnotherNamespacesIsNot) {
  for (const store::StoreOwner& owner :
       {store::StoreOwner{"there", config_.ns, "first"}, {"here", "another", "first"}}) {
    ASSERT_TRUE(store_of_others_.upkeep()->prepare(owner, true));
    EXPECT_FALSE(sweep_it());
    EXPECT_TRUE(found("adopt").empty());
    EXPECT_THAT(told("end").back()["storage_error"], HasSubstr("spec.storage.adopt"));
  }
}

TEST_F(Registry, ASweepPreparesItAndListsIt) {
  save_some();
  const auto report = sweep();
  EXPECT_EQ(report["phase"], "end") << log_;
  EXPECT_EQ(report["storage_error"], "") << log_;
  EXPECT_EQ(report["inventory"].size(), 3U);
  EXPECT_TRUE(registry_.tags().contains("compilecache-owner"));
  registry_.set([](auto& manners) { manners.basic = "me:secret"; });
  EXPECT_EQ(sweep()["storage_trouble"], "registry_unauthorized") << log_;
}

// One tag that the registry wants to be asked for later is enough.
TEST_F(Registry, ASweepThatCannotListItConcludesNothing) {
  save_some();
  ASSERT_EQ(sweep()["phase"], "end") << log_;
  const std::string tag = "/manifests/g1-" + operator_.head().substr(7, 12);
  for (const int status : {429, 503, 403}) {
    registry_.refuse([&](const auto& call) -> std::optional<FakeRegistry::Answer> {
      if (!call.target.ends_with(tag) && call.target.find("/token") == std::string::npos)
        return std::nullopt;
      return FakeRegistry::Answer{.status = status};
    });
    const auto report = sweep();
    EXPECT_EQ(report["phase"], "fail") << log_;
    EXPECT_EQ(report["listed"], false);
    EXPECT_TRUE(report["inventory"].empty());
    EXPECT_EQ(report["storage_error"], "") << "pods may go on";
    EXPECT_THAT(report["sweep_error"], HasSubstr(std::to_string(status)));
  }
}

// A damaged tag in the registry's storage.
TEST_F(Registry, AHeadWhoseTagCannotBeReadIsFoundByItsDigest) {
  save_some();
  const std::string head = operator_.head();
  bool digest_too = false;
  registry_.refuse([&](const auto& call) -> std::optional<FakeRegistry::Answer> {
    const bool by_tag = call.target.find("/manifests/g1-") != std::string::npos;
    const bool by_digest = call.target.ends_with("/manifests/" + head);
    if (!by_tag && !(digest_too && by_digest)) return std::nullopt;
    return FakeRegistry::Answer{.status = 500};
  });
  const auto sweep_with_head = [&] {
    operator_.script([&](const Call& call) -> std::optional<http::Response> {
      if (call.path != "/v1/sweeps" || call.body["phase"] != "begin") return {};
      return json_response({{"archives", {{{"name", "demo-1"}, {"manifest_digest", head}}}}});
    });
    run("sweep");
    return operator_.calls("POST", "/v1/sweeps").back().body;
  };
  auto report = sweep_with_head();
  EXPECT_EQ(report["phase"], "end") << log_;
  EXPECT_EQ(report["kept"].size(), 3U) << report;
  EXPECT_TRUE(report["unread"].empty());
  digest_too = true;
  report = sweep_with_head();
  EXPECT_EQ(report["phase"], "end") << log_;
  EXPECT_TRUE(report["kept"].empty());
  EXPECT_EQ(report["unread"], nlohmann::json::array({head}));
}

// Somebody's own tag, as `crane tag` sets it.
TEST_F(Registry, WhatSomebodyTaggedIsToldAsKept) {
  save_some();
  registry_.tag("production", operator_.head());
  const auto report = sweep();
  EXPECT_EQ(report["phase"], "end") << log_;
  EXPECT_TRUE(report["inventory"].empty()) << "what may be deleted";
  EXPECT_EQ(report["kept"].size(), 3U);
}

TEST_F(Registry, ASecretThatIsNotMountedIsTold) {
  auto registry = *config_.store->registry();
  registry.secret = "robot";
  config_.store = registry;
  registry_.set([](auto& manners) { manners.basic = "me:secret"; });
  EXPECT_EQ(sweep()["storage_trouble"], "secret_missing") << log_;
  registry.ca_config_map = "authority";
  config_.store = registry;
  EXPECT_EQ(sweep()["storage_trouble"], "ca_missing") << log_;
}

// --- how it is entered ------------------------------------------------------------------------

class RegistryAccess : public AgentTest {
 protected:
  RegistryAccess() { with_operator(); }
  CoordinatorSource the_operator() {
    return [this] {
      return make_operator_client(config_, clock_, seeded_random(1),
                                  [](std::chrono::milliseconds) { return true; });
    };
  }
  Result<store::Token> token(const nlohmann::json& answer, bool push, int status = 200) {
    operator_.script([=](const Call& call) -> std::optional<http::Response> {
      if (call.path != "/v1/registry-token") return {};
      return status == 200 ? json_response(answer) : error_response(status, "NotFound");
    });
    return registry_options(config_, own_, the_operator())
        .tokens(push, std::chrono::steady_clock::time_point::max());
  }

  const SystemClock clock_;
  const api::RegistryRef own_{.host = "compilecache-registry.compilecache-system.svc:5000",
                              .repository = "ml/demo",
                              .own = true,
                              .address = "10.0.0.9:5000"};
};

TEST_F(RegistryAccess, TheInstallationsOwnIsEnteredByTheOperatorsTokens) {
  const auto pull = token({{"token", "t"}, {"expires_seconds", 300}}, false);
  ASSERT_TRUE(pull) << pull.error().message;
  EXPECT_EQ(pull->value, "t");
  EXPECT_EQ(pull->lifetime, std::chrono::seconds(300));
  EXPECT_EQ(operator_.calls("POST", "/v1/registry-token").back().body.value("push", false), false);
  EXPECT_TRUE(token({{"token", "t"}, {"expires_seconds", 300}, {"push", true}}, true));
  EXPECT_EQ(operator_.calls("POST", "/v1/registry-token").back().body["push"], true);

  const auto options = registry_options(config_, own_, nullptr);
  EXPECT_EQ(options.address, "10.0.0.9");
  EXPECT_EQ(options.ca_pem, config_.operator_ca);
  EXPECT_FALSE(options.system_authorities);
  EXPECT_FALSE(options.plain_http);
  EXPECT_TRUE(options.proxy.url.empty());
}

// Its pod is recreated now and then.
TEST_F(RegistryAccess, ALoadDoesNotWaitForARegistryThatNobodyAnswersFor) {
  for (const bool own : {true, false}) {
    api::RegistryRef to = own_;
    to.own = own;
    auto options = loading_options(config_, to, nullptr);
    EXPECT_LE(options.connect_timeout, std::chrono::seconds(2));
    options.host = FakeRegistry().host();  // its port is closed again
    options.address.clear();
    options.plain_http = true;
    options.tokens = nullptr;
    std::chrono::milliseconds slept{0};
    options.sleep = [&](std::chrono::milliseconds pause) { slept += pause; };
    const store::RegistryStore store(options);
    const auto read = archive::read_manifest(store, "sha256:" + std::string(64, 'a'));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().reason, store::kReasonUnreachable) << read.error().message;
    EXPECT_GT(slept.count(), 0) << "once may happen";
    EXPECT_LE(slept, std::chrono::seconds(2));
  }
}

TEST_F(RegistryAccess, TheInstallationsOwnMayBeAwayForSomeSecondsWhileSomethingIsSaved) {
  FakeRegistry registry;
  auto options = registry_options(config_, own_, nullptr);
  options.host = registry.host();
  options.address.clear();
  options.plain_http = true;
  options.tokens = nullptr;
  std::chrono::milliseconds away{7'000}, slept{0};
  options.sleep = [&](std::chrono::milliseconds pause) { slept += pause; };
  registry.refuse([&](const auto&) -> std::optional<FakeRegistry::Answer> {
    if (slept >= away) return std::nullopt;
    return FakeRegistry::Answer{.status = 503};
  });
  EXPECT_TRUE(store::RegistryStore(options).upkeep()->probe());
  away = std::chrono::hours(1);
  slept = {};
  EXPECT_FALSE(store::RegistryStore(options).upkeep()->probe());
  EXPECT_LT(slept, std::chrono::seconds(10)) << "then the saver tries later";
}

TEST_F(RegistryAccess, ATokenThatDoesNotDoHasAReason) {
  const nlohmann::json pull{{"token", "t"}, {"expires_seconds", 300}, {"reason", "quota_exceeded"}};
  const auto full = token(pull, true);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().reason, "quota_exceeded") << "no registry is full";
  EXPECT_THAT(full.error().message, HasSubstr("kubectl describe cc"));
  nlohmann::json read_only = pull;
  read_only["reason"] = "mode_read_only";
  EXPECT_EQ(token(read_only, true).error().reason, store::kReasonUnauthorized);
  EXPECT_TRUE(token(pull, false));
  const auto none = token({}, false, 404);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().code, ErrorCode::kNotFound) << "no blob is missing";
  EXPECT_EQ(none.error().reason, store::kReasonUnauthorized);
}

TEST_F(RegistryAccess, AUsersIsEnteredByWhatIsMounted) {
  const api::RegistryRef users{.host = "harbor.example.com", .repository = "ml/caches/ml/demo"};
  auto options = registry_options(config_, users, nullptr);
  EXPECT_EQ(options.docker_config_file, "");
  EXPECT_EQ(options.ca_file, "");
  EXPECT_FALSE(options.plain_http);
  EXPECT_FALSE(options.tokens);
  api::RegistryRef with = users;
  with.secret = "robot";
  with.ca_config_map = "authority";
  options = registry_options(config_, with, nullptr);
  EXPECT_EQ(options.docker_config_file, "/compilecache/registry/.dockerconfigjson");
  EXPECT_EQ(options.ca_file, "/compilecache/registry-ca/ca.crt");
}

// Never with what belongs to the CompileCache's own.
TEST_F(RegistryAccess, WhatIsCopiedFromIsEnteredByWhatBelongsToIt) {
  const auto options = source_registry_options(config_,
                                               {.host = "old.example.com",
                                                .repository = "ml/caches/ml/demo",
                                                .secret = "robot",
                                                .ca_config_map = "authority"},
                                               nullptr);
  EXPECT_EQ(options.docker_config_file, "/compilecache/source-registry/.dockerconfigjson");
  EXPECT_EQ(options.ca_file, "/compilecache/source-registry-ca/ca.crt");
  operator_.script([](const Call&) {
    return json_response({{"token", "t"}, {"expires_seconds", 300}});
  });
  constexpr auto kEver = std::chrono::steady_clock::time_point::max();
  EXPECT_TRUE(source_registry_options(config_, own_, the_operator()).tokens(false, kEver));
  EXPECT_EQ(operator_.calls("POST", "/v1/registry-token").back().body["source"], true);
  ASSERT_TRUE(registry_options(config_, own_, the_operator()).tokens(false, kEver));
  EXPECT_EQ(operator_.calls("POST", "/v1/registry-token").back().body.value("source", false),
            false);
}

TEST_F(RegistryAccess, WhatIsKeptFitsIntoThePod) {
  const api::RegistryRef users{.host = "harbor.example.com", .repository = "ml/caches/ml/demo"};
  config_.save.max_archive_size = 1ULL << 30;
  EXPECT_GT(registry_options(config_, users, nullptr).spool_limit, 1ULL << 30);
  config_.ephemeral_limit_bytes = 1 << 20;
  EXPECT_EQ(registry_options(config_, users, nullptr).spool_limit, 1U << 19);
}

// The operator understands the store's words.
TEST(RegistryReasons, AreWordsOfTheApi) {
  for (const char* reason :
       {store::kReasonUnreachable, store::kReasonUnauthorized, store::kReasonFull,
        store::kReasonCertificate, store::kReasonNoRepository, store::kReasonSecretMissing,
        store::kReasonSecretWrongType, store::kReasonSecretUnusable, store::kReasonCaMissing,
        store::kReasonCaUnusable})
    EXPECT_TRUE(api::parse_word<api::RegistryTrouble>(reason)) << reason;
}

}  // namespace
}  // namespace compilecache::agent::testing
