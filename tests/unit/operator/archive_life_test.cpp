#include "base/base64.hpp"
#include "base/p256.hpp"
#include "base/sha256.hpp"
#include "store/registry/manifests.hpp"
#include "store/trust/signature.hpp"
#include "tests/unit/operator/agent_api_fixture.hpp"
#include "tests/unit/store/fake_registry.hpp"
#include "tests/unit/store/trust_keys.hpp"

// The life of an archive after its first save: use, distrust, deletion, another cluster.

namespace compilecache::controller {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using test::digest;

class ArchiveLife : public test::AgentApiTest {};

TEST_F(ArchiveLife, AReportThatNamesNothingMarksNothing) {
  ASSERT_EQ(save("a", '1'), 200);
  const api::LoadedReport report{.cache = "transformer",
                                 .outcome = api::Outcome::kError,
                                 .reason = "corrupt",
                                 .archive = archive().metadata.name};
  ASSERT_EQ(send("POST", "/v1/loaded", "b", api::dump(report)).status, 200);
  EXPECT_FALSE(is_suspect(archive()));
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
}

TEST_F(ArchiveLife, ACorruptArchiveIsSuspectAtOnceAndCorruptAfterASweep) {
  ASSERT_EQ(save("a", '1'), 200);
  ASSERT_EQ(save("a", '2'), 200);
  report_loaded("b", api::Outcome::kError, {}, digest('2'));
  EXPECT_EQ(sweeps_wanted, 1);
  EXPECT_TRUE(is_suspect(archives.archives.begin()->second));
  EXPECT_EQ(load("c").manifest_digest, digest('1')) << "the previous generation takes its place";
  const auto begun = begin_sweep();
  EXPECT_EQ(begun.check, std::vector<std::string>{digest('2')});
  ASSERT_EQ(begun.archives.size(), 1U);
  EXPECT_EQ(begun.archives[0].manifest_digest, digest('1')) << "what the volume's index is to say";
  EXPECT_EQ(begun.distrusted, std::vector<std::string>{digest('2')});
  end_sweep("12", {digest('2')});
  const auto& archive = archives.archives.begin()->second;
  EXPECT_TRUE(is_corrupt(archive));
  EXPECT_FALSE(is_suspect(archive));
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
  ASSERT_EQ(status().condemned.size(), 1U) << "its blobs are garbage now";
}

TEST_F(ArchiveLife, ASuspectArchiveThatIsWholeIsHandedOutAgain) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kError, {}, digest('1'));
  EXPECT_EQ(load("c").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("c").reason, "suspect") << "there is no previous generation";
  EXPECT_EQ(begin_sweep().check, std::vector<std::string>{digest('1')});
  end_sweep("1", {}, {digest('1')});
  EXPECT_FALSE(is_suspect(archive()));
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
  EXPECT_TRUE(status().condemned.empty());
}

TEST_F(ArchiveLife, ASaverThatFindsTheHeadCorruptSavesFromScratch) {
  ASSERT_EQ(save("a", '1'), 200);
  const auto granted = call<api::SaveAnswer>(
      "/v1/saves", "b",
      api::SaveRequest{
          .cache = "transformer", .attempt = "2", .corrupt_digest = digest('1'), .new_files = 1});
  EXPECT_EQ(granted.decision, api::SaveDecision::kGranted) << granted.reason;
  EXPECT_EQ(granted.parent_digest, "");
  EXPECT_EQ(granted.condemned, std::vector<std::string>{digest('1')});
  EXPECT_TRUE(is_suspect(archive()));
  EXPECT_EQ(sweeps_wanted, 1);
  EXPECT_EQ(load("c").reason, "suspect");
}

TEST_F(ArchiveLife, ASaverThatDoesNotSeeTheHeadWaitsForASweep) {
  ASSERT_EQ(save("a", '1'), 200);
  const api::SaveRequest request{
      .cache = "transformer", .attempt = "2", .missing_digest = digest('1'), .new_files = 1};
  const auto answer = call<api::SaveAnswer>("/v1/saves", "b", request);
  EXPECT_EQ(answer.decision, api::SaveDecision::kBusy);
  EXPECT_EQ(answer.reason, "archive_being_checked");
  EXPECT_EQ(sweeps_wanted, 1);
  EXPECT_FALSE(is_suspect(archive())) << "another node may see it";
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
}

