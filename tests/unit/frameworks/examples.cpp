// The examples in the headers of frameworks/, word for word (tests/support/header_examples.py).
// They are compiled and never run.

#include <span>
#include <string>

#include "frameworks/cpu.hpp"
#include "frameworks/cpu_code.hpp"
#include "frameworks/effect.hpp"
#include "frameworks/factors.hpp"
#include "frameworks/glob.hpp"
#include "frameworks/held_paths.hpp"
#include "frameworks/plan.hpp"
#include "frameworks/ranks.hpp"
#include "frameworks/trap.hpp"
#include "frameworks/use.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::frameworks::examples {

inline void cpu(std::string_view cpuinfo) {
  const HostCpu host = host_cpu(cpuinfo, 0, {"ATEN_CPU_CAPABILITY=avx2"});
  host.name;
  host.features;
}

inline void cpu_code(std::span<const uint8_t> bytes) {
  CpuCodeScan scan;
  scan.add(bytes);
  scan.found();
}

inline void effect(const Rules& rules, const Scan& scan, const LoadedFiles* loaded) {
  EffectJudge judge;
  judge.add(rules, scan, loaded);
  Evidence evidence = judge.result();
}

inline void factors(std::string_view key) {
  auto before = read_factors(R"({"code_hash": "a", "env": {"VLLM_PORT": "1"}})", key);
  auto after = read_factors(R"({"code_hash": "a", "env": {"VLLM_PORT": "2"}})", key);
  differing_factors(*before, *after);
}

inline void glob() {
  Glob("fxgraph/*/*").matches("fxgraph/ab/KEY");
  Glob("**/*.so").matches("a/b/c.so");
}

inline void held_paths() {
  HeldPaths held({"fxgraph/ab/fabc/entry"});
  held.contains("fxgraph/ab/fabc/entry");
  held.has_directory("fxgraph/ab");
}

inline bool plan(const Rules& rules, const Scan& scan, const SaveKnowledge& knowledge, WallTime now,
                 const IsWhole& is_whole) {
  SavePlan plan = plan_save(rules, scan, knowledge, now, is_whole);
  if (!plan.pack.empty() && plan.busy.empty()) return true;
  return false;
}

inline void own_ranks(const Rules& rules) {
  OwnRanks own({"vllm/torch_compile_cache/0123456789/rank_4_0"});
  own.wants("vllm", rules, "torch_compile_cache/0123456789/rank_5_0/model");
  own.wants("vllm", rules, "torch_compile_cache/abcdef0123/rank_5_0/model");
}

inline void trap() {
  const Trap trap{.name = "switched-off",
                  .frameworks = {"torch"},
                  .variables = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES=1"},
                  .warning = "{variables}: nothing is cached"};
}

inline void dead(const std::string& text, const ObservedUse& observed, const std::string& family,
                 int64_t today) {
  UseNote note = UseNote::parse(text);
  note.take(observed, today, true);
  note.is_dead(family_hash("torch", family), today);
}

}  // namespace compilecache::frameworks::examples

#pragma GCC diagnostic pop
