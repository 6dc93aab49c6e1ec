#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "agent/index_lookup.hpp"
#include "archive/format.hpp"
#include "store/directory/directory_store.hpp"
#include "store/directory/layout.hpp"
#include "store/index.hpp"
#include "tests/unit/agent/agent_fixture.hpp"

// `compilecache-agent load`, run as a process.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::string> kFiles{{"torch/fxgraph/ab/KEY/file", "an entry"},
                                                {"torch/cd/cmodule.py", "print(1)"}};

class Load : public AgentTest {
 protected:
  // In the index, as savers leave it.
  archive::ArchiveInfo put_indexed(const std::string& product, const std::string& image,
                                   const std::map<std::string, std::string>& files) {
    const auto info = put_archive(files);
    const api::ArchiveKey key{{"GPUProduct", product}, {"Image", image}};
    EXPECT_TRUE(store::DirectoryStore(store_).update_index(
        {info.manifest, info.manifest_bytes,
         index_annotations("demo-" + product, 1, "2026-01-01T00:00:00Z", key)}));
    return info;
  }
  void expect_cold(const std::string& outcome, const std::string& reason) {
    EXPECT_EQ(status()["outcome"], outcome) << log_;
    EXPECT_EQ(status()["reason"], reason) << log_;
    EXPECT_TRUE(fs::is_directory(torch_));
    EXPECT_TRUE(fs::is_empty(torch_));
  }
};

TEST_F(Load, ColdWithoutOperatorAndArchive) {
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "node_unknown");
  struct stat info {};
  ASSERT_EQ(::stat(torch_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0777u);
  ASSERT_EQ(::stat(control("status.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0644u);
}

TEST_F(Load, BadConfigurationStillLetsThePodStart) {
  variables_["COMPILECACHE_CONFIG"] = "{\"cache\": 5";
  EXPECT_EQ(run("load"), 0);
  EXPECT_NE(log_.find("COMPILECACHE_CONFIG"), std::string::npos) << log_;
}

TEST_F(Load, TheOperatorNamesTheArchive) {
  with_operator();
  const auto archive = put_archive(kFiles);
  operator_.set_head(archive.manifest, 4);
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
  EXPECT_EQ(status()["generation"], 4);
  EXPECT_EQ(status()["reported"], true);
  EXPECT_EQ(content("cd/cmodule.py"), "print(1)");
  const auto reports = operator_.calls("POST", "/v1/loaded");
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].body["outcome"], "SUCCESS");
  EXPECT_EQ(reports[0].body["match"], "exact");
  EXPECT_EQ(reports[0].body["files"], 2);
  EXPECT_EQ(reports[0].token, "the-token");
}

TEST_F(Load, CodeForThisCpuIsLoaded) {
  with_operator();
  archive_cpu_ = host_cpu();
  operator_.set_head(put_archive({{"torch/ab/kernel.so", "machine code"}}).manifest, 1);
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
  EXPECT_EQ(status()["archiveCPU"], host_cpu());
  EXPECT_EQ(operator_.calls("POST", "/v1/load")[0].body["cpu"], host_cpu());
  EXPECT_EQ(operator_.calls("POST", "/v1/loaded")[0].body["cpu"], host_cpu());
}

// Any source of the archive's name: an operator of an earlier release does not tell CPUs apart.
TEST_F(Load, CodeForAnotherCpuIsNeverLoaded) {
  with_operator();
  archive_cpu_ = host_cpu();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  config_.cpu_variables = {"ATEN_CPU_CAPABILITY=avx2"};
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "cpu_mismatch");
  EXPECT_EQ(operator_.calls("POST", "/v1/loaded")[0].body["reason"], "cpu_mismatch");
}

TEST_F(Load, WithoutTheOperatorCodeForAnotherCpuIsNotLoadedEither) {
  const auto archive = put_archive(kFiles);
  const api::ArchiveKey key{{"GPUProduct", "A100"}, {"Image", "app:1"}, {"CPU", "avx2-0"}};
  ASSERT_TRUE(store::DirectoryStore(store_).update_index(
      {archive.manifest, archive.manifest_bytes,
       index_annotations("demo-1", 1, "2026-01-01T00:00:00Z", key)}));
  ASSERT_TRUE(store::DirectoryStore(store_).note_node_product("node-1", "A100"));
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "cpu_mismatch");
}

