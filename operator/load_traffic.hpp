#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/clock.hpp"

// Which pods are loading now, and which pod of a key went first. In the leader's memory; after a
// change of leader both start empty, which costs a moment of too many loads or a second first pod,
// never correctness.
//
// Thread-safe.

namespace compilecache::controller {

class LoadTraffic {
 public:
  LoadTraffic(int max_concurrent_loads, const Clock& clock);

  // Whether this pod may load from the claim now. Its place is free again with end(), or after
  // `budget`.
  bool begin(const std::string& claim, const std::string& pod_uid,
             std::chrono::milliseconds budget);
  void end(const std::string& claim, const std::string& pod_uid);

  // Whether another pod went first for this archive and is still `alive`. If not, this pod is the
  // first from now on.
  bool goes_second(
      const std::string& archive, const std::string& pod, const std::string& pod_uid,
      const std::function<bool(const std::string& pod, const std::string& uid)>& alive);
  // The archive has been saved.
  void saved(const std::string& archive);

 private:
  struct First {
    std::string pod, uid;
  };
  const size_t limit_;
  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, std::map<std::string, Monotonic>> loading_;  // claim, pod uid, until
  std::map<std::string, First> first_;                               // by "namespace/archive"
};

}  // namespace compilecache::controller
