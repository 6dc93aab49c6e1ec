#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "http/message.hpp"
#include "http/server.hpp"
#include "tests/unit/http/certificates.hpp"

namespace compilecache::agent::testing {

struct Call {
  std::string method, path;
  nlohmann::json body;
  std::string token;
};

// An operator of one archive: answers the agent API over HTTPS like the real one does, unless a
// test scripts it otherwise. Thread-safe.
class FakeOperator {
 public:
  // At that address and port; 0: any port.
  explicit FakeOperator(const std::string& address = "127.0.0.1", int port = 0);
  ~FakeOperator();

  [[nodiscard]] int port() const;
  [[nodiscard]] std::string ca() const { return ca_.pem(); }
  static constexpr char kName[] = "agent-api.test.svc";

  // Asked first for each call; nothing: the usual answer. Its references must live until
  // wait_until_idle().
  using Script = std::function<std::optional<http::Response>(const Call& call)>;
  void script(Script script);

  void set_head(const std::string& digest, int64_t generation);
  // The pod's own ranks' folders.
  void set_ranks(const std::vector<std::string>& directories);
  [[nodiscard]] std::string head() const;
  void set_lock_timeout(int64_t milliseconds);

  // All calls so far to `path` (a prefix) with that method.
  [[nodiscard]] std::vector<Call> calls(const std::string& method, const std::string& path) const;
  // Waits until there are `count` of them.
  bool wait_for(const std::string& method, const std::string& path, size_t count) const;
  // Until no call is being answered, of a process that has ended.
  void wait_until_idle() const;

 private:
  http::Response answer(const Call& call);
  http::Response begin_save(const Call& call);
  http::Response commit(const Call& call);

  http::testing::TestCa ca_;
  mutable std::mutex mutex_;
  mutable std::condition_variable called_;
  std::vector<Call> calls_;
  int answering_ = 0;
  Script script_;
  std::string head_;
  std::vector<std::string> ranks_;
  int64_t generation_ = 0;
  int64_t fence_ = 0;
  int64_t lock_timeout_ = 30'000;
  std::unique_ptr<http::Server> server_;
};

// How long a test waits for what has to happen; by CC_TEST_PATIENCE (seconds) where it is expected
// not to (tests/mutate).
std::chrono::seconds patience();

http::Response json_response(const nlohmann::json& body, int status = 200);
http::Response error_response(int status, const std::string& code);

}  // namespace compilecache::agent::testing
