#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What known engines say in their logs of where the time of a start went.
//
//   for (const EngineTime& time : engine_times({"INFO Model loading took 1.2 GiB and 0.9
//   seconds"}))
//     std::cout << time.engine << " " << time.phase << " " << time.milliseconds << "\n";
//
// The lines are a table, each with the releases in which it was seen; another release's line is a
// row more. Pure; safe from any thread.

namespace compilecache::cli {

struct EngineLine {
  std::string_view engine;  // "vLLM"
  std::string_view phase;   // "weights"
  // The line has `words`, later `before`, at once the seconds, at once `after`.
  std::string_view words, before, after;
  std::string_view seen;  // in the sources of these releases: "0.11.0, 0.33.0"
  // Lines of one process: each has its own time, or the sum of those before it, too.
  enum class Repeated { kAdds, kTellsTheSum } repeated = Repeated::kAdds;
};

std::span<const EngineLine> engine_lines();

struct EngineTime {
  std::string engine, phase;
  int64_t milliseconds = 0;
  std::string note;
};

// In the order in which an engine starts. Processes of one engine work side by side, so that the
// slowest of them counts. Lines in JSON are passed over: they do not say of which process they are.
std::vector<EngineTime> engine_times(const std::vector<std::string_view>& log);

// For how many tokens the engine found room ("GPU KV cache size: 1,234,567 tokens", in vLLM 0.11 to
// 0.33); of several processes the least.
std::optional<int64_t> kv_cache_tokens(const std::vector<std::string_view>& log);

// "vLLM, SGLang"
std::string known_engines();

}  // namespace compilecache::cli