TEST_F(Load, WhereTheApplicationsCpuIsNotKnownNoCodeIsLoaded) {
  with_operator();
  archive_cpu_ = host_cpu();
  config_.cpu_variables = {"ATEN_CPU_CAPABILITY=?"};
  operator_.set_head(put_archive(kFiles).manifest, 1);
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "cpu_mismatch");
  EXPECT_EQ(operator_.calls("POST", "/v1/load")[0].body["cpu"], "unknown");
  archive_cpu_ = api::kAnyCpu;
  operator_.set_head(put_archive(kFiles).manifest, 1);
  remove_cache();
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
}

// As 0.2 wrote it: nothing says for which CPU it is.
TEST_F(Load, AnOldArchiveIsLoadedWhereNothingInItIsCodeForCpus) {
  with_operator();
  archive_cpu_.clear();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
  EXPECT_EQ(status()["archiveCPU"], "any");
  struct stat info {};
  ASSERT_EQ(::stat((torch_ + "/cd/cmodule.py").c_str(), &info), 0);
  EXPECT_EQ(info.st_atim.tv_sec, 1) << "the look leaves no trace";
}

TEST_F(Load, AnOldArchiveWithCodeForCpusIsNotLoaded) {
  with_operator();
  archive_cpu_.clear();
  const std::map<std::string, std::string> kinds{
      {"torch/ab/kernel.so", "machine code"},
      {"torch/fxgraph/ab/KEY/file", "kernel = async_compile.cpp_pybinding([], "}};
  for (const auto& [path, text] : kinds) {
    operator_.set_head(put_archive({{path, text}, {"torch/other", "x"}}).manifest, 1);
    EXPECT_EQ(run("load"), 0);
    expect_cold("DOES_NOT_EXIST", "cpu_unknown");
    remove_cache();
  }
}

TEST_F(Load, AnOldArchiveIsNotLoadedIntoAPodThatCompilesForItsCpu) {
  with_operator();
  archive_cpu_.clear();
  config_.key_basis.gpu_resource.clear();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "cpu_unknown");
}

TEST_F(Load, OtherRanksFilesStayInTheStore) {
  with_operator();
  config_.directories[0].framework.rank_directories = {"*/rank_*"};
  const auto archive = put_archive({{"torch/AB/rank_0_0/model", "of rank 0"},
                                    {"torch/AB/rank_1_0/model", "of rank 1"},
                                    {"torch/AB/common", "of all"}});
  operator_.set_head(archive.manifest, 4);
  operator_.set_ranks({"torch/AB/rank_1_0"});
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
  EXPECT_EQ(status()["files"], 2);
  EXPECT_EQ(content("AB/rank_1_0/model"), "of rank 1");
  EXPECT_EQ(content("AB/common"), "of all");
  EXPECT_FALSE(has("AB/rank_0_0/model"));
  EXPECT_EQ(read_text(control("loaded.files")).find("rank_0_0"), std::string::npos)
      << "the effect is judged by what was loaded";
}

// One rank that finds what was tuned, and others that do not, wait for each other forever.
TEST_F(Load, APodOfAGroupDoesNotGetWhatAllRanksMustHave) {
  with_operator();
  config_.directories[0].framework.must_agree = {"tuned/**"};
  operator_.set_head(
      put_archive({{"torch/tuned/gemm", "fast"}, {"torch/fxgraph/ab/KEY/f", "entry"}}).manifest, 4);
  EXPECT_EQ(run("load"), 0);
  EXPECT_TRUE(has("tuned/gemm")) << "a pod by itself";
  remove_cache();
  fs::remove_all(control(""));
  config_.in_group = true;
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
  EXPECT_TRUE(has("fxgraph/ab/KEY/f"));
  EXPECT_FALSE(has("tuned/gemm"));
}

