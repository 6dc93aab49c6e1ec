#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/mutex.hpp"

// How many bad tokens each address may show: a hundred at once and five more in each second, since
// each one costs the API server a review. What turns out to be good costs its caller nothing.
//
//   CallerAllowance allowance(clock);
//   if (!allowance.take(peer)) return too_many();
//   auto identity = ask_the_api_server(token);
//   if (identity) allowance.give_back(peer);
//
// Thread-safe. The clock must outlive it.

namespace compilecache::controller {

class CallerAllowance {
 public:
  explicit CallerAllowance(const Clock& clock) : clock_(clock) {}

  // `peer`: an address with its port, "10.0.0.7:4711" or "[fd00::7]:4711". Behind an address may be
  // all pods of a node. False when it has nothing left.
  [[nodiscard]] bool take(std::string_view peer);
  void give_back(std::string_view peer);

 private:
  struct Left {
    double tokens = 0;
    Monotonic at;
  };

  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, Left, std::less<>> left_ GUARDED_BY(mutex_);  // by address
};

}  // namespace compilecache::controller
