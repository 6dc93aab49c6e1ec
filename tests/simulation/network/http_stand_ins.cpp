#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "http/client.hpp"
#include "http/session.hpp"
#include "tests/simulation/network/mailbox.hpp"
#include "tests/simulation/network/network.hpp"
#include "tests/simulation/os/scheduler.hpp"

namespace compilecache::simulation {

Network& network() {
  static Network the_network;
  return the_network;
}

namespace {

constexpr uint64_t kMicrosecond = 1000;

Chance& latency() {
  static Chance chance("network");
  return chance;
}

void travel(uint64_t at_most) { sleep_for_ns(static_cast<int64_t>(latency().below(at_most)) + 1); }

// "https://host:port/path?query" from its path on.
RegistryRequest request_of(const http::SessionRequest& from, std::string body) {
  const size_t path = from.url.find('/', from.url.find("://") + 3);
  const size_t query = from.url.find('?');
  RegistryRequest request{.method = from.method, .headers = from.headers, .body = std::move(body)};
  request.path = from.url.substr(path, query == std::string::npos ? query : query - path);
  if (query != std::string::npos) request.query = from.url.substr(query + 1);
  return request;
}

class WholeAnswer : public http::Answer {
 public:
  WholeAnswer(http::Response response, std::string url, bool is_cut)
      : response_(std::move(response)),
        url_(std::move(url)),
        end_(is_cut ? response_.body.size() / 2 : response_.body.size()) {
    if (!http::find_header(response_.headers, "Content-Length")) {
      response_.headers.emplace_back("Content-Length", std::to_string(response_.body.size()));
    }
  }
  [[nodiscard]] int status() const override { return response_.status; }
  [[nodiscard]] const http::Headers& headers() const override { return response_.headers; }
  [[nodiscard]] const std::string& url() const override { return url_; }
  Result<size_t> read(std::span<uint8_t> bytes) override {
    const size_t count = std::min(bytes.size(), end_ - at_);
    if (count == 0 && !bytes.empty() && end_ < response_.body.size()) {
      return fail(ErrorCode::kUnavailable, "cut off");
    }
    std::memcpy(bytes.data(), response_.body.data() + at_, count);
    at_ += count;
    if (count > 0) yield();
    return count;
  }

 private:
  http::Response response_;
  const std::string url_;
  const size_t end_;
  size_t at_ = 0;
};

}  // namespace
}  // namespace compilecache::simulation

namespace compilecache::http {

namespace sim = compilecache::simulation;

class Session::State {
 public:
  explicit State(const SessionOptions& options)
      : cutoff_(options.cutoff), stall_(options.stall_timeout) {}

  // Lets the registry take its time; an error when the client has waited long enough.
  Status wait(int64_t delay, const SessionRequest& request) {
    const auto now = std::chrono::steady_clock::now();
    const auto stall = now + stall_;
    const auto deadline = request.deadline ? std::min(stall, *request.deadline) : stall;
    const auto cut = cutoff_ == nullptr ? SteadyTime::max() : cutoff_->at();
    const auto end = std::min(deadline, cut);
    if (now + std::chrono::nanoseconds(delay) < end) {
      sim::sleep_for_ns(delay);
      return {};
    }
    sim::sleep_for_ns(std::chrono::nanoseconds(end - now).count());
    if (cut <= deadline) return fail(ErrorCode::kCancelled, "cut off by the caller");
    return fail(ErrorCode::kTimeout, "no answer from the registry");
  }

 private:
  const Cutoff* const cutoff_;
  const std::chrono::milliseconds stall_;
};

Session::Session(SessionOptions options) : state_(std::make_unique<State>(options)) {}
Session::~Session() = default;
void Session::trust(std::string /*ca_pem*/) {}

Result<std::unique_ptr<Answer>> Session::start(const SessionRequest& request) {
  sim::travel(10'000 * sim::kMicrosecond);
  std::string body = request.body;
  if (request.source != nullptr) {
    body.resize(request.source->size());
    auto* bytes = reinterpret_cast<uint8_t*>(body.data());
    if (auto read = request.source->read_at({bytes, body.size()}, 0); !read) {
      return unexpected(read.error());
    }
  }
  sim::SimulatedRegistry& registry = *sim::network().registry;
  const auto waited = state_->wait(registry.delay(), request);
  // What the client no longer waits for is done all the same.
  auto response = registry.handle(sim::request_of(request, std::move(body)));
  if (!waited) return unexpected(waited.error());
  if (!response) return fail(ErrorCode::kUnavailable, "connecting to the registry: refused");
  sim::travel(2'000 * sim::kMicrosecond);
  return std::unique_ptr<Answer>(std::make_unique<sim::WholeAnswer>(
      std::move(*response), request.url, registry.cuts_a_body()));
}

Client::Client(ClientOptions options) : options_(std::move(options)) {}

Result<Response> Client::send(const ClientRequest& request) const {
  sim::travel(3'000 * sim::kMicrosecond);
  auto& network = sim::network();
  ++network.agent_requests;
  if (!network.agent_api) return fail(ErrorCode::kUnavailable, "connecting: refused");
  const size_t query = request.target.find('?');
  Request sent{.method = request.method, .path = request.target.substr(0, query)};
  if (query != std::string::npos) sent.query = request.target.substr(query + 1);
  sent.headers = {{"Authorization", "Bearer " + request.bearer_token},
                  {"Content-Type", request.content_type}};
  sent.body = request.body;
  sent.peer = sim::current_name();
  const auto mailbox = std::make_shared<sim::Mailbox>();
  const int64_t began = sim::now_ns();
  network.agent_api(options_.address, sent, make_responder(std::weak_ptr<AnswerSink>(mailbox), 1));
  auto response = mailbox->wait_for(request.timeout.value_or(options_.total_timeout), request.stop);
  if (request.stop.stop_requested()) return fail(ErrorCode::kUnavailable, "given up");
  if (!response) return fail(ErrorCode::kTimeout, "no answer in time");
  if (network.answered) network.answered({began, std::move(sent), *response});
  return *response;
}

}  // namespace compilecache::http