// vLLM's start-up plan: the first pod compiles, the second measures, the third gets that.
TEST_F(Load, WhatAColdPodMeasuredIsReplacedByWhatAWarmOneDid) {
  with_operator();
  config_.directories[0].framework.only_from_warm = {"plan/**"};
  operator_.set_head(
      put_archive({{"torch/plan/p", "3.53 GiB"}, {"torch/fxgraph/ab/KEY/f", "entry"}}).manifest, 4);
  const auto next_pod = [&] {
    remove_cache();
    fs::remove_all(control(""));
    EXPECT_EQ(run("load"), 0);
    EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
  };
  next_pod();
  EXPECT_FALSE(has("plan/p")) << "nobody noted that a warm pod saved it";
  write("plan/p", "3.53 GiB");
  write("fxgraph/cd/OTHER/f", "compiled, too");
  EXPECT_EQ(run("save", {"--once"}), 0) << log_;
  next_pod();
  EXPECT_FALSE(has("plan/p")) << "it compiled something";
  read("fxgraph/ab/KEY/f");
  write("plan/p", "6.03 GiB");
  EXPECT_EQ(run("save", {"--once"}), 0) << log_;
  const std::string said = log_;
  next_pod();
  EXPECT_EQ(content("plan/p"), "6.03 GiB") << said;
}

// A process was killed while it wrote one, and it was saved all the same.
TEST_F(Load, HalfAStreamStaysOutAndIsSavedWholeOnceItWasMadeAnew) {
  with_operator();
  config_.directories[0].framework.entry_directories.clear();
  config_.directories[0].framework.entry_files = {"*-cache"};
  config_.directories[0].framework.stream_files = {"*-cache"};
  const std::string whole = zlib_stream("an entry of JAX");
  operator_.set_head(put_archive({{"torch/jit_half-cache", whole.substr(0, whole.size() / 2)},
                                  {"torch/jit_whole-cache", whole},
                                  {"torch/notes", "of no stream"}})
                         .manifest,
                     4);
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
  EXPECT_EQ(status()["files"], 2);
  EXPECT_FALSE(has("jit_half-cache"));
  EXPECT_TRUE(has("notes"));
  struct stat info {};
  ASSERT_EQ(::stat((torch_ + "/jit_whole-cache").c_str(), &info), 0);
  EXPECT_EQ(info.st_atim.tv_sec, 1) << "our look is no read";
  write("jit_half-cache", whole);
  EXPECT_EQ(run("save", {"--once"}), 0) << log_;
  ASSERT_EQ(operator_.calls("POST", "/v1/saves/demo-1.1/commit").size(), 1u) << log_;
  remove_cache();
  fs::remove_all(control(""));
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(content("jit_half-cache"), whole);
}

TEST_F(Load, LoadedFilesLookUnreadAndAreOpenToEveryUser) {
  with_operator();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  EXPECT_EQ(run("load"), 0);
  struct stat info {};
  ASSERT_EQ(::stat((torch_ + "/cd/cmodule.py").c_str(), &info), 0);
  EXPECT_EQ(info.st_atim.tv_sec, 1);
  EXPECT_EQ(info.st_mode & 07777, 0666u);
  ASSERT_EQ(::stat((torch_ + "/cd").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0777u);
}

TEST_F(Load, TheOperatorKnowsNoArchive) {
  with_operator();
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "no_archive");
  ASSERT_EQ(operator_.calls("POST", "/v1/loaded").size(), 1u);
  EXPECT_EQ(operator_.calls("POST", "/v1/loaded")[0].body["outcome"], "DOES_NOT_EXIST");
}

TEST_F(Load, WithoutAnAnswerTheIndexDecidesForTheNodesProduct) {
  with_operator();
  operator_.script([](const Call&) { return error_response(503, "Unavailable"); });
  put_indexed("H100", "app:1", {{"torch/h100", "x"}});
  put_indexed("A100", "app:1", {{"torch/a100", "x"}});
  ASSERT_TRUE(store::DirectoryStore(store_).note_node_product("node-1", "A100"));
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
  EXPECT_EQ(status()["source"], "index");
  EXPECT_EQ(status()["reported"], false);
  EXPECT_TRUE(has("a100"));
  EXPECT_FALSE(has("h100"));
}

TEST_F(Load, ACompatibleArchiveOnlyWhereAllowed) {
  put_indexed("A100", "app:0", kFiles);
  ASSERT_TRUE(store::DirectoryStore(store_).note_node_product("node-1", "A100"));
  config_.load.fallback = api::LoadFallback::kExact;
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "no_archive");
  config_.load.fallback = api::LoadFallback::kCompatible;
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["match"], "compatible") << log_;
}

TEST_F(Load, TheIndexIsNotBelievedWhereTheSettingsSaySo) {
  put_indexed("A100", "app:1", kFiles);
  ASSERT_TRUE(store::DirectoryStore(store_).note_node_product("node-1", "A100"));
  config_.index_fallback = false;
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "operator_unreachable");
}

