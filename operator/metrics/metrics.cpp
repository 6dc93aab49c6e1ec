#include "operator/metrics/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "api/reasons.hpp"
#include "base/mutex.hpp"
#include "base/release.hpp"

namespace compilecache::controller {
namespace {

using prometheus::Histogram;

// What agents say is bounded: words of docs/troubleshoot/reasons.md that tell operators of a
// cluster something.
std::string cold_reason(const std::string& said) {
  constexpr std::array<std::string_view, 16> kKnown{"no_archive",
                                                    "cpu_mismatch",
                                                    "cpu_unknown",
                                                    "suspect",
                                                    "corrupt",
                                                    "blob_missing",
                                                    "timeout",
                                                    "too_slow",
                                                    "too_large",
                                                    "too_many_loads",
                                                    "waited_enough",
                                                    "gpu_product_unknown",
                                                    "loader_killed",
                                                    "io",
                                                    "registry_unreachable",
                                                    "operator_unreachable"};
  const bool known = std::find(kKnown.begin(), kKnown.end(), said) != kKnown.end();
  return known ? said : "other";
}

// Buckets for loads and for saves.
const Histogram::BucketBoundaries kTransferSeconds{0.05, 0.1, 0.25, 0.5, 1,  2.5,
                                                   5,    10,  30,   60,  120};
// The buckets with which API servers measure admission, and finer ones below, where we should be.
const Histogram::BucketBoundaries kWebhookSeconds{0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                  0.025,  0.1,   0.5,    2.5};

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& loads =
      prometheus::BuildCounter()
          .Name("compilecache_loads_total")
          .Help("What pods found when they asked for an archive")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& cold_starts =
      prometheus::BuildCounter()
          .Name("compilecache_cold_starts_total")
          .Help("Pods that were given no archive, by why")
          .Register(registry);
  prometheus::Family<Histogram>& load_seconds = prometheus::BuildHistogram()
                                                    .Name("compilecache_load_seconds")
                                                    .Help("How long loading an archive took")
                                                    .Register(registry);
  prometheus::Family<prometheus::Counter>& loaded_bytes =
      prometheus::BuildCounter()
          .Name("compilecache_loaded_bytes_total")
          .Help("Bytes that pods were given from archives")
          .Register(registry);
  prometheus::Family<Histogram>& save_seconds =
      prometheus::BuildHistogram()
          .Name("compilecache_save_seconds")
          .Help("How long committed saves took, from the lock to the new head")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& saves = prometheus::BuildCounter()
                                                       .Name("compilecache_saves_total")
                                                       .Help("Results of saves")
                                                       .Register(registry);
  prometheus::Family<prometheus::Counter>& effects =
      prometheus::BuildCounter()
          .Name("compilecache_effect_total")
          .Help("What loaded archives were worth, as last judged for each pod")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& webhook =
      prometheus::BuildCounter()
          .Name("compilecache_webhook_requests_total")
          .Help("Admission requests by result")
          .Register(registry);
  Histogram& webhook_seconds = prometheus::BuildHistogram()
                                   .Name("compilecache_webhook_seconds")
                                   .Help("How long answering an admission request took")
                                   .Register(registry)
                                   .Add({}, kWebhookSeconds);
  prometheus::Family<prometheus::Counter>& sweeps = prometheus::BuildCounter()
                                                        .Name("compilecache_sweeps_total")
                                                        .Help("Sweep Jobs by how they ended")
                                                        .Register(registry);
  prometheus::Family<prometheus::Counter>& reconciles =
      prometheus::BuildCounter()
          .Name("compilecache_reconcile_total")
          .Help("Reconciliations of CompileCaches by result")
          .Register(registry);
  prometheus::Gauge& leader = prometheus::BuildGauge()
                                  .Name("compilecache_leader")
                                  .Help("Whether this replica leads: 1 or 0")
                                  .Register(registry)
                                  .Add({});
  prometheus::Gauge& queue_depth = prometheus::BuildGauge()
                                       .Name("compilecache_workqueue_depth")
                                       .Help("CompileCaches that wait to be reconciled")
                                       .Register(registry)
                                       .Add({});
  // A series of one CompileCache, which goes with it. The caller holds series_mutex also while it
  // counts, as the series must not go meanwhile.
  template <typename Metric, typename... Settings>
  Metric& series_of(prometheus::Family<Metric>& family,
                    const std::map<std::string, std::string>& labels, const Settings&... settings)
      REQUIRES(series_mutex) {
    Metric& metric = family.Add(labels, settings...);
    series[{labels.at("namespace"), labels.at("cache")}].insert_or_assign(
        &metric, [&family, &metric] { family.Remove(&metric); });
    return metric;
  }
  Mutex series_mutex;
  std::map<std::pair<std::string, std::string>, std::map<const void*, std::function<void()>>> series
      GUARDED_BY(series_mutex);

