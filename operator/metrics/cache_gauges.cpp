#include "operator/metrics/cache_gauges.hpp"

#include <prometheus/metric_family.h>

#include "base/time_format.hpp"

namespace compilecache::controller {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

// The name without "compilecache_", and the help.
constexpr std::pair<const char*, const char*> kValues[] = {
    {"archive_bytes", "Bytes of all archives, compressed"},
    {"gpu_products", "GPU products that there are archives for"},
    {"active_pods", "Injected pods that have not ended"},
    {"stuck_pods", "Injected pods that do not start because of the injection"},
    {"seconds_saved", "Estimate of the compile time that loaded archives have saved"},
    {"last_save_timestamp_seconds", "When an archive was saved last"},
    {"last_sweep_timestamp_seconds", "When the store was swept last"},
};

void add_time(std::map<std::string, double>& values, const char* name, const std::string& time) {
  const auto parsed = parse_time(time);
  if (!parsed) return;
  values[name] = std::chrono::duration<double>(parsed->time_since_epoch()).count();
}

const char* state_of(const api::CompileCacheArchive& archive) {
  if (is_corrupt(archive)) return "corrupt";
  return is_suspect(archive) ? "suspect" : "usable";
}

CacheGauges gauges_of(const ClusterView& view, const api::CompileCache& cache) {
  const api::CompileCacheStatus& status = cache.status;
  CacheGauges gauges{.ns = cache.metadata.ns, .cache = cache.metadata.name};
  for (const api::Condition& condition : status.conditions) {
    gauges.conditions[condition.type] = condition.status == "True";
  }
  gauges.archives = {{"usable", 0}, {"suspect", 0}, {"corrupt", 0}};
  for (const auto& archive : view.archives_of(gauges.ns, gauges.cache)) {
    if (archive->head.exists()) ++gauges.archives[state_of(*archive)];
  }
  gauges.values = {{"archive_bytes", static_cast<double>(status.total_bytes)},
                   {"gpu_products", static_cast<double>(status.gpu_products)},
                   {"active_pods", static_cast<double>(status.active_pods)},
                   {"stuck_pods", static_cast<double>(status.stuck_pods.size())},
                   {"seconds_saved", static_cast<double>(status.seconds_saved)}};
  add_time(gauges.values, "last_save_timestamp_seconds", status.last_save_time);
  add_time(gauges.values, "last_sweep_timestamp_seconds", status.last_sweep.time);
  return gauges;
}

void add(MetricFamily& family, const CacheGauges& cache, double value, const char* label = nullptr,
         const std::string& label_value = "") {
  ClientMetric metric;
  metric.label = {{"namespace", cache.ns}, {"cache", cache.cache}};
  if (label != nullptr) metric.label.push_back({label, label_value});
  metric.gauge.value = value;
  family.metric.push_back(std::move(metric));
}

MetricFamily family(const std::string& name, const std::string& help) {
  return {"compilecache_" + name, help, prometheus::MetricType::Gauge, {}};
}

}  // namespace

std::vector<CacheGauges> cache_gauges(const ClusterView& view) {
  std::vector<CacheGauges> all;
  for (const auto& cache : view.caches()) all.push_back(gauges_of(view, *cache));
  return all;
}

std::vector<MetricFamily> gauge_families(const std::vector<RegistryGauge>& registry) {
  std::vector<MetricFamily> families;
  for (const RegistryGauge& gauge : registry) {
    families.push_back(family(gauge.name, gauge.help));
    ClientMetric metric;
    metric.gauge.value = gauge.value;
    families.back().metric.push_back(std::move(metric));
  }
  return families;
}

std::vector<MetricFamily> gauge_families(const std::vector<CacheGauges>& caches) {
  std::vector<MetricFamily> families{
      family("condition", "Conditions of CompileCaches: 1 is True, 0 is False or Unknown"),
      family("archives", "Archives by state: usable, suspect, corrupt")};
  for (const CacheGauges& cache : caches) {
    for (const auto& [type, is_true] : cache.conditions) {
      add(families[0], cache, is_true ? 1 : 0, "type", type);
    }
    for (const auto& [state, count] : cache.archives) {
      add(families[1], cache, static_cast<double>(count), "state", state);
    }
  }
  for (const auto& [name, help] : kValues) {
    families.push_back(family(name, help));
    for (const CacheGauges& cache : caches) {
      const auto value = cache.values.find(name);
      if (value != cache.values.end()) add(families.back(), cache, value->second);
    }
  }
  return families;
}

}  // namespace compilecache::controller
