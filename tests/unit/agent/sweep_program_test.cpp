#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "agent/coordinator.hpp"
#include "agent/index_lookup.hpp"
#include "agent/sweep/copy.hpp"
#include "agent/sweep/sweep.hpp"
#include "api/registry_trouble.hpp"
#include "archive/extract/extract.hpp"
#include "archive/format.hpp"
#include "archive/write/write.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/time_format.hpp"
#include "store/directory/directory_store.hpp"
#include "store/directory/layout.hpp"
#include "store/index.hpp"
#include "store/memory/memory_store.hpp"
#include "store/registry/refusal.hpp"
#include "tests/unit/agent/agent_fixture.hpp"
#include "tests/unit/store/trust_keys.hpp"

// `compilecache-agent sweep`, run as a process.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class Sweep : public AgentTest {
 protected:
  Sweep() { with_operator(); }
  void plan(const nlohmann::json& answer) {
    operator_.script([answer](const Call& call) -> std::optional<http::Response> {
      if (call.path != "/v1/sweeps" || call.body["phase"] != "begin") return {};
      return json_response(answer);
    });
  }
  nlohmann::json end_report() {
    const auto calls = operator_.calls("POST", "/v1/sweeps");
    return calls.empty() ? nlohmann::json() : calls.back().body;
  }
};

