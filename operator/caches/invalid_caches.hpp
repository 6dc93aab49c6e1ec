#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "api/compile_cache.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"

// CompileCaches whose spec cannot be read. The store keeps only those that can be; the others are
// kept here, so that the controller can report the error in their status. Thread-safe.

namespace compilecache::controller {

struct InvalidCache {
  api::CompileCache cache;  // metadata and status only
  std::string error;        // "spec.load.timeout: ..."
};

class InvalidCaches {
 public:
  // For kube::Reflector: calls api::parse_compile_cache and keeps what that refuses.
  Result<api::CompileCache> parse(const nlohmann::json& object);
  void set_handler(std::function<void(const std::string& key)> on_invalid);

  [[nodiscard]] std::optional<InvalidCache> get(const std::string& key) const;
  void forget(const std::string& key);

 private:
  mutable Mutex mutex_;
  std::map<std::string, InvalidCache> invalid_ GUARDED_BY(mutex_);  // by "namespace/name"
  std::function<void(const std::string& key)> on_invalid_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
