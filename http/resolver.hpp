#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/mutex.hpp"

// The addresses of names, with a deadline; internal to this folder.
//
// getaddrinfo() cannot be interrupted and may take half a minute where a name server is silent.
// Asio's resolver waits for it when it is destroyed. So each lookup has a thread of its own, which
// is left behind when the deadline passes. Later lookups of the same name wait for that thread, so
// there are never more such threads than names.

namespace compilecache::http {

// Thread-safe.
class Resolver {
 public:
  using Addresses = Result<std::vector<std::string>>;
  using Lookup = std::function<Addresses(const std::string& host)>;

  // Without an argument the system is asked.
  Resolver();
  explicit Resolver(Lookup lookup);

  // At least one address, in the order to try them; `host` itself where it is one. kTimeout;
  // kUnavailable: the name is not known, or no name server answered.
  Addresses resolve(const std::string& host, std::chrono::steady_clock::time_point until);

 private:
  struct Pending {
    Mutex mutex;
    CondVar changed;
    bool done GUARDED_BY(mutex) = false;
    Addresses addresses GUARDED_BY(mutex);
  };
  std::shared_ptr<Pending> join_or_start(const std::string& host);

  const Lookup lookup_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Pending>> pending_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::http
