#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/agent_config.hpp"
#include "frameworks/effect.hpp"
#include "operator/settings/settings.hpp"
#include "tests/paths.hpp"
#include "tests/unit/frameworks/directory.hpp"
#include "tests/unit/webhook/golden_case.hpp"

// The frameworks of config/settings.yaml, tried on what real frameworks have written.

namespace compilecache::controller {
namespace {

using frameworks::Framework;
using frameworks::Rules;
using ::testing::IsEmpty;

const std::map<std::string, Framework>& shipped() {
  static const auto kSettings =
      load_settings(std::string(CC_TESTDATA) + "/../../config/settings.yaml").value();
  return kSettings.frameworks;
}

// The paths of a real cache relative to its folder; folders end in '/'.
std::vector<std::string> real_cache(const std::string& name) {
  const std::string command =
      "zstd -dcq --long=27 " CC_TESTDATA "/caches/" + name + ".tar.zst | tar -t";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    text.append(buffer.data(), got);
  }
  std::vector<std::string> paths;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string path = text.substr(at, end - at);
    const size_t slash = path.find('/');
    if (slash + 1 < path.size()) paths.push_back(path.substr(slash + 1));
    at = end + 1;
  }
  return paths;
}

// tests/gpu runs where there is no operator to ask.
TEST(Shipped, FrameworksOfTheGpuTestAreTheSame) {
  std::ifstream file(CC_TESTDATA "/../gpu/framework.json");
  const auto copies = nlohmann::json::parse(file);
  api::AgentConfig config;
  auto described = nlohmann::json::parse(api::dump(config));
  for (const auto& copy : copies)
    described["directories"].push_back({{"path", "/"}, {"framework", copy}});
  const auto parsed = api::parse_agent_config(described.dump());
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->directories.size(), 2u);
  for (const auto& directory : parsed->directories) {
    Framework ours = shipped().at(directory.framework.name);
    // These do not travel to agents.
    ours.redis_env.clear();
    ours.cold_env.clear();
    ours.part_of.clear();
    EXPECT_EQ(directory.framework, ours) << directory.framework.name;
  }
}

// What a cold pod with that cache would save, some time after it was written.
struct Judged {
  frameworks::Directory directory;
  frameworks::SavePlan plan;
  size_t files = 0, entries = 0;
};
std::unique_ptr<Judged> judge(const std::string& framework, const std::string& cache) {
  auto judged = std::make_unique<Judged>();
  const Rules rules(shipped().at(framework));
  for (std::string path : real_cache(cache)) {
    if (path.ends_with('/')) {
      path.pop_back();
      judged->directory.folder(path, 5);
      continue;
    }
    judged->directory.add(path, 5);
    ++judged->files;
    if (rules.entry_file(path) != Rules::EntryFile::kNone || rules.entry_directory(path))
      ++judged->entries;
  }
  judged->plan = frameworks::plan_save(rules, judged->directory.scan, {}, frameworks::at(100),
                                       [](const frameworks::FileInfo&) { return true; });
  return judged;
}

// cache_key_factors.json holds raw values of the environment, VLLM_API_KEY in several releases.
void expect_all_but_factors_packed(const Judged& judged, size_t expected_factors) {
  size_t factors = 0;
  for (const auto& file : judged.directory.scan) {
    if (file.path.ends_with("/cache_key_factors.json")) ++factors;
  }
  EXPECT_EQ(factors, expected_factors);
  EXPECT_EQ(judged.plan.never_packed, factors);
  EXPECT_EQ(judged.plan.pack.size(), judged.files - factors);
  for (const auto* file : judged.plan.pack) {
    EXPECT_FALSE(file->path.ends_with("cache_key_factors.json")) << file->path;
  }
  EXPECT_THAT(judged.plan.busy, IsEmpty());
}

// What would be packed of these files, which are all there has been for a while.
std::vector<std::string> packed(const std::string& framework,
                                const std::vector<std::string>& files) {
  frameworks::Directory directory;
  for (const std::string& file : files) directory.add(file, 5);
  const auto plan =
      frameworks::plan_save(Rules(shipped().at(framework)), directory.scan, {}, frameworks::at(100),
                            [](const frameworks::FileInfo&) { return true; });
  std::vector<std::string> paths;
  for (const auto* file : plan.pack) paths.push_back(file->path);
  return paths;
}

