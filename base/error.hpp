#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

// Expected failures are values.
//
//   Result<Manifest> read_manifest(const Path& path);
//
//   auto manifest = read_manifest(path);
//   if (!manifest) return unexpected(manifest.error().with("loading archive " + name));
//
// Exceptions of libraries are caught where the library is called and turned into an Error there.

namespace compilecache {

// What kind of failure it was, for code that has to decide. People read the message.
enum class ErrorCode {
  kInvalid,        // the input is wrong; the same call will fail again
  kNotFound,       // what was asked for is not there
  kConflict,       // somebody else changed it first; read again and decide
  kAlreadyExists,  // it was to be created and is there already
  kExpired,        // a lock, token or resource version that is no longer good
  kUnauthorized,   // no or unknown credentials
  kForbidden,      // known, but may not
  kTooLarge,       // over a limit
  kTimeout,        // no answer within the time given
  kUnavailable,    // the other side is not there now; may work later
  kThrottled,      // asked to come back later
  kCorrupt,        // bytes are not what was promised
  kIo,             // the operating system said no
  kCancelled,      // the caller gave up
  kInternal,       // a bug in this program
};

const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  // The action, its object, the fault and what to do next.
  std::string message;
  // The blob that was being read ("sha256:..."), for code that has to report it; empty: none was.
  std::string digest{};
  // errno, where the operating system said no, for code that has to decide; 0: it was not asked.
  int os_error = 0;
  // The fault in a word of docs/troubleshoot/reasons.md ("registry_full"), where `code` is too
  // coarse for code that has to decide. Empty: it is not.
  std::string reason{};

  // The same failure seen from one level further out: "loading archive x: <message>".
  [[nodiscard]] Error with(const std::string& context) const {
    return Error{code, context + ": " + message, digest, os_error, reason};
  }
  // The same failure with that blob as its digest, unless it names one already.
  [[nodiscard]] Error about(const std::string& blob) const {
    return Error{code, message, digest.empty() ? blob : digest, os_error, reason};
  }
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = tl::expected<void, Error>;

inline tl::unexpected<Error> unexpected(Error error) {
  return tl::unexpected<Error>(std::move(error));
}
inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

// The failure that errno describes: "opening /x: No space left on device".
Error errno_error(const std::string& doing, int error_number);

}  // namespace compilecache
