#include "store/registry/authorization.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/checked_json.hpp"
#include "base/strings.hpp"
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

// The actions on this repository that a challenge's scope names: "delete" of
// "repository:ml/a:delete"; nothing where it names none.
std::optional<std::string> actions_in(const std::string& scope, const std::string& repository) {
  const std::string prefix = "repository:" + repository + ":";
  for (const std::string& one : split(scope, ' ')) {
    if (one.starts_with(prefix) && one.size() > prefix.size()) return one.substr(prefix.size());
  }
  return std::nullopt;
}

Error with_reason(Error error) {
  if (error.reason.empty()) error.reason = kReasonUnauthorized;
  return error;
}

}  // namespace

// Token services differ in what they call the right to delete ("delete", "*", "push"), and some
// refuse to answer at all when they do not know the word. Therefore the registry is asked first,
// with the token for pulling or pushing, and its challenge says what to ask for. A token of the
// caller's covers deleting where it covers pushing.
Right Authorization::asked_as(Right right) const {
  if (right != Right::kDelete) return right;
  if (options_.tokens) return Right::kPush;
  return delete_actions_.empty() ? Right::kPull : Right::kDelete;
}

std::optional<Authorization::Held>& Authorization::held_for(Right right) {
  return right == Right::kDelete ? deleting_ : held_;
}

bool Authorization::usable(Right right) {
  const auto& held = held_for(right);
  return held && (held->push || right != Right::kPush) && clock_.monotonic() < held->good_until;
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

Result<std::string> Authorization::header(Right wanted) {
  const MutexLock lock(mutex_);
  const bool bearer = options_.tokens || (challenge_ && challenge_->scheme == "bearer");
  if (!bearer) return basic_;
  const Right right = asked_as(wanted);
  if (!usable(right)) {
    if (auto got = get_token(right); !got) return unexpected(got.error());
  }
  return "Bearer " + held_for(right)->token.value;
}

Status Authorization::get_token(Right right) {
  auto& held = held_for(right);
  // A client that has pushed once will push again: one token for both is enough.
  const bool push = right == Right::kPush || (held && held->push);
  if (cutoff_.passed()) {
    return fail(ErrorCode::kCancelled, "a token is not asked for, as the time for it is up");
  }
  const std::string actions = right == Right::kDelete ? delete_actions_
                              : push                  ? "pull,push"
                                                      : "pull";
  auto token = options_.tokens ? options_.tokens(push, cutoff_.at()) : ask_realm(actions);
  if (!token) return unexpected(token.error());
  const std::chrono::milliseconds life = token->lifetime;
  const auto before = std::min<std::chrono::milliseconds>(kBefore, life / 5);
  held = Held{std::move(*token), push, clock_.monotonic() + life - before};
  return {};
}

// As https://distribution.github.io/distribution/spec/auth/token/ says; with an identity token the
// OAuth2 form of it.
Result<Token> Authorization::ask_realm(const std::string& actions) {
  const std::string realm = challenge_->parameter("realm");
  const std::string doing = "getting a token for " + options_.repository.host + " from " + realm;
  auto known = credentials();
  if (!known) return unexpected(known.error().with(doing));
  const std::string scope = "repository:" + options_.repository.repository + ":" + actions;
  std::string query =
      "service=" + query_encode(challenge_->parameter("service")) + "&scope=" + query_encode(scope);
  http::SessionRequest request{.url = realm};
  request.deadline = std::chrono::steady_clock::now() + kTokenTime;
  if (!known->identity_token.empty()) {
    request.method = "POST";
    request.same_origin = true;
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
    // If the token service lacks something, still no blob is missing.
    if (refusal.error.code == ErrorCode::kNotFound) refusal.error.code = ErrorCode::kUnauthorized;
    return unexpected(with_reason(refusal.error));
  }
  auto token = parse_token(*text);
  if (!token) return unexpected(with_reason(token.error().with(doing)));
  return token;
}

Status Authorization::replace(const std::string& sent, Right right) {
  // Another thread may have renewed it already.
  if (usable(right) && sent != "Bearer " + held_for(right)->token.value) return {};
  return get_token(right);
}

Status Authorization::renew(const std::string& sent, const std::vector<Challenge>& challenges,
                            Right wanted) {
  const MutexLock lock(mutex_);
  if (options_.tokens) return replace(sent, asked_as(wanted));
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
    challenge_ = *bearer;
    if (wanted == Right::kDelete) {
      const auto asked = actions_in(bearer->parameter("scope"), options_.repository.repository);
      delete_actions_ = asked.value_or("pull,delete");
    }
    return replace(sent, wanted);
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