// What @triton.autotune found lies alone in its folder, where no kernel will ever be.
TEST(ShippedFrameworks, ResultsOfAutotuningArePacked) {
  const std::string model = "torch_compile_cache/torch_aot_compile/AB/";
  const std::vector<std::pair<std::string, std::string>> rows{
      {"triton", "KEY/matmul.autotune.json"},
      {"torch", "triton/0/KEY/matmul.autotune.json"},
      {"vllm", "triton_cache/KEY/matmul.autotune.json"},
      {"vllm", model + "inductor_cache/triton/0/KEY/matmul.autotune.json"}};
  for (const auto& [framework, file] : rows) {
    EXPECT_EQ(packed(framework, {file}), std::vector<std::string>{file}) << framework;
    const std::string kernel = file.substr(0, file.rfind('/') + 1) + "matmul.ttir";
    EXPECT_THAT(packed(framework, {kernel}), IsEmpty()) << "half a kernel";
  }
}

TEST(ShippedFrameworks, WhatEnginesLeaveBehindIsNotPacked) {
  const std::string rank = "torch_compile_cache/torch_aot_compile/AB/rank_0_0/";
  EXPECT_EQ(packed("vllm", {rank + "model", rank + "tmpabcdefgh", rank + "model.123.tmp",
                            "modelinfos/tmpabcdefgh", "modelinfos/Qwen3.json",
                            "gpu_p2p_access_cache_for_0,1.json", "deep_gemm/tmp/x"}),
            (std::vector<std::string>{rank + "model", "modelinfos/Qwen3.json"}));
  EXPECT_EQ(packed("sglang", {"jit/a.so", "ple/table", "model_streamer/x", "a/.staging-1/x.so",
                              "gpu_p2p_access_cache_for_0.json", "x/computation_graph_17.py"}),
            std::vector<std::string>{"jit/a.so"});
  EXPECT_EQ(packed("tilelang", {"KEY/kernel.so", ".staging/KEY/kernel.so"}),
            std::vector<std::string>{"KEY/kernel.so"});
}

// As vLLM 0.32 writes them on CPU: between a note on the model and the first graph lie 13 s of
// imports.
TEST(ShippedFrameworks, VllmsNotesOnAModelAreNotTheBeginningOfACompile) {
  const std::string root = "torch_compile_cache/", aot = root + "torch_aot_compile/AB/";
  frameworks::Directory directory;
  directory.add("modelinfos/Qwen3.json", 5);
  directory.add(root + "0123456789/rank_0_0/backbone/computation_graph.py", 18);
  directory.add(aot + "inductor_cache/ab/kernel.main.cpp", 22);
  directory.add(aot + "inductor_cache/ab/kernel.main.so", 27);
  directory.add(aot + "inductor_cache/aotautograd/KEY/entry", 33);
  directory.add(aot + "rank_0_0/model", 35);
  directory.add("startup_plan/startup_plan_ab.json", 70);
  const Rules rules(shipped().at("vllm"));
  frameworks::EffectJudge judge;
  judge.add(rules, directory.scan, nullptr);
  EXPECT_DOUBLE_EQ(judge.result().compile_seconds(), 35 - 18);
}

// TORCHINDUCTOR_FORCE_DISABLE_CACHES alone ends vLLM, whichever framework brings it.
TEST(ShippedFrameworks, ColdIsSaidToVllmTooWhereInductorsCachesAreOff) {
  for (const auto& [name, framework] : shipped()) {
    EXPECT_EQ(framework.cold_env.contains("TORCHINDUCTOR_FORCE_DISABLE_CACHES"),
              framework.cold_env.contains("VLLM_DISABLE_COMPILE_CACHE"))
        << name;
  }
  EXPECT_TRUE(shipped().at("torch").cold_env.contains("TORCHINDUCTOR_FORCE_DISABLE_CACHES"));
  EXPECT_TRUE(shipped().at("vllm").cold_env.contains("VLLM_DISABLE_COMPILE_CACHE"));
}

TEST(ShippedFrameworks, AreThoseThatTheReadmeNames) {
  std::ifstream file(std::string(CC_TESTDATA) + "/../../README.md");
  std::string row;
  while (std::getline(file, row) && !row.starts_with("| `frameworks` |")) {
  }
  EXPECT_EQ(shipped().size(), 13U);
  for (const auto& [name, framework] : shipped()) {
    EXPECT_THAT(row, ::testing::HasSubstr("`" + name + "`"));
  }
}

TEST(ShippedFrameworks, EachSaysWhereItsDirectoryIsAndHowAUserMayChooseIt) {
  std::map<std::string, std::string> owners;
  for (const auto& [name, framework] : shipped()) {
    EXPECT_EQ(framework.env.at(framework.directory_variable), "{directory}") << name;
    for (const auto& [variable, value] : framework.env) {
      // With both the one that is named first in spec.frameworks counts.
      if (name == "vllm" && variable == "TRITON_CACHE_DIR") continue;
      EXPECT_TRUE(owners.emplace(variable, name).second) << variable << " is also " << name << "'s";
    }
  }
}

