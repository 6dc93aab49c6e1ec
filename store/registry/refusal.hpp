#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "http/message.hpp"
#include "store/registry/challenge.hpp"

// Why a registry did not do what it was asked. Pure.
//
//   const Refusal refusal = refusal_of(answer, "pushing blob sha256:...");
//   if (refusal.has("MANIFEST_BLOB_UNKNOWN")) ...
//   if (refusal.may_pass()) ...                     // worth another try
//   return unexpected(refusal.error);

namespace compilecache::store {

// Error::reason of what makes a registry unusable (docs/troubleshoot/reasons.md).
inline constexpr char kReasonUnreachable[] = "registry_unreachable";  // or it wants fewer requests
inline constexpr char kReasonUnauthorized[] = "registry_unauthorized";
inline constexpr char kReasonFull[] = "registry_full";
inline constexpr char kReasonCertificate[] = "registry_certificate";
inline constexpr char kReasonNoRepository[] = "registry_missing";
// For the blob to be mounted.
inline constexpr char kReasonSecretMissing[] = "secret_missing";
inline constexpr char kReasonSecretWrongType[] = "secret_wrong_type";
inline constexpr char kReasonSecretUnusable[] = "secret_unusable";
inline constexpr char kReasonCaMissing[] = "ca_missing";
inline constexpr char kReasonCaUnusable[] = "ca_unusable";

struct Refusal {
  int status = 0;                  // 0: there was no answer
  std::vector<std::string> codes;  // of the body's errors: "DENIED", "BLOB_UNKNOWN", ...
  std::optional<std::chrono::seconds> retry_after;
  std::vector<Challenge> challenges;  // of a 401
  // kNotFound (404), kUnauthorized, kForbidden, kThrottled, kUnavailable (5xx, cut off), kTimeout,
  // kInvalid, kIo (no room), kTooLarge. Never kCorrupt, which is said of a blob's bytes alone.
  Error error;
  // For a host that the registry redirects to: it knows nothing of the registry's credentials.
  bool elsewhere = false;

  [[nodiscard]] bool has(std::string_view code) const;
  // Whether the same may succeed a little later.
  [[nodiscard]] bool may_pass() const;
};

// What came instead of success: a status other than 2xx, and as much of its body as was read.
struct Unwelcome {
  int status = 0;
  http::Headers headers;
  std::string body;
};
// `doing` is the beginning of the message: "reading blob sha256:... of host/repository".
Refusal refusal_of(const Unwelcome& answer, const std::string& doing);
// The same of `host`, which the registry redirects to. Its challenges are left out: one would name
// the server that gets the registry's password.
Refusal refusal_elsewhere(const std::string& host, const Unwelcome& answer,
                          const std::string& doing);
// The same for an error of http::Session.
Refusal no_answer(const Error& error, const std::string& doing);

}  // namespace compilecache::store
