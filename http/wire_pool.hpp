#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <string>

#include "base/mutex.hpp"
#include "http/wire.hpp"

namespace compilecache::http {

// Connections that wait for their next request; internal to this folder. Thread-safe.
class WirePool {
 public:
  // Keeps the last `most`, each for `longest` at most: what stands between may forget a silent
  // connection without telling either side.
  WirePool(size_t most, std::chrono::milliseconds longest) : most_(most), longest_(longest) {}

  // The youngest for this origin that is still good; null where there is none.
  std::unique_ptr<Wire> take(const std::string& origin);
  void clear();
  void give(const std::string& origin, std::unique_ptr<Wire> wire);

 private:
  struct Idle {
    std::string origin;
    std::unique_ptr<Wire> wire;
    std::chrono::steady_clock::time_point since;
  };
  std::unique_ptr<Wire> take_any(const std::string& origin);

  const size_t most_;
  const std::chrono::milliseconds longest_;
  Mutex mutex_;
  std::list<Idle> idle_ GUARDED_BY(mutex_);  // the youngest first
};

}  // namespace compilecache::http
