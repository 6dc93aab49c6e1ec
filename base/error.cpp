#include "base/error.hpp"

#include <cerrno>
#include <system_error>

namespace compilecache {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return "Invalid";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kConflict:
      return "Conflict";
    case ErrorCode::kAlreadyExists:
      return "AlreadyExists";
    case ErrorCode::kExpired:
      return "Expired";
    case ErrorCode::kUnauthorized:
      return "Unauthorized";
    case ErrorCode::kForbidden:
      return "Forbidden";
    case ErrorCode::kTooLarge:
      return "TooLarge";
    case ErrorCode::kTimeout:
      return "Timeout";
    case ErrorCode::kUnavailable:
      return "Unavailable";
    case ErrorCode::kThrottled:
      return "Throttled";
    case ErrorCode::kCorrupt:
      return "Corrupt";
    case ErrorCode::kIo:
      return "Io";
    case ErrorCode::kCancelled:
      return "Cancelled";
    case ErrorCode::kInternal:
      return "Internal";
  }
  return "Internal";
}

Error errno_error(const std::string& doing, int error_number) {
  ErrorCode code = ErrorCode::kIo;
  if (error_number == ENOENT) code = ErrorCode::kNotFound;
  if (error_number == ETIMEDOUT) code = ErrorCode::kTimeout;
  return Error{
      code, doing + ": " + std::generic_category().message(error_number), {}, error_number};
}

}  // namespace compilecache