TEST_F(ArchiveLife, ASaverWaitsUntilTheStoreIsPrepared) {
  const auto ask = [this] {
    return call<api::SaveAnswer>("/v1/saves", "a",
                                 api::SaveRequest{.cache = "transformer", .new_files = 1});
  };
  cache.status.conditions = {
      {.type = api::kStorageReadyCondition, .status = "Unknown", .reason = api::kPreparingReason}};
  put_cache();
  EXPECT_EQ(ask().decision, api::SaveDecision::kBusy);
  EXPECT_EQ(ask().reason, "store_not_ready");
  cache.status.conditions = {{.type = api::kStorageReadyCondition, .status = "True"}};
  put_cache();
  EXPECT_EQ(ask().decision, api::SaveDecision::kGranted);
}

TEST_F(ArchiveLife, AHeadWhoseBlobsAreGoneIsFoundByASweep) {
  clock.advance(minutes(5));  // so long this leader leads
  ASSERT_EQ(save("a", '1'), 200);
  begin_sweep();
  end_sweep("");
  EXPECT_FALSE(is_suspect(archive())) << "so young that the Job may not see it yet";
  clock.advance(minutes(5));
  begin_sweep();
  ASSERT_EQ(save("a", '2'), 200);
  end_sweep("1");
  EXPECT_FALSE(is_suspect(archive())) << "saved after the Job began";
  clock.advance(minutes(5));
  begin_sweep();
  end_sweep("1");
  EXPECT_TRUE(is_suspect(archive()));
  EXPECT_EQ(sweeps_wanted, 0) << "its condition starts the next one, after pauses that grow";
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
  EXPECT_EQ(begin_sweep().check, std::vector<std::string>{digest('2')});
}

TEST_F(ArchiveLife, WhatIsSavedAfterCorruptionIsWholeAndNewer) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kError, {}, digest('1'));
  end_sweep("1", {digest('1')});
  EXPECT_TRUE(is_corrupt(archive()));
  EXPECT_EQ(load("c").reason, "corrupt");
  const auto granted = call<api::SaveAnswer>(
      "/v1/saves", "c", api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  EXPECT_EQ(granted.parent_digest, "") << "nothing is built on it";
  EXPECT_GT(granted.generation, 1) << "a copy of the corrupt head in the index never looks newer";
  EXPECT_EQ(send("DELETE", "/v1/saves/" + granted.id, "c").status, 200);
  ASSERT_EQ(save("c", '2'), 200);
  EXPECT_FALSE(is_corrupt(archive()));
  EXPECT_EQ(load("b").manifest_digest, digest('2'));
}

TEST_F(ArchiveLife, AReportAboutBytesThatNoHeadHasMakesNothingSuspect) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kError, {}, digest('9'));
  EXPECT_FALSE(is_suspect(archive()));
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
}

TEST_F(ArchiveLife, UseIsKeptAndWrittenAtABoundedRate) {
  ASSERT_EQ(save("a", '1'), 200);
  EXPECT_EQ(archive().last_used_time, format_time(clock.wall())) << "a save is use";
  int writes = 0;
  archives.on_write = [&](const auto&, const auto& after) {
    ++writes;
    show(after);
  };
  for (int second = 0; second < 20; ++second) {
    for (int i = 0; i < 50; ++i) report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
    registry.flush();
    clock.advance(seconds(1));
  }
  EXPECT_EQ(writes, 4) << "one in five seconds, however many pods load";
  report_loaded("c", api::Outcome::kSuccess, api::Match::kExact);
  const std::string last = format_time(clock.wall());
  clock.advance(seconds(30));
  registry.flush();
  EXPECT_EQ(archive().last_used_time, last) << "when it was used, not when that was written";
  EXPECT_EQ(archive().loads.exact, 1001);
}

