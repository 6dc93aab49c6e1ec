#include <cmath>
#include <nlohmann/json.hpp>

#include "base/time_format.hpp"
#include "cli/archives/counters_json.hpp"
#include "cli/report/report_model.hpp"

// What compile caches were worth, for scripts.

namespace compilecache::cli {
namespace {

using nlohmann::json;

// An estimate is rounded to a tenth.
double to_a_tenth(double value) { return std::round(value * 10) / 10; }

json percent_json(const api::LoadCounters& loads) {
  const auto percent = hit_percent(loads);
  return percent ? json(*percent) : json();
}

json caches_json(const std::vector<ReportedCache>& caches) {
  json all = json::array();
  for (const ReportedCache& cache : caches) {
    json one = json_of(cache.overview);
    const LastStarts& starts = cache.overview.starts;
    one["starts"] = {{"coldPods", starts.cold_pods},
                     {"coldSeconds", to_a_tenth(starts.cold_seconds)},
                     {"warmPods", starts.warm_pods},
                     {"warmSeconds", to_a_tenth(starts.warm_seconds)}};
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
                   {"pod", one.cold.pod},
                   {"expected", one.expected}});
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

// Null where no price is known.
json money_json(const Report& report) {
  const auto& [price, currency] = report.gpu_hour_price;
  if (!(price > 0)) return {};
  return {{"gpuHourPrice", price},
          {"saved", std::round(price * report.gpu_hours_saved * 100) / 100},
          {"currency", currency}};
}

}  // namespace

json json_of(const Report& report) {
  return {{"cluster", report.cluster},
          {"namespace", report.ns},
          {"since", report.since ? json(format_time(*report.since)) : json()},
          {"made", format_time(report.made)},
          {"secondsSaved", report.seconds_saved},
          {"gpuHoursSaved", to_a_tenth(report.gpu_hours_saved)},
          {"money", money_json(report)},
          {"hitPercent", percent_json(report.loads)},
          {"recentPods", report.recent_pods},
          {"firstPods", report.first_pods},
          {"faultyPods", report.faulty_pods},
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
