#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "agent/scan.hpp"
#include "api/outcomes.hpp"

namespace compilecache::agent {

// The result of one try to save.
struct SaveResult {
  enum class Next {
    kWhenNew,     // done: try again when there is something new
    kRetry,       // try again after `retry_after`
    kWhenChanged  // try again only after the directory has changed
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
  Unreadable unreadable;  // files that are missing in the archive because they could not be read
};

}  // namespace compilecache::agent
