#include "frameworks/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/frameworks/directory.hpp"

namespace compilecache::frameworks {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class Plan : public ::testing::Test {
 protected:
  void make(double now = 100) {
    const Rules rules(framework);
    SaveKnowledge knowledge;
    const HeldPaths held({directory.held.begin(), directory.held.end()});
    knowledge.held = &held;
    knowledge.loaded = &directory.loaded;
    knowledge.saved_at = saved_at;
    knowledge.in_group = in_group;
    knowledge.is_warm = [this] { return is_warm; };
    knowledge.young = std::chrono::seconds(60);
    plan = plan_save(rules, directory.scan, knowledge, at(now),
                     [&](const FileInfo& file) { return !directory.torn.contains(file.path); });
  }
  [[nodiscard]] std::vector<std::string> packed() const {
    std::vector<std::string> paths;
    for (const FileInfo* file : plan.pack) paths.push_back(file->path);
    return paths;
  }

  Framework framework = torch();
  Directory directory;
  std::optional<WallTime> saved_at;
  bool in_group = false, is_warm = false;
  SavePlan plan;
};

TEST_F(Plan, Case1AColdRunIsPackedWithoutItsLocks) {
  directory.folder("fxgraph", 1);
  directory.folder("fxgraph/hw", 1);
  for (const char* path : {"2g/c2g.cpp", "2g/c2g.so", "vw/c.h", "jr/c.py", "fxgraph/hw/KEY/f"}) {
    directory.add(path, 5);
  }
  directory.add("locks/c2g.lock", 5);
  make();
  EXPECT_THAT(packed(),
              ElementsAre("2g/c2g.cpp", "2g/c2g.so", "vw/c.h", "jr/c.py", "fxgraph/hw/KEY/f"));
  EXPECT_EQ(plan.pack_bytes, 500u);
  EXPECT_EQ(plan.never_packed, 1u);
  EXPECT_EQ(plan.last_activity, at(5));
}

TEST_F(Plan, Case2TheSameAgainIsNothingNew) {
  directory.load("fxgraph/hw/KEY/f");
  directory.load("2g/c2g.so");
  directory.read("fxgraph/hw/KEY/f", 3);
  directory.add("locks/c2g.lock", 3);
  make();
  EXPECT_THAT(packed(), IsEmpty());
  EXPECT_EQ(plan.held, 2u);
}

TEST_F(Plan, Case5ANewShapeIsPackedAlone) {
  directory.load("fxgraph/hw/KEY/f");
  directory.load("2g/c2g.so");
  directory.add("zz/cnew.so", 9);
  directory.add("fxgraph/yy/NEW/f", 9);
  make();
  EXPECT_THAT(packed(), UnorderedElementsAre("zz/cnew.so", "fxgraph/yy/NEW/f"));
}

TEST_F(Plan, Case14AnEntryThatTheArchiveHasUnderAnotherNameDoesNotGrowIt) {
  directory.held = {"fxgraph/hw/KEY/theirs", "aotautograd/AKEY/theirs", "jr/shared.py"};
  directory.add("fxgraph/hw/KEY/mine", 9);
  directory.add("aotautograd/AKEY/mine", 9);
  directory.add("jr/shared.py", 9);
  directory.add("fxgraph/hw/MINE/f", 9);
  make();
  EXPECT_THAT(packed(), ElementsAre("fxgraph/hw/MINE/f"));
  EXPECT_EQ(plan.held_entries, 2u);
  EXPECT_EQ(plan.held, 1u);
}

TEST_F(Plan, Case14TwoProcessesOfOnePodKeepBothFilesOfAKey) {
  directory.add("fxgraph/hw/KEY/one", 9);
  directory.add("fxgraph/hw/KEY/two", 9);
  make();
  EXPECT_EQ(plan.pack.size(), 2u);
}

TEST_F(Plan, WhatThisPodSavedOfAnEntryIsCompletedLater) {
  directory.add("fxgraph/hw/KEY/one", 5);
  directory.held = {"fxgraph/hw/KEY/one"};
  directory.add("fxgraph/hw/KEY/two", 50);
  saved_at = at(40);
  make();
  EXPECT_THAT(packed(), ElementsAre("fxgraph/hw/KEY/two"));
}

TEST_F(Plan, Case17ProfileStateIsPackedItsLockIsNot) {
  directory.add("dynamo/code_state_job_None_.pkl", 5);
  directory.add("dynamo/code_state_job_None_.pkl.lock", 5);
  make();
  EXPECT_THAT(packed(), ElementsAre("dynamo/code_state_job_None_.pkl"));
}

TEST_F(Plan, Case18ATemporaryFolderIsBusyThenLeftOver) {
  directory.folder("tmpabcdefgh", 90);
  directory.add("tmpabcdefgh/2g/c.so", 95);
  directory.add("tmpabcdefgh/fxgraph/hw/KEY/f", 95);
  make(100);
  EXPECT_THAT(packed(), IsEmpty());
  EXPECT_THAT(plan.busy, ElementsAre("tmpabcdefgh"));
  make(200);
  EXPECT_THAT(packed(), IsEmpty());
  EXPECT_THAT(plan.busy, IsEmpty());
  EXPECT_THAT(plan.left_over, ElementsAre("tmpabcdefgh"));
}

TEST_F(Plan, Case19KilledInMidCompile) {
  directory.add("2g/cdone.cpp", 5);
  directory.add("2g/cdone.so", 6);
  directory.add("2g/chalf.cpp", 7);
  directory.add("2g/chalf.so", 8);
  directory.folder("2g/chalf_CxxBuild", 7);
  directory.add("2g/chalf_CxxBuild/x.o", 8);
  make(20);
  EXPECT_THAT(packed(), UnorderedElementsAre("2g/cdone.cpp", "2g/cdone.so"));
  EXPECT_THAT(plan.busy, ElementsAre("2g/chalf"));
  make(1000);
  EXPECT_THAT(packed(), UnorderedElementsAre("2g/cdone.cpp", "2g/cdone.so"));
  EXPECT_THAT(plan.left_over, ElementsAre("2g/chalf"));
}

TEST_F(Plan, ABuildHidesItsOwnOutputsAndNoNeighbours) {
  directory.folder("2g/chalf_CxxBuild", 95);
  directory.add("2g/chalf.so", 95);
  directory.add("2g/chalk.so", 5);
  directory.add("vw/chalf.so", 5);
  make(100);
  EXPECT_THAT(packed(), UnorderedElementsAre("2g/chalk.so", "vw/chalf.so"));
}

TEST_F(Plan, ATornLibraryStaysOutAndIsBusyWhileYoung) {
  directory.add("2g/c.so", 95);
  directory.torn = {"2g/c.so"};
  make(100);
  EXPECT_THAT(packed(), IsEmpty());
  EXPECT_THAT(plan.busy, ElementsAre("2g/c.so"));
  make(300);
  EXPECT_THAT(plan.left_over, ElementsAre("2g/c.so"));
}

TEST_F(Plan, LoadedLibrariesAreNotEvenLookedAt) {
  directory.load("2g/c.so");
  directory.torn = {"2g/c.so"};
  make();
  EXPECT_THAT(plan.busy, IsEmpty());
  EXPECT_EQ(plan.held, 1u);
}

TEST_F(Plan, TritonFoldersAreTakenWhole) {
  directory.add("triton/0/HALF/kernel.ttir", 95);
  directory.add("triton/0/HALF/tmp.1234", 95);
  directory.add("triton/0/WHOLE/kernel.cubin", 95);
  directory.add("triton/0/WHOLE/__grp__kernel.json", 95);
  directory.add("triton/0/LAUNCHER/__triton_launcher.so", 95);
  make(100);
  EXPECT_THAT(packed(), UnorderedElementsAre("triton/0/WHOLE/kernel.cubin",
                                             "triton/0/WHOLE/__grp__kernel.json",
                                             "triton/0/LAUNCHER/__triton_launcher.so"));
  EXPECT_THAT(plan.busy, UnorderedElementsAre("triton/0/HALF", "triton/0/HALF/tmp.1234"));
}

TEST_F(Plan, AMarkerDeeperDownCompletesNothing) {
  directory.add("triton/0/HALF/kernel.ttir", 95);
  directory.add("triton/0/HALF/dump/__grp__kernel.json", 95);
  make(100);
  EXPECT_THAT(packed(), IsEmpty());
  EXPECT_THAT(plan.busy, ElementsAre("triton/0/HALF"));
}

// In whichever order they are listed, and also when a file of an older time was moved in.
TEST_F(Plan, WhatIsUnfinishedIsAsYoungAsItsYoungestFile) {
  directory.add("triton/0/HALF/kernel.ttgir", 195);
  directory.add("triton/0/HALF/kernel.ttir", 5);
  directory.add("triton/0/MOVED/kernel.ttir", 5).changed = at(195);
  directory.add("triton/0/OLD/kernel.ttir", 5);
  make(200);
  EXPECT_THAT(plan.busy, UnorderedElementsAre("triton/0/HALF", "triton/0/MOVED"));
  EXPECT_THAT(plan.left_over, ElementsAre("triton/0/OLD"));
}

TEST_F(Plan, AFileWithTheNameOfATemporaryFolderIsAFile) {
  directory.add("tmpabcdefgh", 5);
  make();
  EXPECT_THAT(packed(), ElementsAre("tmpabcdefgh"));
}

// The parts of a key hold the application's settings.
TEST_F(Plan, WhatAKeyWasMadeOfAndWhatIsPrivateStaysOutWithAllBelow) {
  framework.key_factors = {"**/cache_key_factors.json"};
  framework.never_pack.emplace_back("private");
  directory.add("h/rank_0_0/cache_key_factors.json", 5);
  directory.add("h/private/token", 5);
  directory.add("h/c.py", 5);
  make();
  EXPECT_THAT(packed(), ElementsAre("h/c.py"));
  EXPECT_EQ(plan.never_packed, 2u);
}

TEST_F(Plan, TemporaryFilesOfWriteAtomicStayOut) {
  directory.add("jr/.12.3456.tmp", 99);
  directory.add("jr/tmp.pid_1_abc", 99);
  directory.add("jr/c.py", 99);
  make(100);
  EXPECT_THAT(packed(), ElementsAre("jr/c.py"));
  EXPECT_EQ(plan.busy.size(), 2u);
}

TEST_F(Plan, LinksAndDevicesStayOut) {
  directory.add("link", 1, FileType::kOther);
  make();
  EXPECT_THAT(packed(), IsEmpty());
  EXPECT_EQ(plan.not_regular, 1u);
}

TEST_F(Plan, UnderAnotherKeyOnlyWhatIsNewOrWasReadIsPacked) {
  directory.load("fxgraph/hw/USED/f");
  directory.load("fxgraph/hw/DEAD/f");
  directory.load("triton/0/KEY/__grp__k.json");
  directory.load("triton/0/KEY/k.ttir");
  directory.load("2g/unread.so");
  directory.held.clear();  // another archive, written from scratch
  directory.read("fxgraph/hw/USED/f", 5);
  directory.read("triton/0/KEY/__grp__k.json", 5);
  directory.add("fxgraph/hw/NEW/f", 6);
  make();
  // A Triton folder is useful only whole, so its unread file comes along, and nobody need have read
  // a small library to use it.
  EXPECT_THAT(packed(),
              UnorderedElementsAre("fxgraph/hw/USED/f", "triton/0/KEY/__grp__k.json",
                                   "triton/0/KEY/k.ttir", "2g/unread.so", "fxgraph/hw/NEW/f"));
  EXPECT_EQ(plan.unread, 1u);
}

// PyTorch 2.15 reads the graph and the module, and only checks whether the rest is there.
TEST_F(Plan, UnderAnotherKeyKernelsStayWithWhatLooksForThem) {
  const std::vector<std::string> needed{"2g/c2g.main.cpp", "2g/c2g.main.so",    "ar/isa.cpp",
                                        "ar/isa.so",       "ar/isa.so.load_ok", "vw/header.h"};
  for (const auto& path : needed) directory.load(path);
  directory.load("fxgraph/hw/USED/f");
  directory.load("2g/c2g.py");
  directory.held.clear();
  directory.read("fxgraph/hw/USED/f", 5);
  directory.read("2g/c2g.py", 5);
  directory.add("fxgraph/hw/NEW/f", 6);
  make();
  std::vector<std::string> all = needed;
  all.insert(all.end(), {"fxgraph/hw/USED/f", "2g/c2g.py", "fxgraph/hw/NEW/f"});
  EXPECT_THAT(packed(), ::testing::UnorderedElementsAreArray(all));
  EXPECT_EQ(plan.unread, 0u);
}

TEST_F(Plan, ALargeUnreadFileStaysOnlyBesideOneThatWasRead) {
  for (const char* path : {"2g/used.so", "2g/used.py", "2g/dead.so", "2g/dead.py"}) {
    directory.load(path);
  }
  directory.find("2g/used.so").size = directory.find("2g/dead.so").size = kSmallFile + 1;
  directory.held.clear();
  directory.read("2g/used.py", 5);
  make();
  EXPECT_THAT(packed(), UnorderedElementsAre("2g/used.so", "2g/used.py", "2g/dead.py"));
}

// Each image adds some, and none of them is ever read.
TEST_F(Plan, OfUnreadSmallFilesTheNewestStay) {
  constexpr int kFiles = 100;
  for (int i = 0; i < kFiles; ++i) {
    const std::string path = "2g/c" + std::to_string(i) + ".so";
    directory.load(path);
    directory.find(path).size = kSmallFile;
    directory.find(path).modified = at(-1000 + i);
  }
  directory.held.clear();
  make();
  EXPECT_EQ(plan.pack_bytes, kMostUnreadBytes);
  EXPECT_THAT(packed(), ::testing::Contains("2g/c99.so"));
  EXPECT_THAT(packed(), ::testing::Not(::testing::Contains("2g/c0.so")));
}

TEST_F(Plan, AFolderOfUnitsLivesAndDiesWhole) {
  framework.unit_directories = {"aot/*"};
  for (const char* path : {"aot/USED/model", "aot/USED/cache/k.so", "aot/DEAD/fxgraph/hw/KEY/f",
                           "aot/DEAD/cache/k.so", "aot/fxgraph"}) {
    directory.load(path);
  }
  framework.entry_directories = {"**/fxgraph/*/*"};
  directory.held.clear();
  directory.read("aot/USED/model", 5);
  make();
  EXPECT_THAT(packed(),
              UnorderedElementsAre("aot/USED/model", "aot/USED/cache/k.so", "aot/fxgraph"));
}

// A cold start takes what compiling needs for the model's own need of memory.
TEST_F(Plan, WhatAColdPodMeasuredStaysOut) {
  framework.only_from_warm = {"plan/**"};
  directory.add("plan/p.json", 5);
  directory.add("2g/c.so", 5);
  make();
  EXPECT_THAT(packed(), ElementsAre("2g/c.so"));
  EXPECT_EQ(plan.withheld, 1u);
  is_warm = true;
  make();
  EXPECT_THAT(packed(), UnorderedElementsAre("plan/p.json", "2g/c.so"));
}

// The pods of a group save one by one, and may be killed in between.
TEST_F(Plan, OfAGroupWhatMustAgreeStaysOut) {
  framework.must_agree = {"tuned/**"};
  directory.add("tuned/gemm.json", 5);
  directory.add("2g/c.so", 5);
  make();
  EXPECT_EQ(plan.pack.size(), 2u) << "a pod by itself";
  in_group = true;
  make();
  EXPECT_THAT(packed(), ElementsAre("2g/c.so"));
}

Framework numba() {
  Framework framework;
  framework.name = "numba";
  framework.entry_files = {"**/*.nbc"};
  framework.index_files = {"**/*.nbi"};
  framework.temporary = {"**/*.tmp.*"};
  return framework;
}

// Two pods loaded {X: 1}; another one has saved {X: 1, Y: 2}, and this one has made {X: 1, Z: 2}.
TEST_F(Plan, AnIndexIsPackedWithAllThatItLeadsTo) {
  framework = numba();
  directory.load("m/m.f-1.py311.nbi");
  directory.load("m/m.f-1.py311.1.nbc");
  directory.load("m/m.g-9.py311.nbi");
  directory.load("m/m.g-9.py311.1.nbc");
  FileInfo& index = directory.find("m/m.f-1.py311.nbi");
  index.modified = index.changed = at(50);
  directory.add("m/m.f-1.py311.2.nbc", 51);
  directory.held.insert("m/m.f-1.py311.2.nbc");
  make();
  EXPECT_THAT(packed(), UnorderedElementsAre("m/m.f-1.py311.nbi", "m/m.f-1.py311.1.nbc",
                                             "m/m.f-1.py311.2.nbc"));
  EXPECT_THAT(plan.replaced, ElementsAre("m/m.f-1.py311"));
}

// Where the archive's index stays, this pod's files would lie beside it unfound, or be taken for
// others.
TEST_F(Plan, WhatAnIndexOfAnotherPodDoesNotLeadToStaysOut) {
  framework = numba();
  directory.add("m/m.f-1.py311.nbi", 50);
  directory.add("m/m.f-1.py311.1.nbc", 51);
  directory.add("m/m.f-1.py311.2.nbc", 52);
  directory.held = {"m/m.f-1.py311.nbi", "m/m.f-1.py311.1.nbc"};
  make();
  EXPECT_THAT(packed(), IsEmpty());
}

TEST_F(Plan, AnIndexWithoutWhatItLeadsToIsUnfinished) {
  framework = numba();
  directory.add("m/m.f-1.py311.1.nbc", 51);
  directory.add("m/m.f-1.py311.nbi", 95);
  make(100);
  EXPECT_THAT(packed(), IsEmpty());
  EXPECT_THAT(plan.busy, ElementsAre("m/m.f-1.py311.nbi"));
  directory.add("m/m.f-1.py311.2.nbc", 96);
  make(100);
  EXPECT_EQ(plan.pack.size(), 3u);
}

TEST_F(Plan, HalfAStreamStaysOut) {
  framework.stream_files = {"*-cache"};
  directory.add("jit_whole-cache", 5);
  directory.add("jit_half-cache", 95);
  directory.torn = {"jit_half-cache"};
  make(100);
  EXPECT_THAT(packed(), ElementsAre("jit_whole-cache"));
  EXPECT_THAT(plan.busy, ElementsAre("jit_half-cache"));
  make(300);
  EXPECT_THAT(plan.left_over, ElementsAre("jit_half-cache"));
}

TEST_F(Plan, WhereReadsDoNotShowAllOfItIsPacked) {
  directory.load("fxgraph/hw/MAYBE/f");
  directory.held.clear();
  directory.loaded.reads_visible = false;
  make();
  EXPECT_THAT(packed(), ElementsAre("fxgraph/hw/MAYBE/f"));
}

TEST_F(Plan, ALoadedFileThatWasRewrittenIsPackedAgain) {
  directory.load("cache/autotune");
  const auto rewrite = [&](int when) {
    auto& file = directory.find("cache/autotune");
    file.modified = file.changed = at(when);
  };
  rewrite(50);
  make();
  EXPECT_THAT(packed(), ElementsAre("cache/autotune"));
  saved_at = at(60);
  make();
  EXPECT_THAT(packed(), IsEmpty());
  rewrite(70);
  make();
  EXPECT_THAT(packed(), ElementsAre("cache/autotune"));
}

TEST_F(Plan, WhatWasRewrittenUnderAnotherKeyIsPackedThoughNobodyReadIt) {
  directory.load("cache/autotune");
  directory.held.clear();  // another archive, written from scratch
  directory.find("cache/autotune").modified = directory.find("cache/autotune").changed = at(50);
  make();
  EXPECT_THAT(packed(), ElementsAre("cache/autotune"));
}

TEST_F(Plan, ARewriteThatPutTheModificationTimeBackIsNoticed) {
  directory.load("torch_compile_cache/h/vllm_compile_cache.py");
  directory.add("cache/autotune", 5);  // this pod's own, saved at 40
  directory.held.insert("cache/autotune");
  saved_at = at(40);
  make();
  EXPECT_THAT(packed(), IsEmpty());
  directory.find("torch_compile_cache/h/vllm_compile_cache.py").changed = at(50);
  directory.find("cache/autotune").changed = at(50);
  make();
  EXPECT_THAT(packed(), UnorderedElementsAre("torch_compile_cache/h/vllm_compile_cache.py",
                                             "cache/autotune"));
}

// The kernel's stamps are as old as its last tick.
TEST_F(Plan, WhatWasWrittenInTheTickOfASaveIsSavedNext) {
  directory.add("cache/autotune", 39.995);
  directory.held = {"cache/autotune"};
  saved_at = at(40);
  make();
  EXPECT_THAT(packed(), ElementsAre("cache/autotune"));
}

// Torch writes a file of its own into an entry that it could not use.
TEST_F(Plan, WhatWasLoadedOfAnEntryDoesNotMakeTheEntryOurs) {
  directory.load("fxgraph/hw/KEY/theirs");
  directory.add("fxgraph/hw/KEY/mine", 9);
  make();
  EXPECT_THAT(packed(), IsEmpty());
  EXPECT_EQ(plan.held_entries, 1u);
}

TEST_F(Plan, ALoadedFileOfAClockThatIsAheadIsNoActivity) {
  directory.load("2g/c.so");
  directory.find("2g/c.so").modified = at(1000);
  directory.add("2g/mine.so", 9);
  make();
  EXPECT_EQ(plan.last_activity, at(9));
  EXPECT_THAT(packed(), ElementsAre("2g/mine.so"));
}

TEST_F(Plan, ALocksFolderThatIsTouchedIsNoActivity) {
  framework.never_pack = {"locks/*"};
  directory.add("2g/c.so", 9);
  directory.folder("locks", 95);
  directory.add("locks/c.lock", 95);
  make();
  EXPECT_EQ(plan.last_activity, at(9));
}

TEST_F(Plan, AnArchiveFromScratchGetsEverythingOfAColdPod) {
  directory.add("2g/c.so", 5);
  saved_at = at(60);  // saved before, but that archive was deleted
  make();
  EXPECT_THAT(packed(), ElementsAre("2g/c.so"));
}

TEST_F(Plan, AClockThatWasSetBackKeepsNothingBusyForEver) {
  directory.add("jr/.1.2.tmp", 100000);
  make(100);
  EXPECT_THAT(plan.busy, IsEmpty());
  EXPECT_EQ(plan.left_over.size(), 1u);
}

}  // namespace
}  // namespace compilecache::frameworks
