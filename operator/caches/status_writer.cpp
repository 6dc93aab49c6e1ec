#include "operator/caches/status_writer.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "operator/cluster/cluster_view.hpp"

namespace compilecache::controller {

using nlohmann::json;

namespace {

// A merge patch has to name removed members.
void say_what_is_gone(json& wanted, const json& present) {
  for (const auto& [name, value] : present.items()) {
    if (!wanted.contains(name)) {
      wanted[name] = nullptr;
    } else if (value.is_object() && wanted[name].is_object()) {
      say_what_is_gone(wanted[name], value);
    }
  }
}

}  // namespace

StatusWriter::StatusWriter(kube::Client client, Duration interval, const Clock& clock)
    : client_(std::move(client)), interval_(interval), clock_(clock) {}

Result<Duration> StatusWriter::write(const api::CompileCache& cache,
                                     const api::CompileCacheStatus& status) {
  json wanted = api::to_json(status);
  const json present = api::to_json(cache.status);
  if (wanted == present) return Duration::zero();
  say_what_is_gone(wanted, present);
  const bool at_once = status.sweep_job != cache.status.sweep_job;
  return patch(cache, std::move(wanted), at_once);
}

Result<Duration> StatusWriter::write_conditions(const api::CompileCache& cache,
                                                const std::vector<api::Condition>& conditions) {
  json wanted = api::conditions_json(conditions);
  if (wanted == api::conditions_json(cache.status.conditions)) return Duration::zero();
  return patch(
      cache, {{"observedGeneration", cache.metadata.generation}, {"conditions", std::move(wanted)}},
      false);
}

Result<Duration> StatusWriter::patch(const api::CompileCache& cache, json status, bool at_once) {
  const std::string key = cache.metadata.key();
  const Duration wait = at_once ? Duration::zero() : left(key);
  if (wait > Duration::zero()) return wait;
  const json change = {{"metadata", {{"resourceVersion", cache.metadata.resource_version}}},
                       {"status", std::move(status)}};
  auto written = client_.patch(resources::kCompileCaches, cache.metadata.ns, cache.metadata.name,
                               kube::PatchType::kMerge, change, {.subresource = "status"});
  if (!written) {
    if (written.error().code == ErrorCode::kNotFound) return Duration::zero();
    return unexpected(written.error().with("writing the status of CompileCache " + key));
  }
  const MutexLock lock(mutex_);
  written_[key] = clock_.monotonic();
  return Duration::zero();
}

void StatusWriter::forget(const std::string& cache) {
  const MutexLock lock(mutex_);
  written_.erase(cache);
}

Duration StatusWriter::left(const std::string& cache) const {
  if (flush_immediately_) return Duration::zero();
  const MutexLock lock(mutex_);
  auto found = written_.find(cache);
  if (found == written_.end()) return Duration::zero();
  const Duration since = clock_.monotonic() - found->second;
  return since >= interval_ ? Duration::zero() : interval_ - since;
}

}  // namespace compilecache::controller