TEST_F(ArchiveLife, UseNeverGoesBackInTime) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  // The next leader has written a later one.
  archives.archives.begin()->second.last_used_time = "2099-01-01T00:00:00Z";
  registry.flush(true);
  EXPECT_EQ(archive().last_used_time, "2099-01-01T00:00:00Z");
  EXPECT_EQ(archive().loads.exact, 1);
}

TEST_F(ArchiveLife, AnArchiveDeletedUnderItsPodsStaysDeleted) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  const auto granted = call<api::SaveAnswer>(
      "/v1/saves", "c", api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  delete_archives();
  EXPECT_EQ(load("c").reason, "no_archive");
  report_effect("b", api::Effect::kFull, 0);
  registry.flush(true);
  EXPECT_TRUE(archives.archives.empty()) << "its pods' reports do not bring it back";
  EXPECT_EQ(status().effect.full, 1) << "and are counted all the same";
  const api::CommitRequest commit{
      .fence = granted.fence, .manifest_digest = digest('2'), .blobs = {digest('2')}};
  EXPECT_EQ(send("POST", "/v1/saves/" + granted.id + "/commit", "c", api::dump(commit)).status,
            409);
  EXPECT_TRUE(archives.archives.empty()) << "nor does a save that was under way";
  end_sweep("12");
  EXPECT_EQ(status().condemned.size(), 2U) << "its bytes are garbage";
  EXPECT_EQ(save("c", '3'), 200) << "a new save begins a new archive";
}

