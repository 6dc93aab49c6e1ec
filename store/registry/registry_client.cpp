#include "store/registry/registry_client.hpp"

#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <utility>

#include "archive/fs.hpp"
#include "http/url.hpp"
#include "store/registry/reference.hpp"

namespace compilecache::store {
namespace {

constexpr size_t kMostErrorBytes = 64U << 10;
constexpr uint64_t kMostConfigBytes = 1U << 20;

// An unreadable source of a mount: never a missing blob.
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
            const Clock& clock, const Cutoff& cutoff)
      : session(std::move(session_options)),
        authorization(std::move(authorization_options), session, clock, cutoff) {}
  http::Session session;
  Authorization authorization;
};

RegistryClient::RegistryClient(RegistryOptions options)
    : options_(std::move(options)),
      sleep_(options_.sleep ? options_.sleep : [this](std::chrono::milliseconds time) {
        [[maybe_unused]] const bool whole = cutoff_.sleep(time);
      }) {}
RegistryClient::~RegistryClient() = default;

const Clock& RegistryClient::clock() const {
  return options_.clock != nullptr ? *options_.clock : SystemClock::instance();
}

std::string RegistryClient::origin() const {
  return (options_.plain_http ? "http://" : "https://") + api_host(options_.host);
}

bool RegistryClient::is_registry(const std::string& url) const {
  const auto other = http::parse_url(url), own = http::parse_url(origin());
  return other && own && other->same_origin(*own);
}

std::string RegistryClient::doing(const RegistryRequest& request) const {
  return request.doing + " in " + name();
}

