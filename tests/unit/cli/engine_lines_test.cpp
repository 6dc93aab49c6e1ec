#include "cli/explain/engine_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace compilecache::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using PhaseTimes = std::map<std::string, int64_t>;

// Milliseconds by phase.
PhaseTimes times_of(const std::vector<std::string_view>& log) {
  PhaseTimes times;
  for (const EngineTime& time : engine_times(log)) times[time.phase] = time.milliseconds;
  return times;
}

TEST(EngineLines, Vllm011TellsTheSumOfItsCompiles) {
  EXPECT_EQ(
      times_of({
          "(EngineCore_DP0 pid=212) INFO 10-30 14:20:58 [gpu_model_runner.py:2653] Model loading "
          "took 3.4213 GiB and 0.902026 seconds",
          "(EngineCore_DP0 pid=212) INFO 10-30 14:21:05 [backends.py:218] Compiling a graph for "
          "dynamic shape takes 2.33 s",
          "(EngineCore_DP0 pid=212) INFO 10-30 14:21:06 [monitor.py:34] torch.compile takes 5.71 s "
          "in total",
          "(EngineCore_DP0 pid=212) INFO 10-30 14:21:07 [monitor.py:34] torch.compile takes 6.25 s "
          "in total",
          "(EngineCore_DP0 pid=212) INFO 10-30 14:21:20 [gpu_model_runner.py:3480] Graph capturing "
          "finished in 8 secs, took 0.31 GiB",
          "(EngineCore_DP0 pid=212) INFO 10-30 14:21:20 [core.py:210] init engine (profile, create "
          "kv cache, warmup model) took 17.25 seconds",
      }),
      (PhaseTimes{
          {"weights", 902}, {"compile", 6250}, {"graph capture", 8000}, {"warm-up", 3000}}));
}

TEST(EngineLines, Vllm020And033TellEachCompileOfEachProcess) {
  EXPECT_EQ(
      times_of({
          "(Worker_TP0 pid=52) INFO 05-06 05:40:41 [gpu_model_runner.py:4880] Model loading took "
          "12.66 GiB memory and 31.657031 seconds",
          "(Worker_TP1 pid=53) INFO 05-06 05:40:43 [gpu_model_runner.py:4880] Model loading took "
          "12.66 GiB memory and 33.500000 seconds",
          "(Worker_TP0 pid=52) INFO 05-06 05:41:30 [monitor.py:53] torch.compile took 48.89 s in "
          "total",
          "(Worker_TP0 pid=52) INFO 05-06 05:42:24 [monitor.py:81] Initial profiling/warmup run "
          "took 53.79 s",
          "(Worker_TP0 pid=52) INFO 05-06 05:42:26 [monitor.py:53] [eagle_head] torch.compile took "
          "1.11 s in total",
          "(Worker_TP1 pid=53) INFO 05-06 05:42:27 [monitor.py:53] torch.compile took 47.00 s in "
          "total",
          "(Worker_TP0 pid=52) INFO 05-06 05:42:40 [gpu_model_runner.py:6517] Graph capturing "
          "finished in 12 secs, took 0.66 GiB",
          "(EngineCore pid=43) INFO 05-06 05:42:41 [core.py:406] init engine (profile, create kv "
          "cache, warmup model) took 120.79 s (compilation: 50.00 s)",
      }),
      (PhaseTimes{{"weights", 33500},
                  {"compile", 50000},
                  {"profile", 53790},
                  {"graph capture", 12000},
                  {"warm-up", 5000}}));
}

TEST(EngineLines, SglangTellsEveryCapture) {
  EXPECT_EQ(times_of({
                "[2026-10-10 11:59:36 TP0] Load weight end. elapsed=329.53 s, "
                "type=BailingMoeV3ForCausalLM, avail mem=29.67 GB, mem usage=80.31 GB.",
                "[2026-10-10 11:59:37 TP0] Capture target prefill CUDA graph end. elapsed=3.83 s, "
                "mem usage=0.28 GB, avail mem=5.23 GB.",
                // A progress bar that has not ended its line.
                " 96%|########9 | 22/23 [00:13<00:00,  2.05it/s][2026-10-10 11:59:51 TP0] Capture "
                "target decode CUDA graph end. bs=[1, 2], elapsed=10.10 s, mem usage=0.79 GB",
                "[2026-10-10 11:59:51 TP1] Capture target decode CUDA graph end. elapsed=10.50 s",
            }),
            (PhaseTimes{{"weights", 329530}, {"graph capture", 13930}}));
  EXPECT_EQ(
      times_of({"[2025-11-10 19:59:09 TP1] Capture cuda graph end. Time elapsed: 11.35 s. mem "
                "usage=1.04 GB. avail mem=11.22 GB."}),
      (PhaseTimes{{"graph capture", 11350}}));
}