TEST_F(ArchiveLife, ACompileCacheMadeAnewStartsWithoutTheArchivesOfTheDeletedOne) {
  ASSERT_EQ(save("a", '1'), 200);
  cache.metadata.uid = "made-anew";
  put_cache();
  EXPECT_EQ(load("b").reason, "no_archive");
  const auto answer = call<api::SaveAnswer>(
      "/v1/saves", "b", api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  EXPECT_EQ(answer.reason, "archive_being_deleted");
  delete_archives();
  EXPECT_EQ(save("b", '2'), 200);
  EXPECT_EQ(load("c").manifest_digest, digest('2'));
}

TEST_F(ArchiveLife, ArchivesOfAnotherClusterAreHandedOut) {
  EXPECT_EQ(adopt({found_archive('7', "torch:1")}), 403)
      << "only where spec.storage->adopt says so";
  cache.spec.storage->adopt = true;
  cache.spec.key = {"GPUProduct", "Image"};
  put_cache();
  for (const char* name : {"a", "b", "c"}) add_pod(name);
  ASSERT_EQ(adopt({found_archive('7', "torch:1"), found_archive('8', "torch:2")}), 200);
  ASSERT_EQ(adopt({found_archive('7', "torch:1"), found_archive('8', "torch:2")}), 200);
  ASSERT_EQ(archives.archives.size(), 2U);
  const auto answer = load("a");
  EXPECT_EQ(answer.match, api::Match::kExact);
  EXPECT_EQ(answer.manifest_digest, digest('7'));
  EXPECT_EQ(begin_sweep().archives.size(), 2U) << "so the index keeps them";
  end_sweep("78f");
  EXPECT_TRUE(status().condemned.empty());
  EXPECT_EQ(save("a", '9'), 200);
  EXPECT_EQ(load("b").generation, 8);
  EXPECT_EQ(adopt({found_archive('7', "torch:1")}), 200);
  EXPECT_EQ(load("b").manifest_digest, digest('9')) << "what was saved here is newer";
}

TEST_F(ArchiveLife, CopiedArchivesAreHandedOut) {
  EXPECT_EQ(copy({found_archive('7', "torch:1")}), 403) << "only with spec.storage.copyFrom";
  cache.spec.storage->copy_from = {.cache = "old", .claim_name = "old-caches"};
  cache.spec.key = {"GPUProduct", "Image"};
  // An attempt that failed may have left some of its blobs.
  cache.status.condemned = {{digest('f'), "2026-01-01T00:00:00Z"}};
  put_cache();
  stats.set_condemned("ml/transformer", cache.status.condemned);
  for (const char* name : {"a", "b", "c"}) add_pod(name);
  ASSERT_EQ(copy({found_archive('7', "torch:1")}), 200);
  ASSERT_EQ(copy({found_archive('7', "torch:1"), found_archive('8', "torch:2")}), 200);
  EXPECT_EQ(archives.archives.size(), 2U);
  EXPECT_EQ(archive().store, view.store_of(cache)) << "where they are now";
  EXPECT_EQ(load("a").manifest_digest, digest('7'));
  EXPECT_EQ(status().last_copy.time, "") << "it goes on";
  ASSERT_EQ(copy({}, "claim old-caches, old", "no room"), 200);
  EXPECT_FALSE(status().last_copy.done("claim old-caches, old"));
  EXPECT_EQ(status().last_copy.error, "no room");
  ASSERT_EQ(copy({}, "claim old-caches, old"), 200);
  EXPECT_TRUE(status().last_copy.done("claim old-caches, old"));
  EXPECT_FALSE(status().last_copy.done("claim older-caches, old"));
  EXPECT_EQ(status().last_copy.archives, 2);
  EXPECT_EQ(save("a", '9'), 200);
  EXPECT_EQ(copy({found_archive('7', "torch:1")}), 200);
  EXPECT_EQ(load("b").manifest_digest, digest('9')) << "what was saved here stays";
}

// The Job's word about a signature is not enough: it shows it.
TEST_F(ArchiveLife, WithKeysOnlyWhatOneOfThemHasSignedIsTakenIn) {
  using store::test::anothers, store::test::ours;
  cache.spec.storage->copy_from = {.cache = "old", .claim_name = "old-caches"};
  cache.spec.storage->adopt = true;
  cache.spec.trust.public_keys = {ours().public_key};
  put_cache();
  const auto signed_by = [&](const store::test::KeyPair& pair, char about) {
    auto found = found_archive('7', "torch:1");
    const std::string payload = store::simple_payload("r.example/ml/old", digest(about));
    found.signatures = {{.payload = base64_encode(payload),
                         .signature = base64_encode(*sign_p256(pair.key, payload))}};
    return found;
  };
  for (const auto& refused :
       {found_archive('7', "torch:1"), signed_by(anothers(), '7'), signed_by(ours(), '8')}) {
    EXPECT_EQ(copy({refused}), 403);
    EXPECT_EQ(adopt({refused}), 403);
    EXPECT_TRUE(archives.archives.empty());
  }
  EXPECT_EQ(copy({signed_by(ours(), '7')}), 200);
  EXPECT_EQ(archive().head.manifest_digest, digest('7'));
}

// A Job that began without keys looks for no signature. The archive must not count as left out,
// since then no later Job would copy it.
TEST_F(ArchiveLife, KeysThatAreAddedDuringACopyBindIt) {
  cache.spec.storage->copy_from = {.cache = "old", .claim_name = "old-caches"};
  put_cache();
  EXPECT_EQ(copy({found_archive('7', "torch:1")}), 200);
  cache.spec.trust.public_keys = {store::test::ours().public_key};
  put_cache();
  const auto refused = send("POST", "/v1/sweeps", "job",
                            api::dump(api::SweepRequest{.cache = "transformer",
                                                        .phase = api::SweepPhase::kCopy,
                                                        .found = {found_archive('8', "torch:2")}}));
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, ::testing::HasSubstr("spec.trust.publicKeys, which changed"));
  EXPECT_EQ(archives.archives.size(), 1U);
}

TEST_F(ArchiveLife, WhatMadePodsCrashIsNotCopiedBack) {
  cache.spec.storage->copy_from = {.cache = "old", .claim_name = "old-caches"};
  put_cache();
  stats.add_crashing("ml/transformer", digest('7'));
  EXPECT_EQ(copy({found_archive('7', "torch:1")}), 200);
  EXPECT_TRUE(archives.archives.empty());
  stats.add_crashing("ml/old", digest('8'));
  EXPECT_EQ(copy({found_archive('8', "torch:1")}), 200);
  EXPECT_TRUE(archives.archives.empty()) << "nor what made those of the old one crash";
}

