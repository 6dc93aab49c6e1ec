#include "cli/report/hit_history.hpp"

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/outcomes.hpp"
#include "base/checked_json.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"
#include "kube/client.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr size_t kLongestReason = 200;

int64_t unix_seconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}
int64_t first_point(WallTime now) {
  return unix_seconds(now) - kHistoryDays * 86400 + kHistoryStepSeconds;
}

// As a string of PromQL.
std::string promql_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

bool is_warm_word(const std::string& outcome) {
  for (const auto& known : api::kWords<api::LoadOutcome>) {
    if (known.metric == outcome) return api::is_warm(known.value);
  }
  return false;
}

// Prometheus writes values as texts; what is not a number of starts counts as nothing.
double value_of(const json& sample) {
  if (!sample[1].is_string()) return 0;
  const auto& text = sample[1].get_ref<const std::string&>();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  const bool counts = whole && std::isfinite(value) && value > 0 && value < 1e12;
  return counts ? value : 0;
}

// The time of a sample within the two weeks.
std::optional<int64_t> time_of(const json& sample, WallTime now) {
  if (!sample.is_array() || sample.size() != 2 || !sample[0].is_number()) return std::nullopt;
  const auto time = sample[0].get<double>();
  const bool asked = time >= static_cast<double>(first_point(now)) &&
                     time <= static_cast<double>(unix_seconds(now));
  return asked ? std::optional(std::llround(time)) : std::nullopt;
}

Error not_prometheus(int status) {
  const bool asks_who = status == 401 || status == 403;
  return {ErrorCode::kCorrupt,
          "HTTP " + std::to_string(status) + ", not an answer of Prometheus' range API; name the " +
              (asks_who ? "Prometheus itself, which does not ask who you are, by kubectl "
                          "port-forward to its Service"
                        : "URL under which Prometheus has its own pages, without /api")};
}

}  // namespace

std::string history_target(const std::string& ns, WallTime now) {
  const std::string step = std::to_string(kHistoryStepSeconds) + "s";
  const std::string query = "sum by (outcome) (increase(compilecache_loads_total" +
                            (ns.empty() ? "" : "{namespace=" + promql_text(ns) + "}") + "[" + step +
                            "]))";
  return "/api/v1/query_range?query=" + kube::percent_encode(query) +
         "&start=" + std::to_string(first_point(now)) +
         "&end=" + std::to_string(unix_seconds(now)) + "&step=" + step;
}

Result<std::vector<HistoryPoint>> read_history(int status, std::string_view body, WallTime now) {
  const auto answer = parse_json(body, "the answer");
  if (!answer) return unexpected(not_prometheus(status));
  if (string_member(*answer, "status") == "error") {
    const std::string why = string_member(*answer, "error").value_or("it does not say why");
    return fail(ErrorCode::kInvalid,
                "it refuses the question: " + printable(first_bytes(why, kLongestReason)));
  }
  const json::json_pointer result("/data/result"), type("/data/resultType");
  if (status != 200 || !answer->contains(result) || !answer->at(result).is_array() ||
      answer->value(type, json()) != "matrix") {
    return unexpected(not_prometheus(status));
  }
  std::map<int64_t, HistoryPoint> points;
  for (const json& series : answer->at(result)) {
    const json::json_pointer outcome("/metric/outcome"), values("/values");
    if (!series.contains(values) || !series.at(values).is_array()) continue;
    const bool warm = series.contains(outcome) && series.at(outcome).is_string() &&
                      is_warm_word(series.at(outcome).get<std::string>());
    for (const json& sample : series.at(values)) {
      const auto time = time_of(sample, now);
      if (!time) continue;
      HistoryPoint& point = points[*time];
      point.time = *time;
      point.starts += value_of(sample);
      if (warm) point.warm += value_of(sample);
    }
  }
  std::vector<HistoryPoint> in_order;
  in_order.reserve(points.size());
  for (const auto& [time, point] : points) in_order.push_back(point);
  return in_order;
}

}  // namespace compilecache::cli
