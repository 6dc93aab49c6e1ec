#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

#include "agent/coordinator.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/random.hpp"

// Asks the leader, and other replicas where it does not answer: at once after it refused, or after
// a second (`head_start`) of silence. A replica that was stopped stays in its Service for some
// seconds, so there a new connection is begun every 300 ms, and the first answer counts.
//
//   const Result<std::string> answer = race({ask_leader, ask_any_replica}, patience, parts);
//
// Blocks until a replica has answered, the leader has refused in a way that asking again cannot
// change (worth_repeating), or the patience is over. No call goes on after that. Thread-safe.

namespace compilecache::agent {

// Whether nobody who knows has answered, so that asking again may help.
bool worth_repeating(ErrorCode code);

// How long to wait after a call that failed: half of it is random, so that agents which lost one
// leader do not all ask again at once.
class RetryPause {
 public:
  explicit RetryPause(Random random) : random_(std::move(random)) {}
  std::chrono::milliseconds next();

 private:
  Random random_;
  std::chrono::milliseconds pause_{100};
};

struct RaceCalls {
  using Ask =
      std::function<Result<std::string>(std::chrono::milliseconds timeout, std::stop_token stop)>;
  Ask leader, any_replica;
};

struct RaceParts {
  const Clock& clock;
  Random random;
  Sleep sleep;  // false: the process has to end
  // How long the leader is asked alone.
  std::chrono::milliseconds head_start{1000};
};

// The error is the leader's.
Result<std::string> race(const RaceCalls& calls, Patience patience, const RaceParts& parts);

}  // namespace compilecache::agent