TEST_F(ArchiveLife, ASweepJobLearnsWhichCopiesAreWanted) {
  cache.spec.storage->copy_from = {.cache = "old", .claim_name = "old-caches"};
  put_cache();
  stats.add_crashing("ml/transformer", digest('7'));
  const auto answer = call<api::SweepAnswer>(
      "/v1/sweeps", "job",
      api::SweepRequest{.cache = "transformer",
                        .phase = api::SweepPhase::kCopy,
                        .found = {found_archive('7', "torch:1"), found_archive('8', "torch:2")}});
  EXPECT_EQ(answer.taken, 1);
}

TEST_F(ArchiveLife, WhatWasDeletedOrCannotBeMeantIsNotTakenOver) {
  cache.spec.storage->adopt = true;
  cache.status.condemned = {{digest('f'), "2026-01-01T00:00:00Z"}};
  put_cache();
  stats.set_condemned("ml/transformer", cache.status.condemned);
  auto no_digest = found_archive('7', "a");
  no_digest.manifest_digest = "sha256:../../x";
  auto no_key = found_archive('7', "b");
  no_key.key.clear();
  auto negative = found_archive('7', "c");
  negative.compressed_bytes = -1;
  auto endless = found_archive('7', "d");
  endless.generation = std::numeric_limits<int64_t>::max();
  for (auto* found : {&no_digest, &no_key, &negative, &endless}) found->blobs = {digest('7')};
  const auto condemned = found_archive('7', "e");
  EXPECT_EQ(adopt({no_digest, no_key, negative, endless, condemned}), 200);
  EXPECT_TRUE(archives.archives.empty());
  auto later = found_archive('7', "f");
  later.blobs = {digest('7')};
  later.saved_at = "2199-01-01T00:00:00Z";
  EXPECT_EQ(adopt({later}), 200);
  EXPECT_EQ(archive().head.saved_at, format_time(clock.wall()))
      << "otherwise it is the newest forever";
}

TEST_F(ArchiveLife, AHeadWhoseBlobsAreInSeveralPagesIsFoundByThemTogether) {
  const auto granted = call<api::SaveAnswer>(
      "/v1/saves", "a", api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  const api::CommitRequest commit{
      .fence = granted.fence, .manifest_digest = digest('2'), .blobs = {digest('2'), digest('5')}};
  ASSERT_EQ(send("POST", "/v1/saves/" + granted.id + "/commit", "a", api::dump(commit)).status,
            200);
  const auto tell = [&](const std::vector<api::StoredBlob>& last) {
    clock.advance(minutes(5));
    begin_sweep();
    api::SweepRequest first{.cache = "transformer", .phase = api::SweepPhase::kInventory};
    first.inventory = api::Inventory{.blobs = {{digest('2'), 1}}, .up_to = digest('2')};
    EXPECT_EQ(send("POST", "/v1/sweeps", "job", api::dump(first)).status, 200);
    api::SweepRequest end{.cache = "transformer", .phase = api::SweepPhase::kEnd};
    end.inventory = api::Inventory{.blobs = last, .after = digest('2')};
    EXPECT_EQ(send("POST", "/v1/sweeps", "job", api::dump(end)).status, 200);
    return is_suspect(archive());
  };
  EXPECT_FALSE(tell({{digest('5'), 1}}));
  EXPECT_TRUE(tell({})) << "one is gone";
}

TEST_F(ArchiveLife, UseThatCouldNotBeWrittenIsWrittenLater) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  archives.fault = [] { return test::FakeArchives::Fault::kLostRequest; };
  registry.flush(true);
  archives.fault = [] { return test::FakeArchives::Fault::kNone; };
  registry.flush(true);
  EXPECT_EQ(archive().loads.exact, 1);
}