TEST_F(Load, AnOperatorThatCannotProveItsNameIsNotBelieved) {
  with_operator();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  config_.operator_name = "somebody-else.test.svc";
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "node_unknown");
  EXPECT_TRUE(operator_.calls("POST", "/v1/load").empty());
}

TEST_F(Load, ACorruptBlobIsAColdStartAndReported) {
  with_operator();
  const auto archive = put_archive(kFiles);
  flip_a_byte_in(archive.layers[0]);
  operator_.set_head(archive.manifest, 1);
  EXPECT_EQ(run("load"), 0);
  expect_cold("ERROR", "corrupt");
  const auto reports = operator_.calls("POST", "/v1/loaded");
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].body["corrupt_digest"], archive.layers[0]);
}

TEST_F(Load, AnArchiveOfAnotherReleaseIsNotCorrupt) {
  with_operator();
  operator_.set_head(put_unsupported(put_archive(kFiles).manifest), 1);
  EXPECT_EQ(run("load"), 0);
  expect_cold("ERROR", "unsupported");
  const auto reports = operator_.calls("POST", "/v1/loaded");
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].body.value("corrupt_digest", ""), "");
}

TEST_F(Load, AMissingBlobIsAMiss) {
  with_operator();
  const auto archive = put_archive(kFiles);
  fs::remove(store::blob_path(store_, archive.layers[0]));
  operator_.set_head(archive.manifest, 1);
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "blob_missing");
}

TEST_F(Load, AFilledDirectoryIsLeftAlone) {
  with_operator();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  write("mine", "x");
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SKIPPED");
  EXPECT_EQ(status()["reason"], "directory_filled");
  EXPECT_EQ(content("mine"), "x");
  EXPECT_FALSE(has("cd/cmodule.py"));
}

TEST_F(Load, ASecondLoaderKeepsWhatTheFirstOneLoaded) {
  with_operator();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS");
  EXPECT_EQ(operator_.calls("POST", "/v1/loaded").size(), 1u);
}

// The node's power fails: files that were not synced are there without their bytes.
TEST_F(Load, AfterAPowerFailureEverythingIsLoadedAnew) {
  with_operator();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  EXPECT_EQ(run("load"), 0);
  auto noted = status();
  noted["bootId"] = "of another start of the kernel";
  for (const std::string& text : {noted.dump(), std::string(), std::string(200, '\0')}) {
    write("cd/cmodule.py", "");
    write("fxgraph/ab/KEY/made-by-the-app", "");
    std::ofstream(control("status.json"), std::ios::trunc) << text;
    EXPECT_EQ(run("load"), 0);
    EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
    EXPECT_EQ(content("cd/cmodule.py"), "print(1)");
    EXPECT_FALSE(has("fxgraph/ab/KEY/made-by-the-app"));
  }
  fs::remove(control("status.json"));  // its name is lost too
  write("cd/cmodule.py", "");
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(content("cd/cmodule.py"), "print(1)") << log_;
}

TEST_F(Load, WhatWasThereBeforeTheFirstLoaderOutlivesARestartOfTheNode) {
  write("mine", "x");
  EXPECT_EQ(run("load"), 0);
  auto noted = status();
  ASSERT_EQ(noted["reason"], "directory_filled");
  noted["bootId"] = "of another start of the kernel";
  std::ofstream(control("status.json"), std::ios::trunc) << noted.dump();
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(content("mine"), "x") << log_;
}