TEST_F(Sweep, TheFirstOneMakesTheStore) {
  fs::remove_all(store_);
  config_.store_mount = root_ + "/volume/team/demo";
  plan({{"archives", nlohmann::json::array()}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  const auto owner = store::DirectoryStore(config_.store_mount).owner();
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->ns, "ml");
  EXPECT_EQ(end_report()["phase"], "end");
  EXPECT_EQ(end_report()["storage_error"], "");
}

TEST_F(Sweep, RemovesWhatIsCondemnedAndTellsWhatIsLeft) {
  const auto live = put_archive({{"torch/live", "x"}});
  const auto dead = put_archive({{"torch/dead", "y"}});
  plan({{"archives",
         {{{"name", "demo-1"},
           {"manifest_digest", live.manifest},
           {"generation", 2},
           {"key", {{"GPUProduct", "H100"}}}}}},
        {"deletable", dead.blobs()}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_FALSE(fs::exists(store::blob_path(store_, dead.manifest)));
  const auto report = end_report();
  EXPECT_EQ(report["removed_blobs"], 3);
  EXPECT_GT(report["freed_bytes"], 0);
  EXPECT_EQ(report["inventory"].size(), 3u);
  const auto index = store::DirectoryStore(store_).read_index().value();
  ASSERT_EQ(index.entries.size(), 1u);
  EXPECT_EQ(index.entries[0].digest, live.manifest);
  EXPECT_EQ(index.entries[0].generation(), 2u);
}

TEST_F(Sweep, TheIndexSaysAgainHowLongAnArchiveTook) {
  const std::string local = root_ + "/local";
  std::ofstream(local) << "content";
  archive::WriteRequest request;
  request.files = {{local, "torch/live"}};
  request.annotations[archive::kAnnotationCompileSeconds] = "41.500";
  store::DirectoryStore store(store_);
  const auto live = archive::write_archive(store, std::move(request));
  ASSERT_TRUE(live);
  plan({{"archives",
         {{{"name", "demo-1"},
           {"manifest_digest", live->archive.manifest},
           {"generation", 2},
           {"key", {{"GPUProduct", "H100"}}}}}}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  const auto index = store::DirectoryStore(store_).read_index().value();
  ASSERT_EQ(index.entries.size(), 1u);
  EXPECT_EQ(archive::compile_seconds(index.entries[0].annotations), 41.5);
}

// Twice as many as fit the largest message that the operator takes. Not as a program on a volume:
// so many files take longer than all else here.
TEST_F(Sweep, AnyNumberOfBlobsIsToldInPages) {
  constexpr int kBlobs = 42'000;
  const SystemClock clock;
  store::MemoryStore store(clock);
  ASSERT_TRUE(store.prepare({config_.sweep.cluster_uid, config_.ns, config_.cache_uid}, false));
  for (int i = 0; i < kBlobs; ++i) {
    char name[65];
    std::snprintf(name, sizeof(name), "%064x", i * 7919);
    store.put(std::string("sha256:") + name, "");
  }
  const auto coordinator = make_operator_client(config_, clock, seeded_random(1),
                                                [](std::chrono::milliseconds) { return true; });
  plan({{"archives", nlohmann::json::array()}});
  EXPECT_TRUE(run_sweep(config_, store, nullptr, *coordinator, clock));
  const auto calls = operator_.calls("POST", "/v1/sweeps");
  std::set<std::string> told;
  std::string after;
  for (size_t i = 1; i < calls.size(); ++i) {  // the first is "begin"
    const auto& page = calls[i].body;
    EXPECT_EQ(page["phase"], i + 1 == calls.size() ? "end" : "inventory");
    EXPECT_LT(page.dump().size(), 1U << 20);
    EXPECT_EQ(page["after"], after) << "no gap between pages";
    after = page["up_to"];
    EXPECT_EQ(after.empty(), i + 1 == calls.size()) << "each says where it ends, but the last";
    for (const auto& blob : page["inventory"]) {
      const std::string digest = blob["digest"];
      EXPECT_GT(digest, page["after"].get<std::string>());
      EXPECT_TRUE(after.empty() || digest <= after);
      told.insert(digest);
    }
  }
  EXPECT_EQ(after, "") << "the last page has no end";
  EXPECT_EQ(told.size(), size_t{kBlobs});
}

TEST_F(Sweep, LeftoversOfAKilledSaveGoWhenTheyAreOld) {
  const std::string leftover = store_ + "/blobs/sha256/0123456789abcdef.incomplete";
  std::ofstream(leftover) << "half a layer";
  plan({{"incomplete_timeout_ms", 3'600'000}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_TRUE(fs::exists(leftover));
  plan({{"incomplete_timeout_ms", 0}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_EQ(end_report()["removed_incomplete"], 1);
}

TEST_F(Sweep, SuspectArchivesAreChecked) {
  const auto whole = put_archive({{"torch/whole", "x"}});
  const auto bad = put_archive({{"torch/bad", "y"}});
  flip_a_byte_in(bad.layers[0]);
  plan({{"check", {whole.manifest, bad.manifest}}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_THAT(end_report()["verified"], ElementsAre(whole.manifest));
  EXPECT_THAT(end_report()["corrupt"], ElementsAre(bad.manifest));
}

TEST_F(Sweep, AnArchiveWhoseBlobIsGoneIsNotWhole) {
  const auto lost = put_archive({{"torch/lost", "x"}});
  fs::remove(store::blob_path(store_, lost.layers[0]));
  plan({{"check", {lost.manifest}}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_THAT(end_report()["corrupt"], ElementsAre(lost.manifest));
}

TEST_F(Sweep, AnArchiveOfAnotherReleaseIsNotCalledCorrupt) {
  const std::string other = put_unsupported(put_archive({{"torch/whole", "x"}}).manifest);
  plan({{"check", {other}}});
  EXPECT_EQ(run("sweep"), 1) << log_;
  EXPECT_TRUE(end_report()["verified"].empty());
  EXPECT_TRUE(end_report()["corrupt"].empty());
}

TEST_F(Sweep, WhatIsSavedDuringASweepStaysInTheIndex) {
  const auto before = put_archive({{"torch/one", "1"}});
  const auto later = put_archive({{"torch/one", "1"}, {"torch/two", "2"}});
  const auto other = put_archive({{"torch/other", "3"}});
  const auto gone = put_archive({{"torch/gone", "4"}});
  const auto note = [&](const std::string& name, const archive::ArchiveInfo& info,
                        const std::string& saved_at) {
    EXPECT_TRUE(store::DirectoryStore(store_).update_index(
        {info.manifest, info.manifest_bytes,
         index_annotations(name, 1, saved_at, {{"GPUProduct", name}})}));
  };
  note("gone", gone, "2026-01-01T00:00:00Z");
  const auto known = [&](const std::string& name, const archive::ArchiveInfo& info) {
    return nlohmann::json{{"name", name},
                          {"manifest_digest", info.manifest},
                          {"generation", 1},
                          {"saved_at", "2026-01-01T00:00:00Z"}};
  };
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/sweeps" || call.body["phase"] != "begin") return {};
    // Two savers commit after the operator has made its plan.
    note("demo-1", later, "2026-01-01T00:00:00.5Z");
    note("new", other, format_time(SystemClock().wall() + std::chrono::seconds(1)));
    return json_response({{"archives", {known("demo-1", before)}}});
  });
  EXPECT_EQ(run("sweep"), 0) << log_;
  std::map<std::string, std::string> found;
  const store::Index index = store::DirectoryStore(store_).read_index().value();
  for (const auto& entry : index.entries) found[entry.name()] = entry.digest;
  EXPECT_EQ(found, (std::map<std::string, std::string>{{"demo-1", later.manifest},
                                                       {"new", other.manifest}}));
}

TEST_F(Sweep, WhatIsDistrustedLeavesTheIndexUnlessItIsFoundWhole) {
  const auto before = put_archive({{"torch/one", "1"}});
  const auto crashing = put_archive({{"torch/one", "1"}, {"torch/two", "2"}});
  const auto suspect = put_archive({{"torch/other", "3"}});
  const auto note = [&](const std::string& name, const archive::ArchiveInfo& info) {
    EXPECT_TRUE(store::DirectoryStore(store_).update_index(
        {info.manifest, info.manifest_bytes,
         index_annotations(name, 2, "2026-01-02T00:00:00Z", {{"GPUProduct", name}})}));
  };
  note("demo-1", crashing);
  note("demo-2", suspect);
  const auto earlier = [&](const std::string& name) {
    return nlohmann::json{{"name", name},
                          {"manifest_digest", before.manifest},
                          {"generation", 1},
                          {"saved_at", "2026-01-01T00:00:00Z"}};
  };
  plan({{"archives", {earlier("demo-1"), earlier("demo-2")}},
        {"check", {suspect.manifest}},
        {"distrusted", {crashing.manifest, suspect.manifest}}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  std::map<std::string, std::string> found;
  const store::Index index = store::DirectoryStore(store_).read_index().value();
  for (const auto& entry : index.entries) found[entry.name()] = entry.digest;
  EXPECT_EQ(found, (std::map<std::string, std::string>{{"demo-1", before.manifest},
                                                       {"demo-2", suspect.manifest}}));
}

TEST_F(Sweep, AVolumeThatCannotBeUsedIsReported) {
  std::ofstream(root_ + "/file") << "x";
  config_.store_mount = root_ + "/file/store";
  EXPECT_EQ(run("sweep"), 1);
  EXPECT_EQ(end_report()["phase"], "end");
  EXPECT_NE(end_report()["storage_error"], "");
}

TEST_F(Sweep, AStoreOfSomebodyElseIsNotTouchedUnlessAdopted) {
  const auto archive = put_archive({{"torch/theirs", "x"}});
  config_.sweep.cluster_uid = "another-cluster";
  EXPECT_EQ(run("sweep"), 1);
  EXPECT_NE(end_report()["storage_error"], "");
  EXPECT_TRUE(fs::exists(store::blob_path(store_, archive.manifest)));
  config_.sweep.adopt = true;
  plan({{"archives", nlohmann::json::array()}});
  EXPECT_EQ(run("sweep"), 0) << log_;
}

TEST_F(Sweep, TheArchivesOfAnotherClusterAreToldBeforeTheirStoreIsTakenOver) {
  const auto archive = put_archive({{"torch/theirs", "x"}});
  const auto gone = put_archive({{"torch/gone", "y"}});
  const auto note = [&](const std::string& name, const archive::ArchiveInfo& info) {
    EXPECT_TRUE(store::DirectoryStore(store_).update_index(
        {info.manifest, info.manifest_bytes,
         index_annotations(name, 7, "2026-01-01T00:00:00Z", {{"GPUProduct", name}})}));
  };
  note("H100", archive);
  note("A100", gone);
  fs::remove(store::blob_path(store_, gone.manifest));
  config_.sweep.cluster_uid = "another-cluster";
  config_.sweep.adopt = true;
  const auto refuse_adoption = [](const Call& call) -> std::optional<http::Response> {
    if (call.body["phase"] == "adopt") return error_response(403, "Forbidden");
    return {};
  };
  operator_.script(refuse_adoption);
  EXPECT_EQ(run("sweep"), 1);
  EXPECT_NE(store::DirectoryStore(store_).owner()->cluster, "another-cluster")
      << "it is tried again";

  plan({{"archives", nlohmann::json::array()}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  const auto adoptions = [&] {
    std::vector<nlohmann::json> found;
    for (const auto& call : operator_.calls("POST", "/v1/sweeps")) {
      if (call.body["phase"] == "adopt") found.push_back(call.body["found"]);
    }
    return found;
  };
  ASSERT_EQ(adoptions().size(), 2u);
  const auto found = adoptions().back();
  ASSERT_EQ(found.size(), 1u) << "what is not on the volume is left out: " << found;
  EXPECT_EQ(found[0]["manifest_digest"], archive.manifest);
  EXPECT_EQ(found[0]["key"], (nlohmann::json{{"GPUProduct", "H100"}}));
  EXPECT_EQ(found[0]["generation"], 7);
  EXPECT_EQ(found[0]["blobs"].size(), archive.blobs().size());
  EXPECT_EQ(found[0]["compressed_bytes"], archive.compressed_bytes);

  EXPECT_EQ(store::DirectoryStore(store_).owner()->cluster, "another-cluster");
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_EQ(adoptions().size(), 2u) << "once";
}

// A volume on which reading the index is EIO.
class UnreadableIndex : public store::MemoryStore {
 public:
  using MemoryStore::MemoryStore;
  Result<store::Index> read_index() const override {
    return fail(ErrorCode::kIo, "reading the index: Input/output error");
  }
  Status write_index(const std::vector<store::IndexEntry>&) override {
    ++writes;
    return {};
  }
  int writes = 0;
};

// Nobody knows then what it names, so nothing is lost by it.
TEST_F(Sweep, AnIndexThatCannotBeReadStaysAsItIs) {
  const SystemClock clock;
  UnreadableIndex store(clock);
  ASSERT_TRUE(store.prepare({config_.sweep.cluster_uid, config_.ns, config_.cache_uid}, false));
  const auto coordinator = make_operator_client(config_, clock, seeded_random(1),
                                                [](std::chrono::milliseconds) { return true; });
  plan({{"archives", nlohmann::json::array()}});
  EXPECT_FALSE(run_sweep(config_, store, nullptr, *coordinator, clock));
  EXPECT_EQ(store.writes, 0);
  EXPECT_EQ(end_report()["phase"], "end");
  EXPECT_EQ(end_report()["listed"], true);
  EXPECT_THAT(end_report()["sweep_error"], ::testing::HasSubstr("Input/output error"));

  config_.sweep.cluster_uid = "another-cluster";
  config_.sweep.adopt = true;
  EXPECT_FALSE(run_sweep(config_, store, nullptr, *coordinator, clock));
  for (const auto& call : operator_.calls("POST", "/v1/sweeps"))
    EXPECT_NE(call.body["phase"], "adopt") << "not without its archives";
  EXPECT_NE(store.owner()->cluster, "another-cluster") << "it can be tried again";
  EXPECT_THAT(end_report()["storage_error"], ::testing::HasSubstr("Input/output error"));
}

// Entries of the previous owner in the index are not loaded without the operator either.
TEST_F(Sweep, TheIndexOfAStoreThatIsTakenOverHasWhatThePlanSaysAlone) {
  const auto taken = put_archive({{"torch/taken", "x"}});
  const auto theirs = put_archive({{"torch/unsigned", "y"}});
  const auto note = [&](const std::string& name, const archive::ArchiveInfo& info,
                        const std::string& saved_at) {
    EXPECT_TRUE(store::DirectoryStore(store_).update_index(
        {info.manifest, info.manifest_bytes,
         index_annotations(name, 7, saved_at, {{"GPUProduct", name}})}));
  };
  note("demo-1", taken, "2026-01-01T00:00:00Z");
  note("demo-2", theirs, "2099-01-01T00:00:00Z");
  note("demo-3", theirs, format_time(SystemClock().wall() + std::chrono::minutes(1)));
  config_.sweep.cluster_uid = "another-cluster";
  config_.sweep.adopt = true;
  plan({{"archives",
         {{{"name", "demo-1"}, {"manifest_digest", taken.manifest}, {"generation", 7}}}}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  const auto index = store::DirectoryStore(store_).read_index();
  ASSERT_TRUE(index);
  ASSERT_EQ(index->entries.size(), 1u);
  EXPECT_EQ(index->entries[0].digest, taken.manifest);
}

TEST_F(Sweep, AnEntryOfTheFutureLeavesTheIndex) {
  const auto archive = put_archive({{"torch/one", "1"}});
  EXPECT_TRUE(store::DirectoryStore(store_).update_index(
      {archive.manifest, archive.manifest_bytes,
       index_annotations("demo-1", 1, "2099-01-01T00:00:00Z", {{"GPUProduct", "H100"}})}));
  plan({{"archives", nlohmann::json::array()}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_TRUE(store::DirectoryStore(store_).read_index()->entries.empty());
}

TEST_F(Sweep, AStoreThatAnotherOwnerTookIsNotTakenBack) {
  const auto archive = put_archive({{"torch/theirs", "x"}});
  config_.sweep.cluster_uid = "another-cluster";
  config_.sweep.adopted = true;
  EXPECT_EQ(run("sweep"), 1);
  const std::string error = end_report()["storage_error"];
  EXPECT_NE(error.find("it is done once"), std::string::npos) << error;
  EXPECT_NE(store::DirectoryStore(store_).owner()->cluster, "another-cluster");
}

class Copying : public Sweep {
 protected:
  static constexpr char kFrom[] = "claim old, demo";
  Copying() {
    config_.sweep.copy_from = api::VolumeRef{"ml", "old", "demo"};
    config_.sweep.copy_name = kFrom;
    plan({{"archives", nlohmann::json::array()}});
  }
  std::vector<nlohmann::json> told() {
    std::vector<nlohmann::json> pages;
    for (const auto& call : operator_.calls("POST", "/v1/sweeps")) {
      if (call.body["phase"] == "copy") pages.push_back(call.body);
    }
    return pages;
  }
};

// The old store is nowhere on this machine.
TEST_F(Copying, ThatFailsIsToldAndTheSweepGoesOn) {
  put_archive({{"torch/live", "x"}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  ASSERT_EQ(told().size(), 1u);
  EXPECT_EQ(told()[0]["copied_from"], kFrom);
  EXPECT_NE(told()[0]["copy_error"], "");
  EXPECT_EQ(end_report()["phase"], "end");
  EXPECT_EQ(end_report()["inventory"].size(), 3u);
}

TEST_F(Copying, TellsEachArchiveThatItHasCopied) {
  store::DirectoryStore old(root_ + "/old"), here(store_);
  ASSERT_TRUE(old.prepare({}, false));
  std::vector<archive::ArchiveInfo> saved;
  for (const std::string name : {"a100", "h100", "l4"}) {
    const std::string local = root_ + "/" + name;
    std::ofstream(local) << name;
    archive::WriteRequest request;
    request.files = {{local, "torch/" + name}};
    const auto written = archive::write_archive(old, std::move(request));
    ASSERT_TRUE(written);
    saved.push_back(written->archive);
    EXPECT_TRUE(old.update_index({written->archive.manifest, written->archive.manifest_bytes,
                                  index_annotations(name, 7, "", {{"GPUProduct", name}})}));
  }
  fs::remove(store::blob_path(root_ + "/old", saved[2].layers[0]));
  std::vector<api::FoundArchive> found;
  bool wanted = true, in_time = true;
  const auto gate = TrustGate::of({});
  CopyRules rules{.trust = *gate,
                  .known = {{{"GPUProduct", "a100"}}},
                  .tell = [&](api::FoundArchive one) -> Result<bool> {
                    EXPECT_TRUE(archive::verify(here, one.manifest_digest)) << "it is here by then";
                    found.push_back(std::move(one));
                    return wanted;
                  },
                  .in_time = [&] { return in_time; }};
  const auto copied = copy_archives(old, here, rules);
  EXPECT_EQ(copied.error, "") << "what is lost stays lost";
  EXPECT_EQ(copied.there, 2);
  EXPECT_EQ(copied.left_out, 1);
  ASSERT_EQ(found.size(), 1u) << "one was here, and one is lost";
  EXPECT_EQ(found[0].manifest_digest, saved[1].manifest);
  EXPECT_EQ(found[0].key, (api::ArchiveKey{{"GPUProduct", "h100"}}));
  EXPECT_EQ(found[0].generation, 7);
  EXPECT_EQ(found[0].blobs, saved[1].blobs());
  EXPECT_EQ(found[0].files, 1);
  EXPECT_NE(found[0].saved_at, "") << "about when its newest file was written";
  EXPECT_EQ(here.size_of(saved[0].manifest).error().code, ErrorCode::kNotFound);

  // A volume has no place for signatures.
  const auto asking = TrustGate::of({store::test::ours().public_key});
  ASSERT_TRUE(asking);
  const CopyRules strict{.trust = *asking, .tell = rules.tell, .in_time = rules.in_time};
  const auto untrusted = copy_archives(old, here, strict);
  EXPECT_EQ(untrusted.there, 0);
  EXPECT_NE(untrusted.error.find("a volume has none"), std::string::npos) << untrusted.error;

  wanted = false;
  const auto unwanted = copy_archives(old, here, rules);
  EXPECT_EQ(unwanted.error, "");
  EXPECT_EQ(unwanted.there, 1);
  EXPECT_EQ(unwanted.left_out, 2);
  in_time = false;
  EXPECT_NE(copy_archives(old, here, rules).error, "");
  in_time = true;
  store::DirectoryStore empty(root_ + "/empty");
  ASSERT_TRUE(empty.prepare({}, false));
  EXPECT_NE(copy_archives(empty, here, rules).error, "") << "most likely another name is meant";
  rules.tell = [](const auto&) -> Result<bool> {
    return fail(ErrorCode::kForbidden, "above its share");
  };
  EXPECT_NE(copy_archives(old, here, rules).error.find("above its share"), std::string::npos);
}

TEST_F(Sweep, TheArchivesOfADeletedCompileCacheAreNotTakenOver) {
  const auto archive = put_archive({{"torch/deleted", "x"}});
  EXPECT_TRUE(store::DirectoryStore(store_).update_index(
      {archive.manifest, archive.manifest_bytes, index_annotations("old", 1, "", {})}));
  config_.cache_uid = "made-anew";
  config_.sweep.adopt = true;
  plan({{"archives", nlohmann::json::array()}});
  EXPECT_EQ(run("sweep"), 0) << log_;
  for (const auto& call : operator_.calls("POST", "/v1/sweeps")) {
    EXPECT_NE(call.body["phase"], "adopt");
  }
}

// The words become the reasons of the condition StorageReady.
TEST_F(Sweep, WhatIsWrongWithARegistryIsToldInAWord) {
  config_.store =
      api::RegistryRef{.host = "127.0.0.1:1", .repository = "caches/ml/c", .parent = "caches"};
  EXPECT_EQ(run("sweep"), 1);
  EXPECT_EQ(end_report().value("storage_trouble", ""), "registry_unreachable") << end_report();
  EXPECT_NE(end_report().value("storage_error", ""), "");
}

TEST(SweepWords, TheOperatorKnowsThemAll) {
  for (const char* word :
       {store::kReasonUnreachable, store::kReasonUnauthorized, store::kReasonFull,
        store::kReasonCertificate, store::kReasonNoRepository, store::kReasonSecretMissing,
        store::kReasonSecretWrongType, store::kReasonSecretUnusable, store::kReasonCaMissing,
        store::kReasonCaUnusable}) {
    EXPECT_TRUE(api::parse_word<api::RegistryTrouble>(word)) << word;
  }
}

TEST_F(Sweep, AnOperatorThatRefusesMakesTheJobFail) {
  operator_.script([](const Call&) { return error_response(403, "Forbidden"); });
  EXPECT_EQ(run("sweep"), 1);
}

}  // namespace
}  // namespace compilecache::agent::testing
