#include "tests/unit/agent/fake_operator.hpp"

#include <cstdlib>
#include <stdexcept>

namespace compilecache::agent::testing {

using nlohmann::json;

namespace {

const json kKey{{"GPUProduct", "NVIDIA-H100-80GB-HBM3"}, {"Image", "app:1"}};

// As the operator says it: with the kind of CPU that the saver names.
json key_for(const Call& call) {
  json key = kKey;
  key["CPU"] = call.body.value("cpu", "");
  return key;
}

}  // namespace

std::chrono::seconds patience() {
  const char* seconds = std::getenv("CC_TEST_PATIENCE");
  return std::chrono::seconds(seconds == nullptr ? 300 : std::atoi(seconds));
}

http::Response json_response(const json& body, int status) {
  http::Response response;
  response.status = status;
  response.body = body.dump();
  return response;
}

http::Response error_response(int status, const std::string& code) {
  return json_response({{"error", {{"code", code}, {"message", "scripted"}}}}, status);
}

FakeOperator::FakeOperator(const std::string& address, int port) : ca_("CA of " + address) {
  http::ServerOptions options;
  options.address = address;
  options.port = static_cast<uint16_t>(port);
  auto server =
      http::Server::start(options, [this](http::Request request, http::Responder respond) {
        const json body = json::parse(request.body, nullptr, false);
        respond(answer({request.method, request.path, body,
                        std::string(request.bearer_token().value_or(""))}));
      });
  if (!server) throw std::runtime_error(server.error().message);
  server_ = std::move(*server);
  const auto pair = ca_.issue(kName);
  if (!server_->set_certificate(pair.certificate_pem, pair.key_pem)) {
    throw std::runtime_error("certificate");
  }
}

FakeOperator::~FakeOperator() = default;

int FakeOperator::port() const { return server_->port(); }

void FakeOperator::script(Script script) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void FakeOperator::set_head(const std::string& digest, int64_t generation) {
  const std::lock_guard lock(mutex_);
  head_ = digest;
  generation_ = generation;
}

void FakeOperator::set_ranks(const std::vector<std::string>& directories) {
  const std::lock_guard lock(mutex_);
  ranks_ = directories;
}

std::string FakeOperator::head() const {
  const std::lock_guard lock(mutex_);
  return head_;
}

void FakeOperator::set_lock_timeout(int64_t milliseconds) {
  const std::lock_guard lock(mutex_);
  lock_timeout_ = milliseconds;
}

std::vector<Call> FakeOperator::calls(const std::string& method, const std::string& path) const {
  const std::lock_guard lock(mutex_);
  std::vector<Call> found;
  for (const Call& call : calls_) {
    if (call.method == method && call.path.starts_with(path)) found.push_back(call);
  }
  return found;
}

bool FakeOperator::wait_for(const std::string& method, const std::string& path,
                            size_t count) const {
  std::unique_lock lock(mutex_);
  return called_.wait_for(lock, patience(), [&] {
    size_t found = 0;
    for (const Call& call : calls_) {
      found += call.method == method && call.path.starts_with(path) ? 1 : 0;
    }
    return found >= count;
  });
}

void FakeOperator::wait_until_idle() const {
  std::unique_lock lock(mutex_);
  called_.wait_for(lock, patience(), [&] { return answering_ == 0; });
}

http::Response FakeOperator::answer(const Call& call) {
  Script script;
  {
    const std::lock_guard lock(mutex_);
    script = script_;
    ++answering_;
  }
  std::optional<http::Response> response;
  if (script) response = script(call);
  const std::lock_guard lock(mutex_);
  if (!response && call.path == "/v1/load") {
    response = head_.empty() ? json_response({{"decision", "none"}, {"reason", "no_archive"}})
                             : json_response({{"decision", "load"},
                                              {"match", "exact"},
                                              {"archive", "demo-1"},
                                              {"manifest_digest", head_},
                                              {"generation", generation_},
                                              {"gpu_product", "NVIDIA-H100-80GB-HBM3"},
                                              {"rank_directories", ranks_},
                                              {"key", kKey}});
  }
  if (!response && call.path == "/v1/saves") response = begin_save(call);
  if (!response && call.path.ends_with("/commit")) response = commit(call);
  calls_.push_back(call);
  --answering_;
  called_.notify_all();
  return response.value_or(json_response(json::object()));
}

http::Response FakeOperator::begin_save(const Call& call) {
  const bool refresh = call.body.value("refresh", false);
  ++fence_;
  return json_response({{"decision", "granted"},
                        {"id", "demo-1." + std::to_string(fence_)},
                        {"fence", fence_},
                        {"lock_timeout_ms", lock_timeout_},
                        {"archive", "demo-1"},
                        {"key", key_for(call)},
                        {"gpu_product", "NVIDIA-H100-80GB-HBM3"},
                        {"generation", generation_ + 1},
                        {"parent_digest", refresh ? "" : head_}});
}

http::Response FakeOperator::commit(const Call& call) {
  if (call.body.value("fence", int64_t{0}) != fence_) return error_response(409, "Conflict");
  head_ = call.body.value("manifest_digest", "");
  ++generation_;
  return json_response({{"manifest_digest", head_},
                        {"generation", generation_},
                        {"saved_at", "2026-01-02T03:04:05Z"}});
}

}  // namespace compilecache::agent::testing
