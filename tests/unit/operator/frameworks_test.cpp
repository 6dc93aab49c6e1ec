#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "api/agent_config.hpp"
#include "frameworks/effect.hpp"
#include "operator/settings/settings.hpp"
#include "tests/support/paths.hpp"
#include "tests/unit/frameworks/directory.hpp"
#include "tests/unit/webhook/golden_case.hpp"

// The frameworks of config/settings.yaml, tried on what real frameworks have written.

namespace compilecache::controller {
namespace {

using frameworks::Framework;
using frameworks::Rules;
using ::testing::IsEmpty;

const std::map<std::string, Framework>& shipped() {
  static const auto kSettings = load_settings(testing::in_tree("config/settings.yaml")).value();
  return kSettings.frameworks;
}

// The paths of a real cache relative to its folder; folders end in '/'.
std::vector<std::string> real_cache(const std::string& name) {
  const std::string command =
      "zstd -dcq --long=27 " + testing::testdata("caches/") + name + ".tar.zst | tar -t";
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
  std::ifstream file(testing::in_tree("tests/gpu/framework.json"));
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
    ours.start_kit.clear();
    ours.part_of.clear();
    ours.cpu_variables.clear();
    EXPECT_EQ(directory.framework, ours) << directory.framework.name;
  }
}

// The save of a cold pod with that cache, some time after it was written.
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

// The files of these that a pod that compiled nothing would pack; they are all there has been for
// a while.
std::vector<std::string> packed(const std::string& framework,
                                const std::vector<std::string>& files) {
  frameworks::Directory directory;
  for (const std::string& file : files) directory.add(file, 5);
  frameworks::SaveKnowledge known;
  known.is_warm = [] { return true; };
  const auto plan =
      frameworks::plan_save(Rules(shipped().at(framework)), directory.scan, known,
                            frameworks::at(100), [](const frameworks::FileInfo&) { return true; });
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
  // It grows with each start that builds something.
  EXPECT_THAT(packed("flashinfer", {".cache/flashinfer/0.7.2/90a/flashinfer_jit.log"}), IsEmpty());
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

TEST(ShippedFrameworks, AreThoseOfTheReference) {
  std::stringstream page;
  page << std::ifstream(testing::in_tree("docs/reference/settings.md")).rdbuf();
  EXPECT_EQ(shipped().size(), 24U);
  for (const auto& [name, framework] : shipped()) {
    EXPECT_THAT(page.str(), ::testing::HasSubstr("\n| `" + name + "` | "));
  }
}

// The start kit's files are in the framework's directory, and are packed.
TEST(ShippedFrameworks, WhatTheStartKitBringsIsCarried) {
  size_t variables = 0;
  for (const auto& [name, framework] : shipped()) {
    variables += framework.start_kit.size();
    for (const auto& [variable, kit] : framework.start_kit) {
      EXPECT_FALSE(framework.env.contains(variable)) << variable << " is on already";
    }
  }
  EXPECT_GT(variables, 5U);
  const std::vector<std::pair<std::string, std::string>> rows{
      {"vllm", "startup_plan/startup_plan_0.json"},
      {"vllm", "flashinfer_autotune/v2/0/entries/1.json"},
      {"triton", "KEY/matmul.autotune.json"},
      {"sglang", "triton/KEY/matmul.autotune.json"},
      {"sglang", "flash_attention/fingerprint/fwd/0.o"},
      {"jax", "jit_f-0123abcd-cache"}};
  for (const auto& [framework, file] : rows) {
    EXPECT_EQ(packed(framework, {file}), std::vector<std::string>{file}) << framework;
  }
}

// The comment above each framework of the settings.
std::map<std::string, std::string> comments() {
  std::ifstream file(testing::in_tree("config/settings.yaml"));
  std::map<std::string, std::string> found;
  std::string line, above;
  while (std::getline(file, line) && line != "frameworks:") {
  }
  while (std::getline(file, line) && line.starts_with("  ")) {
    if (line.starts_with("  #")) {
      above += line.substr(3);
    } else {
      if (line[2] != ' ') found[line.substr(2, line.size() - 3)] = above;
      above.clear();
    }
  }
  return found;
}

// The frameworks that tests/engines runs.
std::set<std::string> run_frameworks() {
  std::set<std::string> names;
  for (const auto& folder :
       std::filesystem::directory_iterator(testing::in_tree("tests/engines"))) {
    std::ifstream file(folder.path() / "engine.json");
    if (!file) continue;
    const auto told = nlohmann::json::parse(file);
    for (const auto& name : told.at("frameworks")) names.insert(name);
  }
  return names;
}

// Nothing is there because somebody has read it in a source, unless it says so.
TEST(ShippedFrameworks, EachSaysWhetherItWasRunOrOnlyRead) {
  const auto above = comments();
  const auto run = run_frameworks();
  for (const auto& [name, framework] : shipped()) {
    if (name == "portable") continue;  // no framework's
    ASSERT_TRUE(above.contains(name)) << name;
    const std::string& comment = above.at(name);
    EXPECT_EQ(comment.find("Run: ") != std::string::npos, run.contains(name)) << name;
    if (!run.contains(name)) {
      EXPECT_THAT(comment, ::testing::ContainsRegex("Read.*not run\\.")) << name;
    }
  }
}

TEST(ShippedFrameworks, EachSaysWhereItsDirectoryIsAndHowAUserMayChooseIt) {
  std::map<std::string, std::string> owners;
  // Their variables hold more than a folder, so that a value of a user's own says nothing of it.
  const std::set<std::string> ours_always{"gaudi", "tensorrt-llm"};
  for (const auto& [name, framework] : shipped()) {
    EXPECT_EQ(framework.directory_variable.empty(), ours_always.contains(name)) << name;
    if (!framework.directory_variable.empty()) {
      EXPECT_EQ(framework.env.at(framework.directory_variable), "{directory}") << name;
    }
    for (const auto& [variable, value] : framework.env) {
      // With both the one that is named first in spec.frameworks counts.
      if (name == "vllm" && variable == "TRITON_CACHE_DIR") continue;
      EXPECT_TRUE(owners.emplace(variable, name).second) << variable << " is also " << name << "'s";
    }
  }
}

// Files of a framework as its release writes them, of which these are packed.
struct Packing {
  const char* framework;
  std::vector<std::string> packed, left;
};

TEST(ShippedFrameworks, WhatOthersMayUseIsPackedAndNothingElse) {
  const std::string ops = ".cache/flashinfer/0.7.2/90a/cached_ops/";
  const std::string jit = "jit/sm90/rope/build-0123456789abcdef/";
  const std::vector<Packing> rows{
      {"jax",
       {"jit_f-0123abcd-cache", "jit_f-0123abcd-atime", "xla_gpu_per_fusion_autotune_cache_dir/AB"},
       {".lockfile", "xla_gpu_per_fusion_autotune_cache_dir/tmp/tmp_1"}},
      {"torch-extensions",
       {"ext/ext.so", "ext/main.o", "ext/build.ninja", "ext/.ninja_log", "ext/.ninja_deps"},
       {"ext/lock"}},
      {"aiter",
       {"module_norm.so"},
       {"build/lock_module_norm", "build/module_norm/build/lock", "build/ck/a.hpp"}},
      {"comgr", {"llvmcache-0123"}, {"llvmcache.timestamp", "Comgr-0a1b2c.tmp.o"}},
      {"minfer", {"variant/variant.so"}, {"variant/lock"}},
      {"flash-attention",
       {"fingerprint/fwd/0123.o"},
       {"fingerprint/fwd/0123.lock", "fingerprint/fwd/.0123.17.tmp.o"}},
      {"flashinfer",
       {ops + "sampling/sampling.so", ops + "sampling/build.ninja", ops + "gemm_cute_dsl/k.o",
        ".cache/flashinfer/cubins/a.h", ".cache/flashinfer/autotune/v2/env/op/0.json"},
       {ops + "gemm_cute_dsl/k.o.tmp.17", ops + "tmp/sampling.lock",
        ".cache/flashinfer/cubins/a.h.lock", ".cache/flashinfer/cubins/a.h.0123.tmp"}},
      {"sglang",
       {jit + "deps-0123/rope.so", jit + "deps-0123/sgl_deps.json", "cute_aot/f/0.o",
        "triton/KEY/__grp__k.json", "deep_gemm/cache/kernel.k/kernel.cubin",
        "flashinfer/autotune/0.7.2/sm90/k/rank_tp0_pp0_dp0.json"},
       {jit + ".staging-0123/rope.so", "cute_aot/f/.0.tmp.o", "cute_aot/f/0.lock",
        "triton/HALF/k.ttir", "nv/ComputeCache/index",
        "tilelang/0.1.15/linux-x86_64/.staging/K_1_2/kernel_lib.so", "deep_gemm/tmp/x.cubin"}},
      {"tilelang",
       {"0.1.15/linux-x86_64/kernels/K/kernel_lib.so"},
       {"0.1.15/linux-x86_64/.staging/K_1_2/kernel_lib.so"}},
      {"vllm",
       {"deep_gemm/cache/kernel.k/kernel.cubin", "startup_plan/startup_plan_0.json",
        "flashinfer_autotune_cache/0.7.2/90a/h/autotune_configs.json",
        "rocm_segmented_attention/0.json", "neuron/compile_cache/0123/graph_0123.neff"},
       {"deep_gemm/cache/kernel.half/kernel.cu", "rocm_segmented_attention/0.json.lock",
        "flashinfer_autotune_cache/0.7.2/90a/h/.autotune_configs.json.x.tmp"}},
      {"torch",
       {"dynamo/KEY/entry", "dynamo/code_state_job_None_.pkl"},
       {"dynamo/code_state_job_None_.pkl.lock"}},
      {"deepgemm", {"cache/kernel.k/kernel.cubin"}, {"cache/kernel.half/kernel.cu", "tmp/x.cubin"}},
      {"tvm-ffi", {"ext_0123/ext.so", "ext_0123/build.ninja"}, {"ext_0123/ext.lock", "lock"}},
      {"cute-dsl", {"kernel.mlir"}, {"kernel.lock", "kernel.tmp"}},
      {"cuda", {"1/f/0123", "index"}, {"index.lock"}},
      {"miopen",
       {"2.20/gfx942.ukdb", "db/gfx942.ufdb.txt"},
       {"2.20/gfx942.ukdb-journal", "2.20/gfx942.ukdb-wal", "db/gfx942.ufdb.txt.temp"}},
      {"gaudi", {"recipe"}, {}},
      {"tensorrt-llm", {"autotuner.json"}, {}},
      {"tpu", {"xla", "torch_tpu/entry"}, {}}};
  for (const Packing& row : rows) {
    std::vector<std::string> all = row.packed;
    all.insert(all.end(), row.left.begin(), row.left.end());
    EXPECT_EQ(packed(row.framework, all), row.packed) << row.framework;
  }
}

// The state of a pod with these files, which got and has read the first.
frameworks::Evidence warm(const std::string& framework, const std::string& read,
                          const std::vector<std::string>& made) {
  frameworks::Directory directory;
  directory.load(read);
  directory.read(read, 3);
  for (const std::string& file : made) directory.add(file, 5);
  const Rules rules(shipped().at(framework));
  frameworks::EffectJudge judge;
  judge.add(rules, directory.scan, &directory.loaded);
  return judge.result();
}

TEST(ShippedFrameworks, EntriesAreWhatStandsForAKey) {
  const std::string rank = "torch_compile_cache/0123456789/rank_0_0/backbone/";
  const std::string tiles = "0.1.15/linux-x86_64/";
  const std::vector<std::array<std::string, 3>> rows{
      {"jax", "jit_f-01-cache", "jit_g-02-cache"},
      {"triton", "KEY/add.autotune.json", "OTHER/__grp__add.json"},
      {"torch", "dynamo/KEY/entry", "dynamo/OTHER/entry"},
      {"torch-extensions", "one/one.so", "two/two.so"},
      {"aiter", "module_norm.so", "module_moe.so"},
      {"comgr", "llvmcache-01", "llvmcache-02"},
      {"minfer", "one/one.so", "two/two.so"},
      {"flash-attention", "f/fwd/01.o", "f/fwd/02.o"},
      {"flashinfer", ".cache/flashinfer/autotune/v2/e/o/0.json",
       ".cache/flashinfer/autotune/v2/e/o/1.json"},
      {"tilelang", tiles + "kernels/K/kernel_lib.so", tiles + "kernels/L/kernel_lib.so"},
      {"tilelang", tiles + "autotuner/K/best_config.json", tiles + "autotuner/L/best_config.json"},
      {"sglang", "tilelang/" + tiles + "kernels/K/params.json",
       "tilelang/" + tiles + "kernels/L/params.json"},
      {"sglang", "jit/sm90/rope/build-01/deps-01/rope.so",
       "jit/sm90/rope/build-02/deps-01/rope.so"},
      {"sglang", rank + "inductor_cache/fxgraph/ab/K/f", rank + "inductor_cache/fxgraph/ab/L/f"},
      {"vllm", rank + "artifact_0/fxgraph/ab/K/f", rank + "artifact_1/fxgraph/ab/K/f"},
      {"vllm", "deep_gemm/cache/kernel.k/kernel.cubin", "deep_gemm/cache/kernel.l/kernel.cubin"},
      {"vllm", "neuron/compile_cache/01/graph_01.neff", "neuron/compile_cache/02/graph_02.neff"},
      {"sglang", "flash_attention/f/fwd/01.o", "flash_attention/f/fwd/02.o"},
      {"gaudi", "one.recipe", "two.recipe"}};
  for (const auto& [framework, read, made] : rows) {
    EXPECT_EQ(warm(framework, read, {}).effect, frameworks::Effect::kFull) << framework << read;
    EXPECT_EQ(warm(framework, read, {made}).effect, frameworks::Effect::kPartial)
        << framework << made;
  }
}

// As vLLM 0.26 does with PyTorch 2.11: entries are written again out of its artifact, under the
// same names. A new compilation has another name, or is the model itself.
TEST(ShippedFrameworks, EntriesThatAreWrittenAgainOutOfOthersAreNoNewWork) {
  const std::string root = "torch_compile_cache/torch_aot_compile/AB/";
  const std::string model = root + "rank_0_0/model";
  const std::string graph =
      root +
      "inductor_cache/fxgraph/qo/fqo4m6d3kcj73r4mmp6jhuxeoikzzedusfqtc6zoli4qn"
      "wjsqfve/r3rjzvt7ea6irbbhzh2y76c3sslwo6bgun3sclsxzpvmjhrbema";
  const std::string old_entry = root + "inductor_cache/aotautograd/KEY/entry";
  for (const auto& [again, effect] :
       std::map<std::string, frameworks::Effect>{{graph, frameworks::Effect::kFull},
                                                 {old_entry, frameworks::Effect::kPartial},
                                                 {model, frameworks::Effect::kPartial}}) {
    frameworks::Directory directory;
    for (const std::string& file : {model, graph, old_entry}) directory.load(file);
    for (const std::string& file : {model, old_entry}) directory.read(file, 3);
    auto& file = directory.find(again);
    file.modified = file.changed = frameworks::at(5);
    const Rules rules(shipped().at("vllm"));
    frameworks::EffectJudge judge;
    judge.add(rules, directory.scan, &directory.loaded);
    EXPECT_EQ(judge.result().effect, effect) << again;
  }
}

// Its name has the time at which the model was compiled.
TEST(ShippedFrameworks, SGLangsStartIsWarmAndNothingToSave) {
  const std::string rank = "torch_compile_cache/0123456789/rank_0_0/backbone/";
  const std::string graph = rank + "computation_graph_1763900000.5.py";
  EXPECT_EQ(warm("sglang", rank + "inductor_cache/fxgraph/ab/K/f", {graph}).effect,
            frameworks::Effect::kFull);
  EXPECT_THAT(packed("sglang", {graph}), IsEmpty());
}

TEST(ShippedFrameworks, TheGoldenCasesOfTheInjectionUseTheShippedTraps) {
  const auto settings = load_settings(testing::in_tree("config/settings.yaml"));
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
