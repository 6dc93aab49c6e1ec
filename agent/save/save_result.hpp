#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "agent/scan.hpp"
#include "api/outcomes.hpp"

namespace compilecache::agent {

// What became of one try to save.
struct SaveResult {
  enum class Next {
    kWhenNew,     // done: when there is something new
    kRetry,       // after `retry_after`
    kWhenChanged  // not before the directory changes
  };
  api::Outcome outcome = api::Outcome::kSkipped;
  std::string reason;
  std::string message;
  Next next = Next::kWhenNew;
  std::chrono::milliseconds retry_after{0};
  bool never_again = false;  // the operator or the policy refuses for good

  std::string manifest_digest;
  int64_t generation = 0;
  uint64_t files = 0, bytes = 0;
  Unreadable unreadable;  // what is not in the archive on that account
};

}  // namespace compilecache::agent
