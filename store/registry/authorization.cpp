#include "store/registry/authorization.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/checked_json.hpp"
#include "store/registry/refusal.hpp"

namespace compilecache::store {
namespace {

constexpr size_t kMostTokenBytes = 256U << 10;
constexpr std::chrono::seconds kTokenTime{15};
// A token is replaced so long before it expires, or a fifth of its life if that is shorter.
constexpr std::chrono::seconds kBefore{30};

std::string query_encode(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      result += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    result += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return result;
}

Result<Token> parse_token(const std::string& text) {
  const auto json = parse_json(text, "the token service's answer");
  if (!json) return fail(ErrorCode::kUnavailable, json.error().message);
  auto value = string_member(*json, "token");
  if (!value || value->empty()) value = string_member(*json, "access_token");
  if (!value || value->empty())
    return fail(ErrorCode::kUnavailable, "the token service's answer has no token");
  Token token{*value};
  if (const auto seconds = number_member(*json, "expires_in"))
    token.lifetime = std::chrono::seconds(std::clamp<uint64_t>(*seconds, 1, 86'400));
  return token;
}

Error with_reason(Error error) {
  if (error.reason.empty()) error.reason = kReasonUnauthorized;
  return error;
}

}  // namespace

bool Authorization::usable(bool push) const {
  return held_ && (held_->push || !push) && clock_.monotonic() < held_->good_until;
}

Result<Credentials> Authorization::credentials() const {
  if (!options_.docker_config) return Credentials{};
  const auto text = options_.docker_config();
  if (!text) return unexpected(text.error());
  auto found = credentials_in(*text, options_.repository);
  if (found) return found;
  Error error = found.error();
  error.reason = kReasonSecretUnusable;
  return unexpected(error);
}

Result<std::string> Authorization::header(bool push) {
  const MutexLock lock(mutex_);
  const bool bearer = options_.tokens || (challenge_ && challenge_->scheme == "bearer");
  if (!bearer) return basic_;
  if (!usable(push)) {
    if (auto got = get_token(push); !got) return unexpected(got.error());
  }
  return "Bearer " + held_->token.value;
}

Status Authorization::get_token(bool push) {
  // Who has pushed once goes on to: one token for both is enough.
  push = push || (held_ && held_->push);
  auto token = options_.tokens ? options_.tokens(push) : ask_realm(push);
  if (!token) return unexpected(token.error());
  const std::chrono::milliseconds life = token->lifetime;
  const auto before = std::min<std::chrono::milliseconds>(kBefore, life / 5);
  held_ = Held{std::move(*token), push, clock_.monotonic() + life - before};
  return {};
}

// As https://distribution.github.io/distribution/spec/auth/token/ says; with an identity token the
// OAuth2 form of it.
Result<Token> Authorization::ask_realm(bool push) {
  const std::string realm = challenge_->parameter("realm");
  const std::string doing = "getting a token for " + options_.repository.host + " from " + realm;
  auto known = credentials();
  if (!known) return unexpected(known.error().with(doing));
  const std::string scope =
      "repository:" + options_.repository.repository + (push ? ":pull,push" : ":pull");
  std::string query =
      "service=" + query_encode(challenge_->parameter("service")) + "&scope=" + query_encode(scope);
  http::SessionRequest request{.url = realm};
  request.deadline = std::chrono::steady_clock::now() + kTokenTime;
  if (!known->identity_token.empty()) {
    request.method = "POST";
    request.headers = {{"Content-Type", "application/x-www-form-urlencoded"}};
    request.body = "grant_type=refresh_token&client_id=compilecache&refresh_token=" +
                   query_encode(known->identity_token) + "&" + query;
  } else {
    if (!known->username.empty()) {
      request.headers = {
          {"Authorization", "Basic " + base64_encode(known->username + ":" + known->password)}};
      query += "&account=" + query_encode(known->username);
    }
    request.url += (realm.find('?') == std::string::npos ? "?" : "&") + query;
  }
  auto answer = session_.start(request);
  if (!answer) return unexpected(no_answer(answer.error(), doing).error);
  auto text = http::read_all(**answer, kMostTokenBytes);
  if (!text) return unexpected(no_answer(text.error(), doing).error);
  if ((*answer)->status() != 200) {
    Refusal refusal = refusal_of({(*answer)->status(), (*answer)->headers(), *text}, doing);
    // Whatever the token service lacks, no blob is missing.
    if (refusal.error.code == ErrorCode::kNotFound) refusal.error.code = ErrorCode::kUnauthorized;
    return unexpected(with_reason(refusal.error));
  }
  auto token = parse_token(*text);
  if (!token) return unexpected(with_reason(token.error().with(doing)));
  return token;
}

Status Authorization::renew(const std::string& sent, const std::vector<Challenge>& challenges,
                            bool push) {
  const MutexLock lock(mutex_);
  if (options_.tokens) {
    // Another thread may have renewed it already.
    if (held_ && sent != "Bearer " + held_->token.value && usable(push)) return {};
    return get_token(push);
  }
  const auto find = [&](const char* scheme) {
    return std::find_if(challenges.begin(), challenges.end(),
                        [&](const Challenge& one) { return one.scheme == scheme; });
  };
  const auto nothing = [&](const std::string& why) {
    Error error{ErrorCode::kUnauthorized, options_.repository.host + " " + why};
    error.reason = kReasonUnauthorized;
    return unexpected(error);
  };
  if (const auto bearer = find("bearer");
      bearer != challenges.end() && !bearer->parameter("realm").empty()) {
    if (held_ && sent != "Bearer " + held_->token.value && usable(push)) return {};
    challenge_ = *bearer;
    return get_token(push);
  }
  if (find("basic") == challenges.end())
    return nothing("asks for credentials in a way that is not known here (no Basic, no Bearer)");
  auto known = credentials();
  if (!known) return unexpected(known.error());
  if (known->username.empty()) {
    return nothing(
        "asks for a name and password: name a Secret with them in "
        "spec.storage.registry.secretName");
  }
  const std::string value = "Basic " + base64_encode(known->username + ":" + known->password);
  if (value == sent) {
    return nothing("does not accept the name and password of the Secret: correct them there");
  }
  basic_ = value;
  challenge_ = *find("basic");
  return {};
}

}  // namespace compilecache::store
