#include "operator/caches/invalid_caches.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace compilecache::controller {

Result<api::CompileCache> InvalidCaches::parse(const nlohmann::json& object) {
  auto parsed = api::parse_compile_cache(object);
  const std::string key = api::object_meta(object).key();
  std::function<void(const std::string&)> tell;
  {
    const MutexLock lock(mutex_);
    if (parsed) {
      invalid_.erase(key);
      return parsed;
    }
    InvalidCache invalid;
    invalid.cache.metadata = api::object_meta(object);
    const auto status = object.find("status");
    if (status != object.end() && status->is_object()) {
      invalid.cache.status.conditions = api::parse_conditions(*status);
    }
    invalid.error = parsed.error().message;
    invalid_[key] = std::move(invalid);
    tell = on_invalid_;
  }
  if (tell) tell(key);
  return parsed;
}

void InvalidCaches::set_handler(std::function<void(const std::string&)> on_invalid) {
  const MutexLock lock(mutex_);
  on_invalid_ = std::move(on_invalid);
}

std::optional<InvalidCache> InvalidCaches::get(const std::string& key) const {
  const MutexLock lock(mutex_);
  auto found = invalid_.find(key);
  if (found == invalid_.end()) return std::nullopt;
  return found->second;
}

void InvalidCaches::forget(const std::string& key) {
  const MutexLock lock(mutex_);
  invalid_.erase(key);
}

}  // namespace compilecache::controller
