#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/outcomes.hpp"
#include "operator/metrics/cache_gauges.hpp"

// The metrics for Prometheus, on the plain port's /metrics. Names follow Prometheus' conventions.
// Labels are bounded: namespace and CompileCache, the node's GPU product, and a word from an
// enumeration, but never a pod.
//
//   compilecache_loads_total{namespace, cache, gpu_product, outcome}
//   compilecache_load_seconds{...}                        histogram of those that were loaded
//   compilecache_loaded_bytes_total{...}                  their plain bytes
//   compilecache_saves_total{namespace, cache, outcome}
//   compilecache_save_seconds{namespace, cache}           histogram of commits, from the grant on
//   compilecache_effect_total{namespace, cache, gpu_product, effect}
//   compilecache_webhook_requests_total{reason}
//   compilecache_webhook_seconds                          histogram
//   compilecache_sweeps_total{namespace, cache, outcome}
//   compilecache_reconcile_total{result}
//   compilecache_leader, compilecache_workqueue_depth
//   compilecache_build_info{version}
//
// and gauges of each CompileCache's status and of the installation's registry (cache_gauges.hpp).
//
// Thread-safe.

namespace compilecache::controller {

struct LoadMetric {
  std::string ns, cache, gpu_product;
  api::LoadOutcome outcome = api::LoadOutcome::kMissing;
  double seconds = 0;  // of those that were loaded
  int64_t bytes = 0;   // likewise
  std::string reason;  // of a cold start, as an agent said it
};

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void load(const LoadMetric& load);
  // `seconds`: from the grant of the lock to the new head; nothing when another leader granted it.
  void commit(const std::string& ns, const std::string& cache, std::optional<double> seconds);
  // Counts a save that was not committed.
  void save(const std::string& ns, const std::string& cache, api::SaveOutcome outcome);
  void effect(const std::string& ns, const std::string& cache, const std::string& gpu_product,
              api::Effect effect);
  void webhook_request(const std::string& reason, double seconds);
  void sweep(const std::string& ns, const std::string& cache, api::SweepOutcome outcome);
  void reconcile(bool succeeded);

  // Removes the series of a deleted CompileCache.
  void forget(const std::string& ns, const std::string& cache);

  // Functions for present values, called whenever /metrics is read.
  void set_leader(std::function<bool()> is_leader);
  void set_queue_depth(std::function<double()> depth);
  void set_caches(std::function<std::vector<CacheGauges>()> caches);
  void set_registry(std::function<std::vector<RegistryGauge>()> registry);

  // The exposition format, text version 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::controller
