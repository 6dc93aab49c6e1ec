#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "operator/cluster/cluster_view.hpp"

namespace prometheus {
struct MetricFamily;
}

// A CompileCache's status as gauges: they show nothing that `kubectl get cc` does not.
//
//   compilecache_condition{namespace, cache, type}     1: True; 0: False or Unknown
//   compilecache_archives{namespace, cache, state}     usable, suspect, corrupt
//   compilecache_archive_bytes{namespace, cache}
//   compilecache_gpu_products{namespace, cache}
//   compilecache_active_pods{namespace, cache}
//   compilecache_stuck_pods{namespace, cache}          that do not start on our account
//   compilecache_seconds_saved{namespace, cache}       an estimate; a gauge, since pods revise it
//   compilecache_last_save_timestamp_seconds{namespace, cache}    absent before the first
//   compilecache_last_sweep_timestamp_seconds{namespace, cache}
//
// Only the leader exports them, so that a sum over replicas is right. Pure functions.

namespace compilecache::controller {

struct CacheGauges {
  std::string ns, cache;
  std::map<std::string, bool> conditions;   // by type; whether it is True
  std::map<std::string, int64_t> archives;  // by state
  std::map<std::string, double> values;     // by the metric's name without its prefix
};

// Of the installation's own registry (registry_care.hpp), without labels.
struct RegistryGauge {
  std::string name;  // without "compilecache_"
  std::string help;
  double value = 0;
};
std::vector<prometheus::MetricFamily> gauge_families(const std::vector<RegistryGauge>& registry);

std::vector<CacheGauges> cache_gauges(const ClusterView& view);
std::vector<prometheus::MetricFamily> gauge_families(const std::vector<CacheGauges>& caches);

}  // namespace compilecache::controller
