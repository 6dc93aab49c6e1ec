#include "store/registry/registry_client.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <thread>
#include <utility>

#include "archive/fs.hpp"
#include "store/registry/reference.hpp"

namespace compilecache::store {
namespace {

constexpr size_t kMostErrorBytes = 64U << 10;
constexpr uint64_t kMostConfigBytes = 1U << 20;

void sleep_here(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

bool same_text(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// "https://host:port" of a URL.
std::string_view origin_of(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  return url.substr(0, std::min(url.find_first_of("/?#", scheme + 3), url.size()));
}

// What could not be read where it is to be mounted: never a missing blob.
tl::unexpected<Error> not_mounted(const Error& why, const std::string& what, const char* reason) {
  Error error = why.with("reading " + what);
  error.code = ErrorCode::kInvalid;
  error.reason = reason;
  return unexpected(error);
}

// Kubelets leave the folder empty where there is no such object.
bool is_empty_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  const auto entries = std::filesystem::directory_iterator(folder, failed);
  return failed || entries == std::filesystem::directory_iterator();
}

Result<std::string> read_docker_config(const std::string& path) {
  auto text = archive::read_small_file(path, kMostConfigBytes);
  if (text) return text;
  const bool missing = text.error().code == ErrorCode::kNotFound;
  const bool empty = is_empty_folder(std::filesystem::path(path).parent_path());
  return not_mounted(text.error(), "the credentials of the registry's Secret",
                     !missing ? kReasonSecretUnusable
                     : empty  ? kReasonSecretMissing
                              : kReasonSecretWrongType);
}

Result<std::string> read_authorities(const std::string& path) {
  const std::string what = "the authorities of the registry (ca.crt of its ConfigMap)";
  auto pem = archive::read_small_file(path, kMostConfigBytes);
  if (!pem) {
    const bool missing = pem.error().code == ErrorCode::kNotFound;
    return not_mounted(pem.error(), what, missing ? kReasonCaMissing : kReasonCaUnusable);
  }
  if (pem->find("-----BEGIN CERTIFICATE-----") != std::string::npos) return pem;
  return not_mounted({ErrorCode::kInvalid, path + " has no certificate in PEM"}, what,
                     kReasonCaUnusable);
}

}  // namespace

struct RegistryClient::Connected {
  Connected(http::SessionOptions session_options, AuthorizationOptions authorization_options,
            const Clock& clock)
      : session(std::move(session_options)),
        authorization(std::move(authorization_options), session, clock) {}
  http::Session session;
  Authorization authorization;
};

RegistryClient::RegistryClient(RegistryOptions options)
    : options_(std::move(options)), sleep_(options_.sleep ? options_.sleep : sleep_here) {}
RegistryClient::~RegistryClient() = default;

const Clock& RegistryClient::clock() const {
  return options_.clock != nullptr ? *options_.clock : SystemClock::instance();
}

std::string RegistryClient::origin() const {
  return (options_.plain_http ? "http://" : "https://") + api_host(options_.host);
}

std::string RegistryClient::doing(const RegistryRequest& request) const {
  return request.doing + " in " + name();
}

// The files are read here and not at construction: where they are missing, the first call says so.
Result<std::shared_ptr<RegistryClient::Connected>> RegistryClient::connect() {
  const MutexLock lock(mutex_);
  if (connected_ != nullptr) return connected_;
  if (auto good = check_repository(options_.repository); !good) return unexpected(good.error());
  http::SessionOptions session{.ca_pem = options_.ca_pem,
                               .system_authorities = options_.system_authorities,
                               .plain_hosts = options_.plain_hosts,
                               .proxy = options_.proxy,
                               .connect_timeout = options_.connect_timeout,
                               .stall_timeout = options_.stall_timeout};
  if (!options_.ca_file.empty()) {
    auto pem = read_authorities(options_.ca_file);
    if (!pem) return unexpected(pem.error());
    session.ca_pem += *pem;
  }
  if (!options_.address.empty()) {
    session.fixed_host = options_.host;
    session.fixed_address = options_.address;
  }
  if (options_.plain_http) session.plain_hosts.push_back(options_.host);
  AuthorizationOptions authorization{{options_.host, options_.repository}, options_.tokens, {}};
  if (!options_.docker_config_file.empty()) {
    authorization.docker_config = [path = options_.docker_config_file] {
      return read_docker_config(path);
    };
  }
  connected_ = std::make_shared<Connected>(std::move(session), std::move(authorization), clock());
  return connected_;
}

Reply<AnswerPtr> RegistryClient::exchange(Connected& to, const RegistryRequest& request,
                                          const std::string& authorization) {
  http::SessionRequest sent{.method = request.method,
                            .url = request.url,
                            .headers = request.headers,
                            .body = request.body,
                            .source = request.source};
  if (sent.url.empty()) sent.url = origin() + "/v2/" + options_.repository + "/" + request.target;
  // An upload may be on another host, which is not to see them.
  if (!authorization.empty() && same_text(origin_of(sent.url), origin()))
    sent.headers.emplace_back("Authorization", authorization);
  if (!request.streamed && request.source == nullptr)
    sent.deadline = std::chrono::steady_clock::now() + options_.answer_timeout;
  auto answer = to.session.start(sent);
  if (!answer) {
    Refusal refusal = no_answer(answer.error(), doing(request));
    // The URL is ours.
    if (answer.error().code == ErrorCode::kInvalid && request.url.empty() &&
        !options_.ca_file.empty())
      refusal.error.reason = kReasonCaUnusable;
    return tl::unexpected(std::move(refusal));
  }
  if ((*answer)->status() < 400) return std::move(*answer);
  auto body = http::read_all(**answer, kMostErrorBytes);
  return tl::unexpected(
      refusal_of({(*answer)->status(), (*answer)->headers(), body.value_or("")}, doing(request)));
}

Reply<AnswerPtr> RegistryClient::send_once(Connected& to, const RegistryRequest& request) {
  for (bool renewed = false;;) {
    const auto authorization = to.authorization.header(request.push);
    if (!authorization) return tl::unexpected(no_answer(authorization.error(), doing(request)));
    auto answer = exchange(to, request, *authorization);
    if (answer || answer.error().status != 401 || renewed) return answer;
    auto got = to.authorization.renew(*authorization, answer.error().challenges, request.push);
    if (!got) {
      Refusal refusal = answer.error();
      refusal.error = got.error().with(doing(request));
      return tl::unexpected(std::move(refusal));
    }
    // What was asked for the first time may be outdated the next moment.
    renewed = !authorization->empty();
    // Not from the middle of an upload that the registry may have ended.
    if (request.source != nullptr && request.once) return answer;
  }
}

Reply<AnswerPtr> RegistryClient::send(const RegistryRequest& request) {
  auto to = connect();
  if (!to) return tl::unexpected(Refusal{0, {}, std::nullopt, {}, to.error().with(doing(request))});
  Retries tries = retries();
  for (;;) {
    auto answer = send_once(**to, request);
    if (answer || request.once || !tries.again(answer.error())) return answer;
  }
}

Reply<RegistryClient::Whole> RegistryClient::send_whole(const RegistryRequest& request,
                                                        size_t limit) {
  Retries tries = retries();
  for (;;) {
    auto answer = send(request);
    if (!answer) return tl::unexpected(answer.error());
    auto body = http::read_all(**answer, limit);
    if (body) return Whole{(*answer)->status(), (*answer)->headers(), std::move(*body)};
    Refusal cut = no_answer(body.error(), doing(request));
    if (!tries.again(cut)) return tl::unexpected(std::move(cut));
  }
}

Result<std::string> RegistryClient::location(const http::Answer& answer) const {
  const auto field = answer.header("Location");
  if (!field || field->empty()) {
    Error error{ErrorCode::kUnavailable,
                "the registry " + options_.host + " does not say where to push to (no Location)"};
    error.reason = kReasonUnreachable;
    return unexpected(error);
  }
  std::string url(*field);
  if (url.rfind("//", 0) == 0) return origin().substr(0, origin().find("//")) + url;
  if (url.front() == '/') return std::string(origin_of(answer.url())) + url;
  if (url.find("://") == std::string::npos)
    return answer.url().substr(0, answer.url().find_last_of('/') + 1) + url;
  // A registry behind a front that ends TLS often does not know that it is spoken to by HTTPS.
  constexpr std::string_view kPlain = "http://";
  if (!options_.plain_http && url.rfind(kPlain, 0) == 0 &&
      same_text(origin_of(url).substr(kPlain.size()), api_host(options_.host)))
    url.replace(0, kPlain.size(), "https://");
  return url;
}

void finish(http::Answer& answer) {
  std::array<uint8_t, 4096> rest{};
  for (int pieces = 0; pieces < 16; ++pieces) {
    const auto count = answer.read(rest);
    if (!count || *count == 0) return;
  }
}

}  // namespace compilecache::store