// Archives of one CompileCache lie in one store, where the same bytes are one blob.
class SharedBlob : public ArchiveLife {
 protected:
  SharedBlob() {
    image = "torch:2";
    add_pod("other");
  }
  api::SaveAnswer ask(const std::string& pod) {
    const auto answer = call<api::SaveAnswer>(
        "/v1/saves", pod, api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
    EXPECT_EQ(answer.decision, api::SaveDecision::kGranted) << answer.reason;
    return answer;
  }
  int commit(const std::string& pod, const api::SaveAnswer& answer, char manifest) {
    const api::CommitRequest request{.fence = answer.fence,
                                     .parent_digest = answer.parent_digest,
                                     .manifest_digest = digest(manifest),
                                     .blobs = {digest(manifest), digest('f')}};
    return send("POST", "/v1/saves/" + answer.id + "/commit", pod, api::dump(request)).status;
  }
  api::CompileCacheArchive with_image(const std::string& wanted) const {
    for (const auto& [key, each] : archives.archives) {
      if (each.key.at("Image") == wanted) return each;
    }
    ADD_FAILURE() << "no archive of " << wanted;
    return {};
  }
  void report_corrupt_blob(const std::string& pod) {
    const auto loaded = with_image("torch:1");
    const api::LoadedReport report{.cache = "transformer",
                                   .outcome = api::Outcome::kError,
                                   .archive = loaded.metadata.name,
                                   .manifest_digest = loaded.head.manifest_digest,
                                   .corrupt_digest = digest('f')};
    EXPECT_EQ(send("POST", "/v1/loaded", pod, api::dump(report)).status, 200);
  }
};

TEST_F(SharedBlob, MakesBothSuspect) {
  ASSERT_EQ(commit("a", ask("a"), '1'), 200);
  ASSERT_EQ(commit("other", ask("other"), '2'), 200);
  report_corrupt_blob("b");
  EXPECT_TRUE(is_suspect(with_image("torch:1")));
  EXPECT_TRUE(is_suspect(with_image("torch:2")));
  EXPECT_EQ(load("other").reason, "suspect");
}

TEST_F(SharedBlob, OfAnArchiveThatBecameSuspectIsWrittenAnew) {
  ASSERT_EQ(commit("a", ask("a"), '1'), 200);
  const auto granted = ask("other");
  EXPECT_TRUE(granted.condemned.empty());
  report_corrupt_blob("b");
  EXPECT_EQ(commit("other", granted, '2'), 409) << "it counts on a blob that may be corrupt";
  ASSERT_EQ(send("DELETE", "/v1/saves/" + granted.id, "other").status, 200);
  const auto again = ask("other");
  EXPECT_NE(std::find(again.condemned.begin(), again.condemned.end(), digest('f')),
            again.condemned.end());
  EXPECT_EQ(commit("other", again, '2'), 200) << "it has written that blob itself";
  EXPECT_FALSE(is_suspect(with_image("torch:2")));
  EXPECT_TRUE(is_suspect(with_image("torch:1")));
}

class Adoption : public ArchiveLife {
 protected:
  Adoption() {
    cache.spec.storage->adopt = true;
    cache.spec.key = {"GPUProduct", "Image"};
    put_cache();
    for (const char* name : {"a", "b", "c"}) add_pod(name);
  }
};

// Without spec.storage.adopt: its repository is named by it.
TEST_F(ArchiveLife, WhatACompileCacheLeftInTheInstallationsRegistryIsTheNextOnesOfItsName) {
  stores.registry.set({"compilecache-registry.system.svc:5000", "10.0.0.9:5000"});
  cache.spec.storage = api::CompileCacheSpec::Storage{};
  cache.spec.key = {"GPUProduct", "Image"};
  put_cache();
  add_pod("a");
  ASSERT_EQ(adopt({found_archive('7', "torch:1")}), 200);
  EXPECT_EQ(load("a").manifest_digest, digest('7'));
}

// Pods save to the installation's own registry.
class OwnRegistrySaves : public ArchiveLife {
 protected:
  OwnRegistrySaves() {
    EXPECT_TRUE(minter.use(*make_token_authority({}, clock.wall())));
    stores.registry.set({registry_.host(), ""});
    cache.spec.storage = api::CompileCacheSpec::Storage{};
    cache.spec.save.max_archive_size = 100'000;
    put_cache();
    add_pod("a");
  }
  // An archive of a layer of that many bytes; its manifest's digest.
  std::string push(size_t size) {
    const std::string layer(size, 'x'), config = "{}";
    const nlohmann::json manifest = {{"schemaVersion", 2},
                                     {"config", {{"digest", put(config)}, {"size", config.size()}}},
                                     {"layers", {{{"digest", put(layer)}, {"size", 1}}}}};
    store::RegistryClient client(
        {.host = registry_.host(), .repository = "ml/transformer", .plain_http = true});
    const std::string digest = "sha256:" + sha256_hex(manifest.dump());
    EXPECT_TRUE(store::put_manifest(client, digest, manifest.dump()));
    return digest;
  }
  std::string put(const std::string& content) {
    const std::string digest = "sha256:" + sha256_hex(content);
    registry_.put(digest, content);
    return digest;
  }
  // The pod says that it is a single byte.
  int commit(const std::string& manifest) {
    const auto answer = call<api::SaveAnswer>(
        "/v1/saves", "a", api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
    EXPECT_EQ(answer.decision, api::SaveDecision::kGranted) << answer.reason;
    return send("POST", "/v1/saves/" + answer.id + "/commit", "a",
                api::dump(api::CommitRequest{.fence = answer.fence,
                                             .parent_digest = answer.parent_digest,
                                             .manifest_digest = manifest,
                                             .blobs = {digest('f')},
                                             .compressed_bytes = 1}))
        .status;
  }

  store::test::FakeRegistry registry_;
};

TEST_F(OwnRegistrySaves, CountWithWhatIsThereAndNotWithWhatThePodSays) {
  usage.audited({});
  const std::string manifest = push(50'000);
  ASSERT_EQ(commit(manifest), 200);
  EXPECT_GT(archive().head.compressed_bytes, 50'000);
  EXPECT_EQ(archive().head.blobs.size(), 3U) << "the manifest's own";
  EXPECT_EQ(usage.of_namespace("ml"), archive().head.compressed_bytes);
  EXPECT_EQ(rooms, std::vector<bool>{false});
  EXPECT_EQ(commit(push(100'000)), 413) << "spec.save.maxArchiveSize is of that, too";
  EXPECT_EQ(archive().head.manifest_digest, manifest);
}

TEST_F(OwnRegistrySaves, WhatIsNotThereIsNoHead) {
  EXPECT_EQ(commit(digest('1')), 409);
  EXPECT_FALSE(archive().head.exists());
  const std::string manifest = push(1'000);
  registry_.take("sha256:" + sha256_hex(std::string(1'000, 'x')));
  EXPECT_EQ(commit(manifest), 409);
  EXPECT_FALSE(archive().head.exists());
}

TEST_F(OwnRegistrySaves, ARegistryThatDoesNotAnswerIsAskedAgain) {
  const std::string manifest = push(1'000);
  registry_.refuse([](const auto&) { return store::test::FakeRegistry::Answer{.status = 503}; });
  EXPECT_EQ(commit(manifest), 503);
  registry_.refuse(nullptr);
  EXPECT_EQ(commit(manifest), 200);
}

TEST_F(OwnRegistrySaves, ThatFindItFullAreHeard) {
  const api::EffectReport report{
      .cache = "transformer", .save_outcome = api::Outcome::kError, .save_reason = "registry_full"};
  EXPECT_EQ(send("POST", "/v1/effect", "a", api::dump(report)).status, 200);
  EXPECT_EQ(rooms, std::vector<bool>{true});
}

TEST_F(Adoption, AnArchiveThatWasFoundCorruptHereIsSavedAnewAndNotTakenOver) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kError, {}, digest('1'));
  end_sweep("1", {digest('1')});
  ASSERT_TRUE(is_corrupt(archive()));
  EXPECT_EQ(adopt({found_archive('7', image)}), 200);
  EXPECT_EQ(load("c").reason, "corrupt");
}

TEST_F(Adoption, NothingGoesIntoTheArchiveOfADeletedCompileCache) {
  ASSERT_EQ(call<api::SaveAnswer>(
                "/v1/saves", "a",
                api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1})
                .decision,
            api::SaveDecision::kGranted);
  cache.metadata.uid = "made-anew";
  put_cache();
  EXPECT_EQ(adopt({found_archive('7', image)}), 200);
  EXPECT_FALSE(archive().head.exists()) << "it is about to be collected";
}

}  // namespace
}  // namespace compilecache::controller
