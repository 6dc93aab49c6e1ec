#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "base/clock.hpp"

// How one CompileCache does: its archives, what they were worth, what is wrong and what to do:
// `kubectl compilecache status`.
//
//   CacheOverview overview = overview_of(cache, archives);
//   std::cout << text_of(overview, now);      // a screen
//   std::cout << json_of(overview).dump(2);   // the same for scripts
//
// Pure: no clock, no I/O; safe from any thread.

namespace compilecache::cli {

struct ArchiveRow {
  std::string name, gpu_product;  // the latter empty: not part of the key
  int64_t generation = 0, bytes = 0, files = 0;
  std::string loads;      // "3 exact, 1 missing"
  std::string last_used;  // RFC 3339; empty: never
  std::string saved_at;   // RFC 3339
  std::string gpus;       // of one pod, as the key says; empty: not part of it
  int64_t warm_loads = 0;
  double compile_seconds = 0;  // what each load is worth at most
  std::string state;           // "Corrupt", "Suspect", "saved by POD now"; empty: nothing to say
};

// A condition that is not as it should be.
struct WrongCondition {
  std::string type, reason, message;
};

// Some of the last pods that started cold for the same reason, or that nothing was worth loading.
struct ColdPods {
  int64_t pods = 0;
  std::string reason;       // a word of docs/troubleshoot/reasons.md, or "none", the effect
  std::string why, change;  // the latter empty: nothing
  std::string pod;          // the latest of them
};

// How long the last pods waited for the loader and for compiling, in seconds: medians.
struct LastStarts {
  int64_t cold_pods = 0, warm_pods = 0;  // those of which it is known
  double cold_seconds = 0, warm_seconds = 0;
};

struct CacheOverview {
  std::string ns, name, store;
  std::string created;               // RFC 3339; empty: not known
  std::string ready;                 // True, False, Unknown
  std::vector<ArchiveRow> archives;  // by GPU product and name; those that were saved once
  int64_t bytes = 0, active_pods = 0, seconds_saved = 0;
  api::LoadCounters loads;
  api::EffectCounters effect;
  api::SaveCounters saves;
  std::string last_save;  // RFC 3339; empty: none
  std::vector<WrongCondition> wrong;
  int64_t recent_pods = 0;
  std::vector<ColdPods> cold;  // most pods first
  LastStarts starts;
  std::string unread;  // why the archives could not be read; empty: they were
};

// Of the archives those count that belong to the CompileCache.
CacheOverview overview_of(const api::CompileCache& cache,
                          const std::vector<api::CompileCacheArchive>& archives);

// Rounded; 0 and 100 where it is none and all alone. `all` is above 0.
int64_t percent_of(double part, double all);

// How many of a hundred starts had an archive; nothing: there was none.
std::optional<int64_t> hit_percent(const api::LoadCounters& loads);

// Times are ages, counted to `now`.
std::string text_of(const CacheOverview& overview, WallTime now);
nlohmann::json json_of(const CacheOverview& overview);

}  // namespace compilecache::cli
