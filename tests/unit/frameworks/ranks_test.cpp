#include "frameworks/ranks.hpp"

#include <gtest/gtest.h>

#include "frameworks/effect.hpp"

namespace compilecache::frameworks {
namespace {

using std::chrono::seconds;

Rules rules_of_ranks() {
  Framework framework;
  framework.name = "vllm";
  framework.rank_directories = {"torch_compile_cache/*/rank_*",
                                "torch_compile_cache/torch_aot_compile/*/rank_*"};
  return Rules(framework);
}

const std::string kLayout = "torch_compile_cache/AB";
const std::string kAhead = "torch_compile_cache/torch_aot_compile/CD";

TEST(Ranks, AFolderOfARankIsKnownByItsPattern) {
  const Rules rules = rules_of_ranks();
  EXPECT_EQ(rules.rank_directory(kLayout + "/rank_4_0/backbone/artifact_0"), kLayout + "/rank_4_0");
  EXPECT_EQ(rules.rank_directory(kAhead + "/rank_4_0/model"), kAhead + "/rank_4_0");
  for (const std::string& path : {kAhead + "/inductor_cache/fxgraph/a/KEY/f", kLayout + "/rank_4_0",
                                  std::string("modelinfos/rank_1.json")}) {
    EXPECT_EQ(rules.rank_directory(path), std::nullopt) << path;
  }
}

TEST(Ranks, APodWantsItsOwnAndWhatIsNobodys) {
  const Rules rules = rules_of_ranks();
  const OwnRanks own({"vllm/" + kLayout + "/rank_4_0", "vllm/" + kLayout + "/rank_5_0"});
  for (const std::string& path :
       {kLayout + "/rank_4_0/model", kLayout + "/rank_5_0/a/b", kLayout + "/common",
        kAhead + "/rank_0_0/model", std::string("triton_cache/KEY/kernel.cubin")}) {
    EXPECT_TRUE(own.wants("vllm", rules, path)) << path;
  }
  EXPECT_FALSE(own.wants("vllm", rules, kLayout + "/rank_0_0/model"));
  EXPECT_FALSE(own.wants("vllm", rules, kLayout + "/rank_40_0/model"));
  EXPECT_TRUE(own.wants("other", rules, kLayout + "/rank_0_0/model"));
  EXPECT_TRUE(OwnRanks({}).empty());
  EXPECT_TRUE(OwnRanks({"", "/", "vllm", "a/"}).empty());
}

// The next pod at this place loads what this one has used.
TEST(Ranks, AnAppUsesTheRanksWhoseFilesItHasReadOrMade) {
  const WallTime loaded_at{seconds(1000)};
  LoadedFiles loaded;
  loaded.at = loaded_at;
  loaded.reads_visible = true;
  Scan scan;
  const auto add = [&](const std::string& path, WallTime modified, WallTime accessed, bool given) {
    FileInfo file;
    file.path = path;
    file.type = FileType::kRegular;
    file.modified = file.changed = modified;
    file.accessed = accessed;
    scan.push_back(file);
    if (given) loaded.files.insert(path);
  };
  const WallTime later = loaded_at + seconds(5);
  add(kLayout + "/rank_0_0/model", loaded_at - seconds(9), kUnreadTime, true);
  add(kLayout + "/rank_1_0/model", loaded_at - seconds(9), later, true);
  add(kLayout + "/rank_2_0/model", later, later, false);
  add(kLayout + "/common", later, later, false);
  EffectJudge judge;
  const Rules rules = rules_of_ranks();
  judge.add(rules, scan, &loaded);
  EXPECT_EQ(
      judge.result().rank_directories,
      (std::vector<std::string>{"vllm/" + kLayout + "/rank_1_0", "vllm/" + kLayout + "/rank_2_0"}));
}

}  // namespace
}  // namespace compilecache::frameworks
