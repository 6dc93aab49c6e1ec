#include "tests/unit/operator/agent_api_fixture.hpp"

// What becomes of an archive after its first save: use, distrust, deletion, another cluster.

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
  EXPECT_EQ(sweeps_wanted, 1);
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
  EXPECT_EQ(archive().head.saved_at, format_time(clock.wall())) << "else it is the newest for ever";
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
    first.inventory = {{digest('2'), 1}};
    first.up_to = digest('2');
    EXPECT_EQ(send("POST", "/v1/sweeps", "job", api::dump(first)).status, 200);
    api::SweepRequest end{.cache = "transformer", .phase = api::SweepPhase::kEnd};
    end.inventory = last;
    end.after = digest('2');
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