  Mutex mutex;
  std::function<bool()> is_leader GUARDED_BY(mutex);
  std::function<double()> depth GUARDED_BY(mutex);
  std::function<std::vector<CacheGauges>()> caches GUARDED_BY(mutex);
  std::function<std::vector<RegistryGauge>()> own_registry GUARDED_BY(mutex);
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {
  for (const api::InjectionReasonText& text : api::injection_reasons()) {
    impl_->webhook.Add({{"reason", std::string(text.word)}});
  }
  for (const char* result : {"success", "error"}) impl_->reconciles.Add({{"result", result}});
  prometheus::BuildGauge()
      .Name("compilecache_build_info")
      .Help("The version that runs; the value is always 1")
      .Register(impl_->registry)
      .Add({{"version", release()}})
      .Set(1);
}

Metrics::~Metrics() = default;

void Metrics::load(const LoadMetric& load) {
  const std::map<std::string, std::string> labels{
      {"namespace", load.ns}, {"cache", load.cache}, {"gpu_product", load.gpu_product}};
  auto with_outcome = labels;
  with_outcome["outcome"] = api::metric_label(load.outcome);
  const MutexLock lock(impl_->series_mutex);
  impl_->series_of(impl_->loads, with_outcome).Increment();
  if (!api::is_warm(load.outcome)) {
    auto with_reason = labels;
    with_reason["reason"] = cold_reason(load.reason);
    impl_->series_of(impl_->cold_starts, with_reason).Increment();
  }
  if (api::is_warm(load.outcome)) {
    impl_->series_of(impl_->load_seconds, labels, kTransferSeconds).Observe(load.seconds);
    impl_->series_of(impl_->loaded_bytes, labels).Increment(static_cast<double>(load.bytes));
  }
}

void Metrics::commit(const std::string& ns, const std::string& cache,
                     std::optional<double> seconds) {
  save(ns, cache, api::SaveOutcome::kCommitted);
  if (!seconds) return;
  const MutexLock lock(impl_->series_mutex);
  impl_->series_of(impl_->save_seconds, {{"namespace", ns}, {"cache", cache}}, kTransferSeconds)
      .Observe(*seconds);
}

void Metrics::save(const std::string& ns, const std::string& cache, api::SaveOutcome outcome) {
  const std::string label(api::metric_label(outcome));
  const MutexLock lock(impl_->series_mutex);
  impl_->series_of(impl_->saves, {{"namespace", ns}, {"cache", cache}, {"outcome", label}})
      .Increment();
}

void Metrics::effect(const std::string& ns, const std::string& cache,
                     const std::string& gpu_product, api::Effect effect) {
  const std::string label(api::metric_label(effect));
  const MutexLock lock(impl_->series_mutex);
  impl_
      ->series_of(
          impl_->effects,
          {{"namespace", ns}, {"cache", cache}, {"gpu_product", gpu_product}, {"effect", label}})
      .Increment();
}

void Metrics::webhook_request(const std::string& reason, double seconds) {
  impl_->webhook.Add({{"reason", reason}}).Increment();
  impl_->webhook_seconds.Observe(seconds);
}

void Metrics::sweep(const std::string& ns, const std::string& cache, api::SweepOutcome outcome) {
  const std::string label(api::metric_label(outcome));
  const MutexLock lock(impl_->series_mutex);
  impl_->series_of(impl_->sweeps, {{"namespace", ns}, {"cache", cache}, {"outcome", label}})
      .Increment();
}

void Metrics::reconcile(bool succeeded) {
  impl_->reconciles.Add({{"result", succeeded ? "success" : "error"}}).Increment();
}

void Metrics::forget(const std::string& ns, const std::string& cache) {
  const MutexLock lock(impl_->series_mutex);
  const auto series = impl_->series.extract({ns, cache});
  if (series.empty()) return;
  for (const auto& [metric, remove] : series.mapped()) remove();
}

void Metrics::set_leader(std::function<bool()> is_leader) {
  const MutexLock lock(impl_->mutex);
  impl_->is_leader = std::move(is_leader);
}

void Metrics::set_queue_depth(std::function<double()> depth) {
  const MutexLock lock(impl_->mutex);
  impl_->depth = std::move(depth);
}

void Metrics::set_caches(std::function<std::vector<CacheGauges>()> caches) {
  const MutexLock lock(impl_->mutex);
  impl_->caches = std::move(caches);
}

void Metrics::set_registry(std::function<std::vector<RegistryGauge>()> registry) {
  const MutexLock lock(impl_->mutex);
  impl_->own_registry = std::move(registry);
}

std::string Metrics::text() const {
  std::vector<CacheGauges> caches;
  std::vector<RegistryGauge> own_registry;
  {
    const MutexLock lock(impl_->mutex);
    if (impl_->is_leader) impl_->leader.Set(impl_->is_leader() ? 1 : 0);
    if (impl_->depth) impl_->queue_depth.Set(impl_->depth());
    if (impl_->caches) caches = impl_->caches();
    if (impl_->own_registry) own_registry = impl_->own_registry();
  }
  auto families = impl_->registry.Collect();
  for (auto& family : gauge_families(caches)) families.push_back(std::move(family));
  for (auto& family : gauge_families(own_registry)) families.push_back(std::move(family));
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

}  // namespace compilecache::controller
