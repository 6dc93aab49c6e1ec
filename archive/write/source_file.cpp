#include "archive/write/source_file.hpp"

namespace compilecache::archive {

const char* to_string(LeftOutReason reason) {
  switch (reason) {
    case LeftOutReason::kBusy:
      return "busy";
    case LeftOutReason::kUnreadable:
      return "unreadable";
    case LeftOutReason::kVanished:
      return "vanished";
    case LeftOutReason::kNotRegular:
      return "not_regular";
    case LeftOutReason::kInvalidPath:
      return "invalid_path";
    case LeftOutReason::kTooLarge:
      return "too_large";
    case LeftOutReason::kTooMany:
      return "too_many";
    case LeftOutReason::kIncomplete:
      return "incomplete";
  }
  return "unknown";
}

}  // namespace compilecache::archive
