#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "base/cutoff.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "http/session.hpp"
#include "store/registry/authorization.hpp"
#include "store/registry/refusal.hpp"
#include "store/registry/registry_options.hpp"

// Requests to one repository by the distribution protocol: with its credentials, tried again where
// that makes sense, and with what went wrong in words.
//
//   RegistryClient client(options);
//   auto answer = client.send({.target = "manifests/" + digest, .doing = "reading " + digest});
//   if (!answer) return unexpected(answer.error().error);

namespace compilecache::store {

using AnswerPtr = std::unique_ptr<http::Answer>;
template <typename T>
using Reply = tl::expected<T, Refusal>;

struct RegistryRequest {
  std::string method = "GET";
  std::string target;  // below /v2/REPOSITORY/: "blobs/sha256:..."
  std::string url;     // instead of a target: a whole URL, as uploads have
  http::Headers headers;
  std::string body;
  http::BodySource* source = nullptr;  // instead of a body
  Right right = Right::kPull;          // what it needs permission for
  bool once = false;                   // not tried again here, but for a 401
  bool streamed = false;               // the answer's body may take its time
  std::string doing;                   // "reading blob sha256:...", for messages
};

// Thread-safe. Connects to nothing, and reads no file, before the first request. A file with
// authorities is read again when it has changed.
class RegistryClient {
 public:
  explicit RegistryClient(RegistryOptions options);
  ~RegistryClient();

  // An answer of success, 2xx. After a 401 it gets what is asked for and repeats the request, once.
  Reply<AnswerPtr> send(const RegistryRequest& request);
  // The whole body of a small answer, also where one answer is cut off. kTooLarge: more than
  // `limit` bytes.
  struct Whole {
    int status = 0;
    http::Headers headers;
    std::string body;
  };
  Reply<Whole> send_whole(const RegistryRequest& request, size_t limit);

  // Requests, also those under way, end by then with kCancelled.
  void end_by(http::SteadyTime time) { cutoff_.set(time); }

  // Where an answer's Location leads to: a whole URL. kUnavailable: there is none that can be used.
  [[nodiscard]] Result<std::string> location(const http::Answer& answer) const;

  // "harbor.example.com/ml/caches"
  [[nodiscard]] std::string name() const { return options_.host + "/" + options_.repository; }
  [[nodiscard]] const RegistryOptions& options() const { return options_; }
  [[nodiscard]] const Clock& clock() const;
  [[nodiscard]] Retries retries() const { return {options_.retries, sleep_, cutoff_}; }

 private:
  struct Connected;
  // By which a file is known to be as it was.
  using FileStamp = std::array<int64_t, 5>;
  static FileStamp stamp_of(const std::string& path);

  Result<std::shared_ptr<Connected>> connect();
  std::shared_ptr<Connected> make_connected(std::string ca_pem);
  // The trusted authorities, with the file as it is now.
  [[nodiscard]] Result<std::string> authorities() const;
  using ConnectBy = std::optional<Cutoff::Time>;
  Reply<AnswerPtr> send_once(Connected& to, const RegistryRequest& request, ConnectBy connect_by);
  Reply<AnswerPtr> exchange(Connected& to, const RegistryRequest& request,
                            const std::string& authorization, ConnectBy connect_by);
  [[nodiscard]] std::string origin() const;
  // Whether this URL is the registry itself, and not where it leads to.
  [[nodiscard]] bool is_registry(const std::string& url) const;
  // Why an answer that is no success is none.
  Refusal refused(http::Answer& answer, const RegistryRequest& request) const;
  [[nodiscard]] std::string doing(const RegistryRequest& request) const;

  const RegistryOptions options_;
  const Sleeper sleep_;
  Cutoff cutoff_;
  Mutex mutex_;
  std::shared_ptr<Connected> connected_ GUARDED_BY(mutex_);  // null until needed
  FileStamp ca_read_ GUARDED_BY(mutex_){};                   // which file was read last
};

// Reads to the end what an answer has left, so that its connection can be used again.
void finish(http::Answer& answer);

}  // namespace compilecache::store