TEST_F(Load, KilledAtAnyMomentItLeavesNothingForTheNextToTrip) {
  with_operator();
  std::map<std::string, std::string> many;
  for (int i = 0; i < 300; ++i)
    many["torch/" + std::to_string(i % 9) + "/f" + std::to_string(i)] = std::string(3'000, 'x');
  operator_.set_head(put_archive(many).manifest, 1);
  const char* given = std::getenv("CC_TEST_SEED");
  const unsigned seed = given == nullptr ? std::random_device{}() : std::atoi(given);
  std::mt19937 random(seed);
  std::cout << "CC_TEST_SEED=" << seed << "\n";
  int whole = 0;
  for (int i = 0; i < 25; ++i) {
    SCOPED_TRACE("load " + std::to_string(i));
    AgentProcess loader = start("load");
    // On a slow disk none of the others may come to its end.
    if (i == 0) {
      EXPECT_EQ(loader.wait(), 0);
    } else {
      ::usleep(random() % 120'000);
      loader.kill_all();
    }
    EXPECT_EQ(run("load"), 0);
    const size_t files = static_cast<size_t>(
        std::count_if(fs::recursive_directory_iterator(torch_), fs::recursive_directory_iterator(),
                      [](const auto& entry) { return entry.is_regular_file(); }));
    if (status()["outcome"] == "SUCCESS") {
      EXPECT_EQ(files, many.size()) << log_;
      for (const auto& [path, text] : many) EXPECT_EQ(content(path.substr(6)), text);
      ++whole;
    } else {
      EXPECT_EQ(status()["reason"], "loader_killed") << log_;
      EXPECT_EQ(files, 0U);
    }
    EXPECT_FALSE(fs::exists(control("loading")));
    remove_cache();
  }
  EXPECT_GT(whole, 0);
}

TEST_F(Load, WhatAKilledLoaderLeftIsThrownAway) {
  with_operator();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  write("cd/half", "ha");
  fs::create_directories(config_.control_path);
  std::ofstream(control("loading")).close();
  EXPECT_EQ(run("load"), 0);
  expect_cold("ERROR", "loader_killed");
  EXPECT_FALSE(fs::exists(control("loading")));
}

TEST_F(Load, WaitsForTheFirstPodWhereTheOperatorSaysSo) {
  with_operator();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  config_.load.wait_for_first = std::chrono::milliseconds(10'000);
  std::atomic<int> waits{2};
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/load" || waits-- <= 0) return {};
    return json_response({{"decision", "wait"}, {"retry_after_ms", 50}});
  });
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
  const auto asked = operator_.calls("POST", "/v1/load");
  ASSERT_EQ(asked.size(), 4u);  // the last one is the report
  EXPECT_EQ(asked[0].body["waited_ms"], 0);
  EXPECT_GE(asked[1].body["waited_ms"], 50);
  EXPECT_GE(asked[2].body["waited_ms"], 100);
}

TEST_F(Load, AnArchiveThatTakesTooLongIsGivenUp) {
  with_operator();
  std::map<std::string, std::string> many;
  for (int i = 0; i < 3000; ++i) many["torch/" + std::to_string(i)] = std::to_string(i);
  operator_.set_head(put_archive(many).manifest, 1);
  config_.load.timeout = std::chrono::milliseconds(1);
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "ERROR") << log_;
  EXPECT_THAT(status()["reason"], ::testing::AnyOf("timeout", "too_slow"));
  EXPECT_TRUE(fs::is_empty(torch_));
}

TEST_F(Load, AnArchiveOverHalfOfThePodsStorageIsNotLoaded) {
  with_operator();
  operator_.set_head(put_archive({{"torch/big", std::string(600, 'x')}}).manifest, 1);
  config_.ephemeral_limit_bytes = 1000;
  EXPECT_EQ(run("load"), 0);
  expect_cold("ERROR", "too_large");
  config_.ephemeral_limit_bytes = 2000;
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
}

TEST_F(Load, SigtermEndsALoadWithSuccess) {
  with_operator();
  config_.load.wait_for_first = std::chrono::milliseconds(600'000);
  operator_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/load") return {};
    return json_response({{"decision", "wait"}, {"retry_after_ms", 600'000}});
  });
  AgentProcess process = start("load");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/load", 1));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
  EXPECT_TRUE(fs::is_empty(torch_));
  EXPECT_TRUE(status().contains("outcome")) << "it has noticed it: " << process.log();
}

TEST_F(Load, ModeRefreshLoadsNothing) {
  with_operator();
  operator_.set_head(put_archive(kFiles).manifest, 1);
  config_.mode = api::Mode::kRefresh;
  EXPECT_EQ(run("load"), 0);
  expect_cold("SKIPPED", "refresh");
}

TEST_F(Load, AVolumeThatIsNotThereIsAColdStart) {
  with_operator();
  operator_.set_head("sha256:" + std::string(64, 'a'), 1);
  config_.store_mount = root_ + "/not-mounted";
  EXPECT_EQ(run("load"), 0);
  expect_cold("DOES_NOT_EXIST", "store_missing");
}

}  // namespace
}  // namespace compilecache::agent::testing
