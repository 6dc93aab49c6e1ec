#include "frameworks/effect.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/frameworks/directory.hpp"

// The cases are those that were run with torch 2.6 and 2.14 on CPU; what each creates and reads was
// seen there.

namespace compilecache::frameworks {
namespace {

constexpr char kFx[] = "fxgraph/hw/fhwqm6/uh3fgg";
constexpr char kAot[] = "aotautograd/a4ag5k/ftwaqu";
constexpr char kModule[] = "jr/cjrlb6.py";
constexpr char kKernel[] = "2g/c2gdue.main.so";
constexpr char kSource[] = "2g/c2gdue.main.cpp";
constexpr char kProbe[] = "ar/cars25.cpp";

// The files of a cold run of the small transformer, as loaded into a new pod.
Directory restored() {
  Directory directory;
  for (const char* path : {kFx, kAot, kModule, kKernel, kSource, kProbe}) directory.load(path);
  return directory;
}

void hit(Directory& directory) {
  for (const char* path : {kFx, kAot, kModule, kKernel, kProbe}) directory.read(path, 5);
}

Evidence judge(const Directory& directory) {
  const Rules rules(torch());
  EffectJudge judge;
  judge.add(rules, directory.scan, &directory.loaded);
  return judge.result();
}

struct EffectCase {
  const char* what;
  std::function<void(Directory&)> run;
  Effect effect;
  uint64_t read, made;
};

TEST(Effect, AsTorchDoesIt) {
  const EffectCase cases[] = {
      {"2, 3: the same again, restored",
       [](Directory& d) {
         hit(d);
         d.add("locks/c2gdue.lock", 5);
       },
       Effect::kFull, 2, 0},
      {"4: restored without locks",
       [](Directory& d) {
         hit(d);
         d.folder("locks", 4);
         for (const char* lock : {"locks/a.lock", "locks/b.lock"}) d.add(lock, 4);
       },
       Effect::kFull, 2, 0},
      {"5: an old shape and a new one",
       [](Directory& d) {
         hit(d);
         for (const char* path : {"xx/cnew.main.cpp", "xx/cnew.main.so", "xx/cnew.py"}) {
           d.add(path, 7);
         }
         d.add("fxgraph/yy/fnew/file", 8);
         d.add("aotautograd/anew/file", 8);
       },
       Effect::kPartial, 2, 2},
      {"6 on 2.6: max_fusion_size makes one fxgraph file and reads no entry",
       [](Directory& d) {
         d.read(kModule, 5);
         d.read(kKernel, 5);
         d.add("fxgraph/yy/fother/file", 6);
       },
       Effect::kNone, 0, 1},
      {"6 on 2.14: and one aotautograd file",
       [](Directory& d) {
         d.read(kKernel, 5);
         d.add("fxgraph/yy/fother/file", 6);
         d.add("aotautograd/aother/file", 6);
       },
       Effect::kNone, 0, 2},
      {"8: freezing on 2.14 makes one fxgraph file and a module",
       [](Directory& d) {
         d.add("fxgraph/yy/ffrozen/file", 6);
         d.add("zz/cfrozen.py", 6);
       },
       Effect::kNone, 0, 1},
      {"9: dynamic shapes, all new",
       [](Directory& d) {
         d.add("fxgraph/yy/fdyn/file", 6);
         d.add("aotautograd/adyn/file", 6);
         d.add("zz/cdyn.py", 6);
       },
       Effect::kNone, 0, 2},
      {"10, 11, 15, 16: other paths, users, threads, CPU flags: hits", [](Directory& d) { hit(d); },
       Effect::kFull, 2, 0},
      {"12: another user, only locks are new",
       [](Directory& d) {
         hit(d);
         d.add("locks/c2gdue.lock", 5);
       },
       Effect::kFull, 2, 0},
      {"13: two processes, warm", [](Directory& d) { hit(d), hit(d); }, Effect::kFull, 2, 0},
      {"17: profile-guided state is no entry",
       [](Directory& d) {
         hit(d);
         d.add("dynamo/code_state_job_None_.pkl", 6);
         d.add("dynamo/code_state_job_None_.pkl.lock", 6);
       },
       Effect::kFull, 2, 0},
      {"18: caches forced off fill a temporary folder",
       [](Directory& d) {
         d.folder("tmpabcdefgh", 5);
         d.add("tmpabcdefgh/fxgraph/yy/fother/file", 6);
       },
       Effect::kUnused, 0, 0},
      {"an entry that is still being written",
       [](Directory& d) { d.add("fxgraph/yy/fother/.12.345.tmp", 6); }, Effect::kUnused, 0, 0},
      {"an import alone reads nothing", [](Directory&) {}, Effect::kUnused, 0, 0},
      {"the ISA probe runs in every process",
       [](Directory& d) {
         d.read(kProbe, 3);
         d.folder("ar/cars25_CxxBuild", 3);
       },
       Effect::kUnused, 0, 0},
      {"a truncated entry is read and compiled again",
       [](Directory& d) {
         d.read(kFx, 5);
         d.add("fxgraph/hw/fhwqm6/second", 9);
       },
       Effect::kPartial, 1, 1},
      {"a hit whose Triton folder was missing writes it out of its bundle",
       [](Directory& d) {
         hit(d);
         d.add("triton/0/KEY/__grp__kernel.json", 6);
         d.add("triton/0/KEY/kernel.cubin", 6);
       },
       Effect::kFull, 2, 0},
  };
  for (const EffectCase& c : cases) {
    Directory directory = restored();
    c.run(directory);
    const Evidence evidence = judge(directory);
    EXPECT_EQ(evidence.effect, c.effect) << c.what;
    EXPECT_EQ(evidence.read_entries, c.read) << c.what;
    EXPECT_EQ(evidence.new_entries, c.made) << c.what;
    EXPECT_EQ(evidence.loaded_entries, 2u) << c.what;
  }
}

TEST(Effect, Case20OnlySharedLibrariesKept) {
  Directory directory;
  directory.load(kKernel);
  directory.read(kKernel, 2);
  directory.add(kFx, 3);
  directory.add(kAot, 4);
  EXPECT_EQ(judge(directory).effect, Effect::kNone);
}

TEST(Effect, UnknownWhereReadsDoNotShow) {
  Directory directory = restored();
  directory.loaded.reads_visible = false;
  EXPECT_EQ(judge(directory).effect, Effect::kUnknown);
  directory.add("fxgraph/yy/fnew/file", 6);
  EXPECT_EQ(judge(directory).effect, Effect::kUnknown);
}

TEST(Effect, CompileWindowIsFromTheFirstToTheLastNewFile) {
  Directory directory;
  directory.add("locks/a.lock", 1);  // not compiling yet
  directory.add(kProbe, 10);
  directory.add(kKernel, 17);
  directory.add(kFx, 32.5);
  EXPECT_DOUBLE_EQ(judge(directory).compile_seconds(), 22.5);
  EXPECT_DOUBLE_EQ(judge(restored()).compile_seconds(), 0);
}

TEST(Effect, WhatTheAppDoesBetweenCompilesIsNotCompiling) {
  Directory directory;
  directory.add(kKernel, 10);
  directory.add(kFx, 20);
  directory.add("zz/cnext.py", 7200);  // a request of another shape, hours later
  directory.add("fxgraph/zz/fnext/entry", 7206);
  EXPECT_DOUBLE_EQ(judge(directory).compile_seconds(), 10 + 5 + 6);
  directory.add("fxgraph/zz/fnext/second", 7246);  // of the same entry
  EXPECT_DOUBLE_EQ(judge(directory).compile_seconds(), 10 + 5 + 6 + 40);
  directory.add("yy/cdied.py", 7247);
  directory.add("yy/cagain.py", 90'000);  // it was killed, and started again a day later
  EXPECT_DOUBLE_EQ(judge(directory).compile_seconds(), 10 + 5 + 6 + 40 + 1 + 300);
}

// vLLM's ahead-of-time model beside Inductor's entries.
Framework vllm() {
  Framework framework;
  framework.name = "vllm";
  framework.entry_directories = {"**/fxgraph/*/*"};
  framework.entry_files = {"**/torch_aot_compile/*/rank_*/model"};
  framework.derived_files = {"**/triton_cache/*/__grp__*.json"};
  return framework;
}

constexpr char kModel[] = "torch_compile_cache/torch_aot_compile/AB/rank_0_0/model";
constexpr char kGraph[] = "torch_compile_cache/torch_aot_compile/AB/inductor_cache/fxgraph/a/KEY/f";

// Triton's kernels and what ninja builds are entries that are files: each is a piece of work of its
// own, with whatever the app does in between.
TEST(Effect, WhatTheAppDoesBetweenTwoKernelsIsNotCompiling) {
  Directory directory;
  directory.add("ONE/kernel.ttir", 10);
  directory.add("ONE/__grp__kernel.json", 12);
  directory.add("TWO/kernel.ttir", 7200);  // a request of another length, hours later
  directory.add("TWO/__grp__kernel.json", 7203);
  const Rules rules(triton());
  EffectJudge judge;
  judge.add(rules, directory.scan, nullptr);
  EXPECT_DOUBLE_EQ(judge.result().compile_seconds(), 2 + 5 + 3);
}

TEST(Effect, ACompilerOfMinutesIsCompiling) {
  Framework ninja;
  ninja.name = "ninja";
  ninja.entry_files = {"*/*.so"};
  Directory directory;
  directory.add("one/build.ninja", 10);
  directory.add("one/one.cuda.o", 130);
  directory.add("one/one.so", 140);
  directory.add("one/two.so", 200);  // of the same build
  directory.add("other/build.ninja", 900);
  directory.add("other/other.so", 1000);
  const Rules rules(ninja);
  EffectJudge judge;
  judge.add(rules, directory.scan, nullptr);
  EXPECT_DOUBLE_EQ(judge.result().compile_seconds(), 120 + 10 + 60 + 5 + 100);
}

// vLLM notes what a model's class can do, and spends the next 13 s on importing it in another
// process and on its weights.
TEST(Effect, WhatSaysNothingOfCompilingDoesNotBeginIt) {
  Framework framework = vllm();
  framework.not_compiled = {"modelinfos/**"};
  Directory directory;
  directory.add("modelinfos/Qwen3.json", 10);
  directory.add("torch_compile_cache/AB/rank_0_0/backbone/computation_graph.py", 23);
  directory.add(kGraph, 40);
  directory.add("modelinfos/Other.json", 300);
  const Rules rules(framework);
  EffectJudge judge;
  judge.add(rules, directory.scan, nullptr);
  EXPECT_DOUBLE_EQ(judge.result().compile_seconds(), 17);
  EXPECT_EQ(judge.result().new_entries, 1u);
}

Evidence judge_vllm(const Directory& directory) {
  const Rules rules(vllm());
  EffectJudge judge;
  judge.add(rules, directory.scan, &directory.loaded);
  return judge.result();
}

TEST(Effect, AModelThatTheArchiveLackedIsNewWork) {
  Directory directory;
  directory.load(kGraph);
  directory.read(kGraph, 3);
  EXPECT_EQ(judge_vllm(directory).effect, Effect::kFull);
  directory.add(kModel, 5);
  EXPECT_EQ(judge_vllm(directory).effect, Effect::kPartial);
  EXPECT_EQ(judge_vllm(directory).new_names,
            std::vector<std::string>{std::string("vllm/") + kModel});
}

// Truncated, or stale by its source: vLLM reads it, compiles again and puts another in its place.
TEST(Effect, AModelThatWasWrittenAnewIsNewWork) {
  Directory directory;
  for (const char* path : {kGraph, kModel}) directory.load(path);
  for (const char* path : {kGraph, kModel}) directory.read(path, 3);
  EXPECT_EQ(judge_vllm(directory).effect, Effect::kFull);
  FileInfo& model = directory.find(kModel);
  model.changed = at(5);
  EXPECT_EQ(judge_vllm(directory).effect, Effect::kFull) << "only its mode was changed";
  model.modified = at(5);
  EXPECT_EQ(judge_vllm(directory).effect, Effect::kPartial);
  EXPECT_EQ(judge_vllm(directory).new_entries, 1u);
  directory.find(kGraph).accessed = kUnreadTime;
  EXPECT_EQ(judge_vllm(directory).effect, Effect::kNone) << "nothing else was of use";
  model.modified = at(9);
  model.changed = at(-1);
  EXPECT_EQ(judge_vllm(directory).read_entries, 1u) << "saved on a node whose clock is ahead";
}

TEST(Effect, DerivedFilesTellOnlyWhereNoEntryDoes) {
  Directory directory;
  directory.load(kModel);
  directory.load("triton_cache/K/__grp__k.json");
  directory.read(kModel, 3);
  directory.add("triton_cache/OTHER/__grp__k.json", 5);
  EXPECT_EQ(judge_vllm(directory).effect, Effect::kFull);
  directory.find(kModel).accessed = kUnreadTime;
  EXPECT_EQ(judge_vllm(directory).effect, Effect::kNone);
}

struct Pair {
  Directory torch_directory = restored();
  Directory triton_directory;
  Pair() {
    triton_directory.load("KEY/__grp__kernel.json");
    triton_directory.load("KEY/kernel.cubin");
  }
  [[nodiscard]] Evidence judge() const {
    const Rules torch_rules(torch());
    const Rules triton_rules(triton());
    EffectJudge judge;
    judge.add(torch_rules, torch_directory.scan, &torch_directory.loaded);
    judge.add(triton_rules, triton_directory.scan, &triton_directory.loaded);
    return judge.result();
  }
};

TEST(Effect, NewTritonFilesBesideAnInductorHitProveNoCompile) {
  Pair pair;
  hit(pair.torch_directory);
  pair.triton_directory.add("OTHER/__grp__kernel.json", 6);
  EXPECT_EQ(pair.judge().effect, Effect::kFull);
}

TEST(Effect, UnknownWhereReadsOfOneDirectoryDoNotShow) {
  Pair pair;
  hit(pair.torch_directory);
  pair.torch_directory.loaded.reads_visible = false;
  EXPECT_EQ(pair.judge().effect, Effect::kUnknown);
  std::swap(pair.torch_directory.loaded.reads_visible, pair.triton_directory.loaded.reads_visible);
  EXPECT_EQ(pair.judge().effect, Effect::kUnknown);
}

TEST(Effect, TritonAloneIsJudgedByItsOwnEntries) {
  Pair pair;
  EXPECT_EQ(pair.judge().effect, Effect::kUnused);
  pair.triton_directory.read("KEY/__grp__kernel.json", 5);
  EXPECT_EQ(pair.judge().effect, Effect::kFull);
  pair.triton_directory.add("OTHER/__grp__kernel.json", 6);
  EXPECT_EQ(pair.judge().effect, Effect::kPartial);
  pair.triton_directory.find("KEY/__grp__kernel.json").accessed = kUnreadTime;
  EXPECT_EQ(pair.judge().effect, Effect::kNone);
}

TEST(Effect, AnInductorMissIsNoneThoughItsTritonKernelsHit) {
  Pair pair;
  pair.triton_directory.read("KEY/__grp__kernel.json", 5);
  pair.torch_directory.add("fxgraph/yy/fother/file", 6);
  EXPECT_EQ(pair.judge().effect, Effect::kNone);
}

TEST(Effect, WithoutEntriesInTheDescriptionEveryFileIsOne) {
  Framework plain;
  plain.name = "plain";
  const Rules rules(plain);
  Directory directory;
  directory.load("a");
  directory.load("b");
  directory.read("a", 3);
  EffectJudge judge;
  judge.add(rules, directory.scan, &directory.loaded);
  EXPECT_EQ(judge.result().effect, Effect::kFull);
  EXPECT_EQ(judge.result().loaded_entries, 2u);
}

TEST(Effect, NamesTheFirstNewEntriesOfEachFramework) {
  Directory directory = restored();
  hit(directory);
  for (int i = 9; i > 0; --i) {
    directory.add("fxgraph/yy/f" + std::to_string(i) + "/file", i + 10);
    directory.add("fxgraph/yy/f" + std::to_string(i) + "/later", 100 - i);
  }
  EXPECT_EQ(judge(directory).new_names,
            (std::vector<std::string>{"torch/fxgraph/yy/f1", "torch/fxgraph/yy/f2",
                                      "torch/fxgraph/yy/f3", "torch/fxgraph/yy/f4"}));
  EXPECT_EQ(judge(restored()).new_names, std::vector<std::string>{});
}

// After an image change kernels were left out of a save that their graphs were in.
TEST(Effect, WhatWasCompiledBesideEntriesCountsByItsSeconds) {
  Directory directory = restored();
  hit(directory);
  for (const int kernel : {10, 30, 50}) {
    const std::string stem = "xx/c" + std::to_string(kernel);
    directory.add(stem + ".main.cpp", kernel);
    directory.add(stem + ".main.so", kernel + 15);
  }
  const Evidence evidence = judge(directory);
  EXPECT_EQ(evidence.effect, Effect::kFull) << "by its entries";
  EXPECT_DOUBLE_EQ(evidence.compile_seconds(), 3 * 15 + 2 * 1);
  EXPECT_EQ(with_seconds(evidence, 50), Effect::kPartial);
  EXPECT_EQ(with_seconds(evidence, 7200), Effect::kPartial) << "a minute is noticed in any case";
  EXPECT_EQ(with_seconds(evidence, 0), Effect::kPartial);
}

TEST(Effect, AKernelOrTwoBesideEntriesAreFull) {
  Directory directory = restored();
  hit(directory);
  directory.add("xx/c.main.cpp", 10);
  directory.add("xx/c.main.so", 14);
  EXPECT_EQ(with_seconds(judge(directory), 20), Effect::kFull);
  directory.find("xx/c.main.so").modified = at(20);
  EXPECT_EQ(with_seconds(judge(directory), 200), Effect::kFull);
  EXPECT_EQ(with_seconds(judge(directory), 0), Effect::kFull);
  EXPECT_EQ(with_seconds(judge(directory), 20), Effect::kPartial);
}

// A warm pod writes Triton's kernels out of its entries, one graph after the other while it loads
// its weights.
TEST(Effect, WhatIsWrittenOutOfEntriesIsNoTimeOfCompiling) {
  Pair pair;
  hit(pair.torch_directory);
  for (int graph = 0; graph < 20; ++graph) {
    const std::string key = "triton/0/K" + std::to_string(graph);
    pair.torch_directory.add(key + "/k.cubin", 10 + graph * 20);
    pair.torch_directory.add(key + "/__grp__k.json", 12 + graph * 20);
    pair.triton_directory.add("K" + std::to_string(graph) + "/__grp__k.json", 12 + graph * 20);
  }
  EXPECT_DOUBLE_EQ(pair.judge().compile_seconds(), 0);
  EXPECT_EQ(with_seconds(pair.judge(), 10), Effect::kFull);
}

// vLLM on CPUs: it recreates its artifact at each start, from kernels that all exist.
TEST(Effect, MostOfItReusedIsNotNone) {
  Directory directory = restored();
  directory.read(kKernel, 5);
  directory.add("fxgraph/yy/fother/file", 6);
  directory.add("aotautograd/aother/file", 6.3);
  const Evidence evidence = judge(directory);
  EXPECT_EQ(evidence.effect, Effect::kNone) << "by its entries";
  EXPECT_EQ(with_seconds(evidence, 32), Effect::kPartial);
  EXPECT_EQ(with_seconds(evidence, 0), Effect::kNone) << "nobody knows";
  directory.add("xx/c.main.so", 30);
  EXPECT_EQ(with_seconds(judge(directory), 9), Effect::kNone);
}

TEST(Effect, WhereNothingWasReadItIsNoneHoweverShort) {
  Directory directory = restored();
  directory.add("fxgraph/yy/fother/file", 6);
  EXPECT_EQ(with_seconds(judge(directory), 32), Effect::kNone);
}

}  // namespace
}  // namespace compilecache::frameworks
