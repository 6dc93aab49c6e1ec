#include <cmath>
#include <nlohmann/json.hpp>

#include "base/time_format.hpp"
#include "cli/archives/counters_json.hpp"
#include "cli/report/report_model.hpp"

// What compile caches were worth, for scripts.

namespace compilecache::cli {
namespace {

using nlohmann::json;

// What is an estimate is told to a tenth.
double to_a_tenth(double value) { return std::round(value * 10) / 10; }

json percent_json(const api::LoadCounters& loads) {
  const auto percent = hit_percent(loads);
  return percent ? json(*percent) : json();
}

json caches_json(const std::vector<ReportedCache>& caches) {
  json all = json::array();
  for (const ReportedCache& cache : caches) {
    json one = json_of(cache.overview);
    one["gpuHoursSaved"] = to_a_tenth(cache.gpu_hours_saved);
    one["hitPercent"] = percent_json(cache.overview.loads);
    all.push_back(std::move(one));
  }
  return all;
}

json products_json(const std::vector<ProductArchives>& products) {
  json all = json::array();
  for (const ProductArchives& product : products) {
    const auto& [day, week, month, older, unknown] = product.ages;
    all.push_back(
        {{"gpuProduct", product.gpu_product},
         {"archives", product.archives},
         {"bytes", product.bytes},
         {"savedWithin",
          {{"1d", day}, {"7d", week}, {"30d", month}, {"longer", older}, {"unknown", unknown}}}});
  }
  return all;
}

json cold_json(const std::vector<ReportedCold>& cold) {
  json all = json::array();
  for (const ReportedCold& one : cold) {
    all.push_back({{"namespace", one.ns},
                   {"cache", one.cache},
                   {"pods", one.cold.pods},
                   {"recentPods", one.recent_pods},
                   {"reason", one.cold.reason},
                   {"why", one.cold.why},
                   {"change", one.cold.change},
                   {"pod", one.cold.pod}});
  }
  return all;
}

json history_json(const ReportHistory& history) {
  json points = json::array();
  for (const HistoryPoint& point : history.points) {
    const WallTime time{std::chrono::seconds(point.time)};
    points.push_back({{"time", format_time(time)},
                      {"starts", to_a_tenth(point.starts)},
                      {"warm", to_a_tenth(point.warm)}});
  }
  return {{"prometheus", history.source}, {"error", history.error}, {"points", points}};
}

}  // namespace

json json_of(const Report& report) {
  return {{"namespace", report.ns},
          {"made", format_time(report.made)},
          {"secondsSaved", report.seconds_saved},
          {"gpuHoursSaved", to_a_tenth(report.gpu_hours_saved)},
          {"hitPercent", percent_json(report.loads)},
          {"loads", json_of(report.loads)},
          {"archives", report.archives},
          {"bytes", report.bytes},
          {"archivesByGPU", products_json(report.products)},
          {"cold", cold_json(report.cold)},
          {"caches", caches_json(report.caches)},
          {"history", history_json(report.history)},
          {"unread", report.unread}};
}

}  // namespace compilecache::cli