// All zero where there is none: reading it says why.
RegistryClient::FileStamp RegistryClient::stamp_of(const std::string& path) {
  struct stat file {};
  if (path.empty() || ::stat(path.c_str(), &file) != 0) return {};
  const auto in_nanoseconds = [](const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {static_cast<int64_t>(file.st_dev), static_cast<int64_t>(file.st_ino), file.st_size,
          in_nanoseconds(file.st_mtim), in_nanoseconds(file.st_ctim)};
}

Result<std::string> RegistryClient::authorities() const {
  if (options_.ca_file.empty()) return options_.ca_pem;
  auto pem = read_authorities(options_.ca_file);
  if (!pem) return unexpected(pem.error());
  return options_.ca_pem + *pem;
}

// The files are read here and not at construction: where they are missing, the first call says so.
// Kubelets replace them when the ConfigMap changes, and a saver lives as long as its pod.
Result<std::shared_ptr<RegistryClient::Connected>> RegistryClient::connect() {
  const FileStamp file = stamp_of(options_.ca_file);
  const MutexLock lock(mutex_);
  if (connected_ != nullptr && file == ca_read_) return connected_;
  if (auto good = check_repository(options_.repository); !good) return unexpected(good.error());
  auto trusted = authorities();
  if (!trusted) return unexpected(trusted.error());
  if (connected_ == nullptr) {
    connected_ = make_connected(std::move(*trusted));
  } else {
    connected_->session.trust(std::move(*trusted));
  }
  ca_read_ = file;
  return connected_;
}

std::shared_ptr<RegistryClient::Connected> RegistryClient::make_connected(std::string ca_pem) {
  // "127.0.0.1" without a port means the scheme's.
  const auto own = http::parse_url(origin());
  const std::string host = own ? own->host_port() : options_.host;
  http::SessionOptions session{.ca_pem = std::move(ca_pem),
                               .system_authorities = options_.system_authorities,
                               .plain_hosts = options_.plain_hosts,
                               .proxy = options_.proxy,
                               .connect_timeout = options_.connect_timeout,
                               .stall_timeout = options_.stall_timeout,
                               .cutoff = &cutoff_};
  if (!options_.address.empty()) {
    session.fixed_host = host;
    session.fixed_address = options_.address;
  }
  if (options_.plain_http) session.plain_hosts.push_back(host);
  AuthorizationOptions authorization{{options_.host, options_.repository}, options_.tokens, {}};
  if (!options_.docker_config_file.empty()) {
    authorization.docker_config = [path = options_.docker_config_file] {
      return read_docker_config(path);
    };
  }
  return std::make_shared<Connected>(std::move(session), std::move(authorization), clock(),
                                     cutoff_);
}

Reply<AnswerPtr> RegistryClient::exchange(Connected& to, const RegistryRequest& request,
                                          const std::string& authorization, ConnectBy connect_by) {
  http::SessionRequest sent{.method = request.method,
                            .url = request.url,
                            .headers = request.headers,
                            .body = request.body,
                            .source = request.source,
                            .connect_by = connect_by};
  if (sent.url.empty()) sent.url = origin() + "/v2/" + options_.repository + "/" + request.target;
  // An upload may be on another host, which is not to see them.
  if (!authorization.empty() && is_registry(sent.url))
    sent.headers.emplace_back("Authorization", authorization);
  if (!request.streamed && request.source == nullptr)
    sent.deadline = std::chrono::steady_clock::now() + options_.answer_timeout;
  auto answer = to.session.start(sent);
  if (!answer) {
    Refusal refusal = no_answer(answer.error(), doing(request));
    // We made the URL.
    if (answer.error().code == ErrorCode::kInvalid && request.url.empty() &&
        !options_.ca_file.empty())
      refusal.error.reason = kReasonCaUnusable;
    return tl::unexpected(std::move(refusal));
  }
  // A redirect that was not followed has done nothing.
  if ((*answer)->status() / 100 == 2) return std::move(*answer);
  return tl::unexpected(refused(**answer, request));
}

Refusal RegistryClient::refused(http::Answer& answer, const RegistryRequest& request) const {
  const auto body = http::read_all(answer, kMostErrorBytes);
  const Unwelcome unwelcome{answer.status(), answer.headers(), body.value_or("")};
  if (is_registry(answer.url())) return refusal_of(unwelcome, doing(request));
  const auto url = http::parse_url(answer.url());
  return refusal_elsewhere(url ? url->authority() : "another host", unwelcome, doing(request));
}

Reply<AnswerPtr> RegistryClient::send_once(Connected& to, const RegistryRequest& request,
                                           ConnectBy connect_by) {
  for (bool renewed = false;;) {
    const auto asked = std::chrono::steady_clock::now();
    const auto authorization = to.authorization.header(request.right);
    // The time for a token is not the registry's.
    if (connect_by) *connect_by += std::chrono::steady_clock::now() - asked;
    if (!authorization) return tl::unexpected(no_answer(authorization.error(), doing(request)));
    auto answer = exchange(to, request, *authorization, connect_by);
    if (answer || answer.error().status != 401 || answer.error().elsewhere || renewed)
      return answer;
    connect_by.reset();  // it is there
    auto got = to.authorization.renew(*authorization, answer.error().challenges, request.right);
    if (!got) {
      Refusal refusal = answer.error();
      refusal.error = got.error().with(doing(request));
      return tl::unexpected(std::move(refusal));
    }
    // The first answer may be outdated the next moment.
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
    auto answer = send_once(**to, request, tries.connect_by());
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
  const auto nowhere = [&](const std::string& why) {
    Error error{ErrorCode::kUnavailable,
                "the registry " + options_.host + " does not say where to push to (" + why + ")"};
    error.reason = kReasonUnreachable;
    return unexpected(error);
  };
  const auto field = answer.header("Location");
  if (!field || field->empty()) return nowhere("no Location");
  const auto base = http::parse_url(answer.url()), own = http::parse_url(origin());
  auto url = base ? http::follow(*base, *field) : base;
  if (!url) return nowhere(url.error().message);
  // A registry behind a front that ends TLS often does not know that it is spoken to by HTTPS.
  const bool same_port = own && (url->port == own->port || (url->port == 80 && own->port == 443));
  if (own && own->tls() && !url->tls() && url->host == own->host && same_port) {
    url->scheme = own->scheme;
    url->port = own->port;
  }
  return url->text();
}

void finish(http::Answer& answer) {
  std::array<uint8_t, 4096> rest{};
  for (int pieces = 0; pieces < 16; ++pieces) {
    const auto count = answer.read(rest);
    if (!count || *count == 0) return;
  }
}

}  // namespace compilecache::store