TEST(EngineLines, FlashInferTellsWhenItsAutotunerBeginsAndEnds) {
  const std::vector<std::string_view> tuned{
      "(Worker_TP0 pid=430) 2026-08-31 13:10:54,089 - INFO - autotuner.py:651 - flashinfer.jit: "
      "[Autotuner]: Autotuning process starts ...",
      "(Worker_TP1 pid=431) 2026-08-31 13:10:54,102 - INFO - autotuner.py:651 - flashinfer.jit: "
      "[Autotuner]: Autotuning process starts ...",
      "(Worker_TP0 pid=430) 2026-08-31 13:10:56,089 - INFO - autotuner.py:674 - flashinfer.jit: "
      "[Autotuner]: Autotuning process ends",
      "(Worker_TP1 pid=431) 2026-08-31 13:10:57,602 - INFO - autotuner.py:674 - flashinfer.jit: "
      "[Autotuner]: Autotuning process ends",
      "(Worker_TP0 pid=430) 2026-08-31 13:11:00,000 - INFO - autotuner.py:651 - flashinfer.jit: "
      "[Autotuner]: Autotuning process starts ...",
      "(Worker_TP0 pid=430) 2026-08-31 13:11:01,000 - INFO - autotuner.py:674 - flashinfer.jit: "
      "[Autotuner]: Autotuning process ends"};
  EXPECT_EQ(times_of(tuned), (PhaseTimes{{"autotune", 3500}}));
  EXPECT_EQ(engine_times(tuned)[0].engine, "FlashInfer");
  auto of_vllm = tuned;
  of_vllm.emplace_back(
      "(EngineCore pid=43) INFO 08-31 13:11:02 [core.py:406] init engine (profile, create kv "
      "cache, warmup model) took 9.00 s");
  EXPECT_EQ(times_of(of_vllm), (PhaseTimes{{"autotune", 3500}, {"warm-up", 5500}}));
  EXPECT_EQ(engine_times(of_vllm)[0].engine, "vLLM");
}

TEST(EngineLines, AnAutotunerWithoutABeginOrAnEndTellsNothing) {
  const std::string_view begins =
      "2026-08-31 13:10:54,089 - INFO - autotuner.py:651 - flashinfer.jit: [Autotuner]: Autotuning "
      "process starts ...";
  const std::string_view ends =
      "2026-08-31 13:10:53,000 - INFO - autotuner.py:674 - flashinfer.jit: [Autotuner]: Autotuning "
      "process ends";
  EXPECT_THAT(engine_times({begins}), IsEmpty());
  EXPECT_THAT(engine_times({ends}), IsEmpty());
  EXPECT_THAT(engine_times({begins, ends}), IsEmpty()) << "it ended before it began";
  EXPECT_THAT(engine_times({"[Autotuner]: Autotuning process starts ...",
                            "x - INFO - [Autotuner]: Autotuning process ends"}),
              IsEmpty());
}

TEST(EngineLines, TheKvCacheHasRoomForAsManyTokensAsTheSmallestOfItsProcesses) {
  EXPECT_EQ(kv_cache_tokens({"(EngineCore_DP0 pid=2) INFO 10-30 [kv_cache_utils.py:1] GPU KV cache "
                             "size: 1,234,567 tokens",
                             "(EngineCore_DP1 pid=3) INFO 10-30 [kv_cache_utils.py:2] GPU KV cache "
                             "size: 934,567 tokens, Maximum concurrency for 4,096 tokens per "
                             "request: 228.17x"}),
            934'567);
  EXPECT_EQ(kv_cache_tokens({"GPU KV cache size: none", "GPU KV cache size: 12 GiB",
                             "GPU KV cache size: 99999999999999999999 tokens"}),
            std::nullopt);
}

TEST(EngineLines, WhatIsNoSuchLineTellsNothing) {
  EXPECT_THAT(engine_times({}), IsEmpty());
  EXPECT_THAT(
      engine_times({"Model loading took a while and no seconds",
                    "torch.compile took NaN s in total", "torch.compile took -3.0 s in total",
                    "torch.compile took 1e300 s in total", "torch.compile took 12",
                    // The line does not say of which process it is.
                    R"({"message": "torch.compile took 48.89 s in total"})"}),
      IsEmpty());
}

// As many compiles at once as there are processes: what is left of "init engine" is not known.
TEST(EngineLines, ARestBelowNothingIsNotTold) {
  EXPECT_EQ(times_of({"torch.compile took 9.00 s in total",
                      "init engine (profile, create kv cache, warmup model) took 5.00 s"}),
            (PhaseTimes{{"compile", 9000}}));
}

TEST(EngineLines, EachIsOfARelease) {
  for (const EngineLine& line : engine_lines()) {
    EXPECT_FALSE(line.engine.empty() || line.phase.empty() || line.before.empty() ||
                 line.after.empty() || line.seen.empty())
        << line.before;
    EXPECT_THAT(known_engines(), HasSubstr(std::string(line.engine)));
  }
}

}  // namespace
}  // namespace compilecache::cli
