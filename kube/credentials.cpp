#include "kube/credentials.hpp"

#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"

namespace compilecache::kube {
namespace {

// Source of both: client-go's transport/token_source.go and exec plugin.
constexpr Duration kReadFilesEvery = std::chrono::minutes(1);
constexpr Duration kExpiryLeeway = std::chrono::seconds(10);

Result<std::string> read_file(const std::string& path, const std::string& what) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kIo, "reading " + what + ": cannot open " + path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (trim(text).empty())
    return fail(ErrorCode::kIo, "reading " + what + ": " + path + " is empty");
  return text;
}

class Source : public CredentialSource {
 public:
  Source(Config config, const Clock& clock) : config_(std::move(config)), clock_(clock) {}

  Result<Credentials> current() override {
    const MutexLock lock(mutex_);
    const bool due = !read_ || clock_.monotonic() - read_at_ >= kReadFilesEvery;
    if (due || rejected_) {
      if (auto read = read_files(); !read) return unexpected(read.error());
    }
    if (config_.exec && (rejected_ || !plugin_ || plugin_expired())) {
      if (auto ran = run_plugin(); !ran) return unexpected(ran.error());
    }
    rejected_ = false;
    Credentials credentials = files_;
    if (plugin_) {
      const Credentials& given = plugin_->credentials;
      if (!given.bearer_token.empty()) credentials.bearer_token = given.bearer_token;
      if (!given.client_certificate.empty()) {
        credentials.client_certificate = given.client_certificate;
        credentials.client_key = given.client_key;
      }
    }
    return credentials;
  }

  void rejected(const Credentials& credentials) override {
    const MutexLock lock(mutex_);
    // Another thread may have fetched new ones in the meantime.
    const std::string& token = plugin_ && !plugin_->credentials.bearer_token.empty()
                                   ? plugin_->credentials.bearer_token
                                   : files_.bearer_token;
    if (credentials.bearer_token == token) rejected_ = true;
  }

 private:
  // Earlier credentials stay valid when reading fails later.
  Status read_files() REQUIRES(mutex_) {
    Credentials fresh;
    Status status = read_into(fresh);
    if (!status && !read_) return status;
    if (status) {
      files_ = std::move(fresh);
    } else {
      log_warn("keeping the credentials read before", {{"error", status.error().message}});
    }
    read_ = true;
    read_at_ = clock_.monotonic();
    return {};
  }

  Status read_into(Credentials& fresh) const {
    fresh.bearer_token = config_.token;
    if (!config_.token_file.empty()) {
      auto token = read_file(config_.token_file, "the token");
      if (!token) return unexpected(token.error());
      fresh.bearer_token = std::string(trim(*token));
    }
    auto certificate = read_pem(config_.client_certificate, "the client certificate");
    if (!certificate) return unexpected(certificate.error());
    auto key = read_pem(config_.client_key, "the client key");
    if (!key) return unexpected(key.error());
    fresh.client_certificate = std::move(*certificate);
    fresh.client_key = std::move(*key);
    return {};
  }

  [[nodiscard]] bool plugin_expired() const REQUIRES(mutex_) {
    return plugin_expires_ && clock_.wall() + kExpiryLeeway >= *plugin_expires_;
  }

  Status run_plugin() REQUIRES(mutex_) {
    auto fresh = run_exec_plugin(*config_.exec, config_);
    if (!fresh) return unexpected(fresh.error());
    plugin_expires_.reset();
    if (!fresh->expiration.empty()) {
      auto expires = parse_time(fresh->expiration);
      if (!expires) {
        return unexpected(
            expires.error().with("reading the expirationTimestamp of " + config_.exec->command));
      }
      plugin_expires_ = *expires;
    }
    plugin_ = std::move(*fresh);
    return {};
  }

  const Config config_;
  const Clock& clock_;
  Mutex mutex_;
  Credentials files_ GUARDED_BY(mutex_);
  bool read_ GUARDED_BY(mutex_) = false;
  Monotonic read_at_ GUARDED_BY(mutex_){};
  bool rejected_ GUARDED_BY(mutex_) = false;
  std::optional<ExecCredential> plugin_ GUARDED_BY(mutex_);
  std::optional<WallTime> plugin_expires_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<CredentialSource> make_credential_source(const Config& config, const Clock& clock) {
  return std::make_unique<Source>(config, clock);
}

Result<std::string> read_pem(const PemSource& source, const std::string& what) {
  if (!source.data.empty()) return source.data;
  if (source.file.empty()) return std::string();
  return read_file(source.file, what);
}

}  // namespace compilecache::kube
