#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "cli/report/gpu_price.hpp"
#include "cli/report/hit_history.hpp"
#include "cli/status/cache_overview.hpp"

// The worth of compile caches, added up for those who pay for the GPUs:
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
  bool expected = false;  // cold_as_expected()
};

// The hit rate over time.
struct ReportHistory {
  std::string source;  // Prometheus' URL; empty: none was named
  std::string error;   // why it is not known; empty: it is
  std::vector<HistoryPoint> points;
};

struct Report {
  std::string cluster;  // as the kubeconfig calls it; empty: not known
  std::string ns;       // empty: all of the cluster
  WallTime made;
  std::optional<WallTime> since;  // the first CompileCache was created
  GpuPrice gpu_hour_price;
  std::vector<ReportedCache> caches;  // most seconds saved first
  int64_t seconds_saved = 0, archives = 0, bytes = 0;
  double gpu_hours_saved = 0;
  api::LoadCounters loads;
  std::vector<ProductArchives> products;  // by name
  std::vector<ReportedCold> cold;         // most pods first
  // Of the last pods that the CompileCaches remember: all, those that were cold as expected, and
  // those that were cold by a fault.
  int64_t recent_pods = 0, first_pods = 0, faulty_pods = 0;
  std::vector<std::string> unread;  // why archives are missing from this, once each
  ReportHistory history;
};

// Whether a pod that is cold for that reason is one that compiles for others, or was asked to: no
// fault, and there is nothing to repair.
bool cold_as_expected(std::string_view reason);

// Seconds saved count for each GPU of the pods. The keys of a CompileCache's archives give the
// number, each weighed by the compile time it has spared; one GPU where no key does.
Report report_of(const std::vector<CacheOverview>& overviews, const std::string& ns, WallTime now);

nlohmann::json json_of(const Report& report);

}  // namespace compilecache::cli