TEST(ShippedFrameworks, TheGoldenCasesOfTheInjectionUseTheShippedTraps) {
  const auto settings = load_settings(std::string(CC_TESTDATA) + "/../../config/settings.yaml");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(webhook::testing::load_golden_case("deployment").settings.traps, settings->traps);
}

TEST(ShippedFrameworks, ANeuronEntryIsWholeWhenItsMarkIsThere) {
  frameworks::Directory directory;
  const std::string version = "neuronxcc-2.16.345.0+69131dd3/";
  directory.add(version + "MODULE_1+2/model.neff", 5);
  directory.add(version + "MODULE_1+2/model.done", 5);
  directory.add(version + "MODULE_1+2/model.hlo_module.pb.lock", 5);
  directory.add(version + "MODULE_3+2/model.neff", 5);
  const auto plan =
      frameworks::plan_save(Rules(shipped().at("neuron")), directory.scan, {}, frameworks::at(6),
                            [](const frameworks::FileInfo&) { return true; });
  EXPECT_EQ(plan.pack.size(), 2U);
  EXPECT_EQ(plan.never_packed, 1U);
  EXPECT_THAT(plan.busy, ::testing::ElementsAre(version + "MODULE_3+2"));
}

TEST(ShippedFrameworks, OnlyTheDriversCacheIsBoundToTheDriver) {
  for (const auto& [name, framework] : shipped()) {
    const std::vector<std::string> expected =
        name == "cuda" ? std::vector<std::string>{"DriverVersion"} : std::vector<std::string>{};
    EXPECT_EQ(framework.key_parts, expected) << name;
  }
}

TEST(ShippedFrameworks, VllmsBinaryCacheIsPackedWholeWithAnEntryForEachSubgraph) {
  const auto judged = judge("vllm", "vllm-binary-llama-t4");
  expect_all_but_factors_packed(*judged, 1);
  EXPECT_EQ(judged->entries, 17U);
}

TEST(ShippedFrameworks, VllmsCacheOfInductorAndTritonIsPackedWhole) {
  const auto judged = judge("vllm", "vllm-triton-rocm");
  expect_all_but_factors_packed(*judged, 0);
  // Entries of Inductor's two kinds, and Triton's kernels.
  const Rules rules(shipped().at("vllm"));
  const std::string root = "torch_compile_cache/d4ec7c2a7d/rank_0_0/";
  EXPECT_TRUE(rules.entry_directory(root + "inductor_cache/fxgraph/eo/KEY/file"));
  EXPECT_TRUE(rules.entry_directory(root + "inductor_cache/aotautograd/KEY/entry"));
  EXPECT_EQ(rules.entry_file(root + "triton_cache/KEY/__grp__kernel.json"),
            Rules::EntryFile::kDerived);
  EXPECT_EQ(rules.entry_file(root + "computation_graph.py"), Rules::EntryFile::kNone);
  EXPECT_GT(judged->entries, 30U);
}

TEST(ShippedFrameworks, AHalfWrittenKernelOfVllmIsWaitedFor) {
  frameworks::Directory directory;
  const std::string kernel = "torch_compile_cache/d4ec7c2a7d/rank_0_0/triton_cache/KEY";
  directory.folder(kernel, 5);
  directory.add(kernel + "/kernel.ttir", 5);
  const auto plan =
      frameworks::plan_save(Rules(shipped().at("vllm")), directory.scan, {}, frameworks::at(6),
                            [](const frameworks::FileInfo&) { return true; });
  EXPECT_THAT(plan.pack, IsEmpty());
  EXPECT_THAT(plan.busy, ::testing::ElementsAre(kernel));
}

TEST(ShippedFrameworks, InductorsCacheIsPackedWithoutItsLocks) {
  const auto judged = judge("torch", "inductor-cpu-torch2.14");
  EXPECT_GT(judged->plan.never_packed, 0U);
  EXPECT_THAT(judged->plan.busy, IsEmpty());
  EXPECT_GT(judged->entries, 0U);
  // Compilers that failed, trying instruction sets that this processor lacks, left their source and
  // an empty build folder each.
  EXPECT_EQ(judged->plan.left_over.size(), 4U);
  EXPECT_EQ(judged->plan.pack.size() + judged->plan.never_packed + 4, judged->files);
}

}  // namespace
}  // namespace compilecache::controller
