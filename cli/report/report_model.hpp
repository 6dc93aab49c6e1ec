#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "cli/report/hit_history.hpp"
#include "cli/status/cache_overview.hpp"

// What compile caches were worth, added up for whoever pays for the GPUs:
// `kubectl compilecache report`.
//
//   Report report = report_of(overviews, "ml", now);
//   report.history.points = points;            // where Prometheus was asked
//   std::string page = html_of(report);        // cli/report_html.hpp
//   std::cout << json_of(report).dump(2);
//
// Pure: no clock, no I/O; safe from any thread.

namespace compilecache::cli {

struct ReportedCache {
  CacheOverview overview;
  double gpu_hours_saved = 0;
};

// How long ago archives were saved, each counted once.
struct ArchiveAges {
  int64_t day = 0, week = 0, month = 0, older = 0;  // up to 1, 7, 30 days, and more
  int64_t unknown = 0;                              // a time that cannot be read
};

// The archives of one GPU product.
struct ProductArchives {
  std::string gpu_product;  // empty: not part of the key
  int64_t archives = 0, bytes = 0;
  ArchiveAges ages;
};

// Some of the last pods of a CompileCache that stayed cold for one reason.
struct ReportedCold {
  std::string ns, cache;
  int64_t recent_pods = 0;
  ColdPods cold;
};

// The hit rate over time.
struct ReportHistory {
  std::string source;  // Prometheus' URL; empty: none was named
  std::string error;   // why it is not known; empty: it is
  std::vector<HistoryPoint> points;
};

struct Report {
  std::string ns;  // empty: all of the cluster
  WallTime made;
  std::vector<ReportedCache> caches;  // most seconds saved first
  int64_t seconds_saved = 0, archives = 0, bytes = 0;
  double gpu_hours_saved = 0;
  api::LoadCounters loads;
  std::vector<ProductArchives> products;  // by name
  std::vector<ReportedCold> cold;         // most pods first
  std::vector<std::string> unread;        // why archives are missing from this, once each
  ReportHistory history;
};

// Seconds saved count for each GPU of the pods: as the keys of a CompileCache's archives tell it,
// each weighed by the compile time it has spared; one GPU where no key tells.
Report report_of(const std::vector<CacheOverview>& overviews, const std::string& ns, WallTime now);

nlohmann::json json_of(const Report& report);

}  // namespace compilecache::cli
