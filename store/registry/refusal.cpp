#include "store/registry/refusal.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/checked_json.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"

namespace compilecache::store {
namespace {

constexpr size_t kMostWords = 300;

// The body's errors: "DENIED: requested access to the resource is denied".
struct Said {
  std::vector<std::string> codes;
  std::string words;
};

Said said_in(const std::string& body) {
  Said said;
  const auto json = parse_json(body, "an answer of the registry");
  const bool known = json && json->is_object() && json->contains("errors") &&
                     (*json)["errors"].is_array() && !(*json)["errors"].empty();
  if (!known) {
    said.words = printable(trim(first_bytes(body, kMostWords)));
    return said;
  }
  for (const auto& entry : (*json)["errors"]) {
    const auto code = string_member(entry, "code");
    const auto message = string_member(entry, "message");
    if (code) said.codes.push_back(*code);
    if (!said.words.empty()) said.words += "; ";
    said.words += code.value_or("error") + ": " + message.value_or("no reason given");
  }
  said.words = printable(first_bytes(said.words, kMostWords));
  return said;
}

// Registries say it in many ways. The numbers are ENOSPC and EDQUOT, as distribution writes an
// error of its file system: {"Op":"write","Path":"...","Err":28}.
bool says_full(int status, const std::string& body) {
  if (status == 507 || status == 413) return true;
  if (status != 403 && status != 429 && status < 500) return false;
  std::string text = body;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (status == 429) return has("quota") && has("storage");
  return has("quota") || has("no space left") || has("insufficient storage") ||
         has("\"err\":28}") || has("\"err\":122}") || has("disk full");
}

// EFBIG: files have a bound there, as in the installation's own registry.
bool says_too_large(int status, const std::string& body) {
  return status >= 500 && (body.find("file too large") != std::string::npos ||
                           body.find("\"Err\":27}") != std::string::npos);
}

struct Verdict {
  ErrorCode code;
  const char* reason;
  const char* next;  // what to do
};

Verdict verdict(int status, const Said& said, const std::string& body) {
  if (says_full(status, body)) {
    return {ErrorCode::kIo, kReasonFull,
            "it has no room, or a quota or limit of its own: make room there, or keep less "
            "(spec.retention)"};
  }
  if (says_too_large(status, body)) {
    return {ErrorCode::kTooLarge, "",
            "no blob may be so large there (UPLOAD_LIMIT of the installation's own registry): have "
            "that raised, or keep less (spec.save.maxArchiveSize)"};
  }
  const auto has = [&](const char* code) {
    return std::find(said.codes.begin(), said.codes.end(), code) != said.codes.end();
  };
  switch (status) {
    case 401:
      return {ErrorCode::kUnauthorized, kReasonUnauthorized,
              "credentials are missing, wrong or expired: see the Secret that "
              "spec.storage.registry.secretName names"};
    case 403:
      return {ErrorCode::kForbidden, kReasonUnauthorized,
              "these credentials may not do it: let them pull and push there"};
    case 404:
      if (has("NAME_UNKNOWN"))
        return {ErrorCode::kNotFound, kReasonNoRepository,
                "there is no such repository: create it, or let the registry create repositories "
                "on push"};
      return {ErrorCode::kNotFound, "", "it is not there"};
    case 408:
      return {ErrorCode::kTimeout, kReasonUnreachable, "it is tried again"};
    case 429:
      return {ErrorCode::kThrottled, kReasonUnreachable,
              "it asks for fewer requests; see its limits"};
    default:
      break;
  }
  if (status < 400)
    return {ErrorCode::kInvalid, kReasonUnreachable,
            "it redirects to where this is not followed: name the registry's own host in "
            "spec.storage.registry.repository"};
  if (status >= 500)
    return {ErrorCode::kUnavailable, kReasonUnreachable, "see the registry's own log"};
  return {ErrorCode::kInvalid, kReasonUnreachable,
          "it does not do what registries do; see its own log"};
}

std::optional<std::chrono::seconds> retry_after_of(const http::Headers& headers) {
  const auto field = http::find_header(headers, "Retry-After");
  if (!field) return std::nullopt;
  int64_t seconds = 0;
  const auto [end, problem] =
      std::from_chars(field->data(), field->data() + field->size(), seconds);
  // Dates are rare, and need a clock that both agree on.
  if (problem != std::errc() || end != field->data() + field->size() || seconds < 0)
    return std::nullopt;
  return std::chrono::seconds(std::min<int64_t>(seconds, 86'400));
}

}  // namespace

bool Refusal::has(std::string_view code) const {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

bool Refusal::may_pass() const {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout ||
         error.code == ErrorCode::kThrottled;
}

Refusal refusal_of(const Unwelcome& answer, const std::string& doing) {
  Said said = said_in(answer.body);
  const Verdict is = verdict(answer.status, said, answer.body);
  std::string message = doing + ": the registry answered " + std::to_string(answer.status);
  if (!said.words.empty()) message += " (" + said.words + ")";
  Refusal refusal{answer.status, std::move(said.codes), retry_after_of(answer.headers),
                  challenges_of(answer.headers), Error{is.code, message + ": " + is.next}};
  refusal.error.reason = is.reason;
  return refusal;
}

Refusal refusal_elsewhere(const std::string& host, const Unwelcome& answer,
                          const std::string& doing) {
  Refusal refusal = refusal_of(answer, doing + ", redirected to " + host);
  refusal.elsewhere = true;
  refusal.challenges.clear();
  if (answer.status != 401) return refusal;
  // The registry gives a new address, with a new signature, each time it is asked.
  refusal.error.code = ErrorCode::kUnavailable;
  refusal.error.reason = kReasonUnreachable;
  refusal.error.message = doing + ": the registry redirects to " + host +
                          ", which answered 401: the redirect has to carry its own permission; "
                          "see how the registry's storage is configured";
  return refusal;
}

Refusal no_answer(const Error& error, const std::string& doing) {
  Refusal refusal{0, {}, std::nullopt, {}, error.with(doing)};
  switch (error.code) {
    case ErrorCode::kUnauthorized:
      if (!error.reason.empty()) break;
      refusal.error.reason = kReasonCertificate;
      refusal.error.message +=
          "; if its certificate is signed by an authority of your own, name a ConfigMap with that "
          "authority's ca.crt in spec.storage.registry.caConfigMapName";
      break;
    case ErrorCode::kCorrupt:  // what came is not HTTP; nothing is said of a blob
    case ErrorCode::kNotFound:
    case ErrorCode::kUnavailable:
      refusal.error.code = ErrorCode::kUnavailable;
      refusal.error.reason = kReasonUnreachable;
      break;
    case ErrorCode::kTimeout:
      refusal.error.reason = kReasonUnreachable;
      break;
    default:
      break;
  }
  return refusal;
}

}  // namespace compilecache::store
