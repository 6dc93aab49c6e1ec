#include "cli/explain/engine_lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "base/strings.hpp"
#include "cli/explain/autotune_lines.hpp"
#include "cli/explain/log_process.hpp"

namespace compilecache::cli {
namespace {

constexpr std::string_view kWeights = "weights", kCompile = "compile", kProfile = "profile",
                           kAutotune = "autotune", kCapture = "graph capture",
                           kInit = "init engine", kWarmUp = "warm-up";

using Repeated = EngineLine::Repeated;

constexpr std::array kEngineLines{
    EngineLine{"vLLM", kWeights, "Model loading took ", " and ", " seconds",
               "0.11.0, 0.20.0, 0.32.0, 0.33.0"},
    EngineLine{"vLLM", kCompile, "", "torch.compile takes ", " s in total", "0.11.0",
               Repeated::kTellsTheSum},
    EngineLine{"vLLM", kCompile, "", "torch.compile took ", " s in total",
               "0.20.0, 0.32.0, 0.33.0"},
    EngineLine{"vLLM", kProfile, "", "Initial profiling/warmup run took ", " s",
               "0.20.0, 0.32.0, 0.33.0"},
    EngineLine{"vLLM", kCapture, "", "Graph capturing finished in ", " secs",
               "0.11.0, 0.20.0, 0.32.0, 0.33.0"},
    EngineLine{"vLLM", kCapture, "", "Encoder graph capturing finished in ", " secs",
               "0.32.0, 0.33.0"},
    EngineLine{"vLLM", kInit, "init engine (profile, create kv cache, warmup model)", " took ",
               " s", "0.11.0, 0.20.0, 0.32.0, 0.33.0"},
    EngineLine{"SGLang", kWeights, "Load weight end. ", "elapsed=", " s", "0.5.23"},
    EngineLine{"SGLang", kCapture, " CUDA graph end. ", "elapsed=", " s", "0.5.23"},
    EngineLine{"SGLang", kCapture, " cuda graph end. ", "Time elapsed: ", " s", "0.5.5"},
};

struct EnginePhase {
  std::string_view name, note;
};
constexpr EnginePhase kEnginePhases[] = {
    {kWeights, "the model, and its weights onto the device"},
    {kCompile, "torch.compile, what came from the cache included"},
    {kProfile, "the first run, which measures memory"},
    {kAutotune, "FlashInfer tries its kernels"},
    {kCapture, "CUDA graphs"},
    {kWarmUp, "the rest of its \"init engine\": KV cache, kernels' warm-up"},
};

// A day is more than any start takes: what is more is no time.
std::optional<double> seconds_at(std::string_view text, std::string_view after) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || !(seconds >= 0) || seconds > 24 * 3600) return std::nullopt;
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  if (rest.substr(0, after.size()) != after) return std::nullopt;
  return seconds;
}

struct FoundLine {
  double seconds = 0;
  size_t at = 0;  // where the words are in the line
};

std::optional<FoundLine> find_line(const EngineLine& known, std::string_view line) {
  const size_t words = line.find(known.words);
  if (words == std::string_view::npos) return std::nullopt;
  const size_t before = line.find(known.before, words + known.words.size());
  if (before == std::string_view::npos) return std::nullopt;
  const auto seconds = seconds_at(line.substr(before + known.before.size()), known.after);
  if (!seconds) return std::nullopt;
  return FoundLine{*seconds, known.words.empty() ? before : words};
}

// Seconds by process.
using Seconds = std::map<std::string, double, std::less<>>;

double slowest(const Seconds& seconds) {
  double most = 0;
  for (const auto& [process, own] : seconds) most = std::max(most, own);
  return most;
}

// The times of one engine.
class EngineWord {
 public:
  void add(const EngineLine& known, double seconds, std::string_view process) {
    double& own = seconds_[std::string(known.phase)][std::string(process)];
    own = known.repeated == Repeated::kTellsTheSum ? seconds : own + seconds;
  }

  void add_autotune(Seconds seconds) { seconds_[std::string(kAutotune)] = std::move(seconds); }

  std::vector<EngineTime> times(const std::string& engine) {
    tell_warm_up();
    std::vector<EngineTime> times;
    for (const EnginePhase& phase : kEnginePhases) {
      const auto found = seconds_.find(phase.name);
      if (found == seconds_.end()) continue;
      times.push_back({engine, std::string(phase.name), std::llround(slowest(found->second) * 1000),
                       engine + ": " + std::string(phase.note)});
    }
    return times;
  }

 private:
  // "init engine" has in it what the other lines tell, but for the weights.
  void tell_warm_up() {
    const auto init = seconds_.find(kInit);
    if (init == seconds_.end()) return;
    double rest = slowest(init->second);
    for (const std::string_view part : {kCompile, kProfile, kAutotune, kCapture}) {
      const auto found = seconds_.find(part);
      if (found != seconds_.end()) rest -= slowest(found->second);
    }
    if (rest >= 0) seconds_[std::string(kWarmUp)][""] = rest;
  }

  std::map<std::string, Seconds, std::less<>> seconds_;  // by phase
};

}  // namespace

std::span<const EngineLine> engine_lines() { return kEngineLines; }

std::vector<EngineTime> engine_times(const std::vector<std::string_view>& log) {
  std::map<std::string, EngineWord> told;
  for (const std::string_view line : log) {
    if (line.substr(0, 1) == "{") continue;
    for (const EngineLine& known : kEngineLines) {
      const auto found = find_line(known, line);
      if (!found) continue;
      told[std::string(known.engine)].add(known, found->seconds,
                                          process_of(line.substr(0, found->at)));
      break;
    }
  }
  if (Seconds tuned = autotune_seconds(log); !tuned.empty()) {
    told[told.empty() ? "FlashInfer" : told.begin()->first].add_autotune(std::move(tuned));
  }
  std::vector<EngineTime> all;
  for (auto& [engine, of] : told) {
    for (EngineTime& time : of.times(engine)) all.push_back(std::move(time));
  }
  return all;
}

std::optional<int64_t> kv_cache_tokens(const std::vector<std::string_view>& log) {
  constexpr std::string_view kBefore = " KV cache size: ", kAfter = " tokens";
  constexpr size_t kMostDigits = 15;
  std::optional<int64_t> least;
  for (const std::string_view line : log) {
    const size_t at = line.find(kBefore);
    if (at == std::string_view::npos || line.substr(0, 1) == "{") continue;
    const std::string_view rest = line.substr(at + kBefore.size());
    const size_t end = rest.find_first_not_of("0123456789,");
    if (end == std::string_view::npos || !rest.substr(end).starts_with(kAfter)) continue;
    std::string digits(rest.substr(0, end));
    std::erase(digits, ',');
    if (digits.empty() || digits.size() > kMostDigits) continue;
    int64_t tokens = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), tokens);
    least = least ? std::min(*least, tokens) : tokens;
  }
  return least;
}

std::string known_engines() {
  std::vector<std::string> names;
  for (const EngineLine& line : kEngineLines) {
    if (names.empty() || names.back() != line.engine) names.emplace_back(line.engine);
  }
  return join(names, ", ");
}

}  // namespace compilecache::cli
