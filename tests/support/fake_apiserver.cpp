#include "tests/support/fake_apiserver.hpp"

#include <sys/socket.h>

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/support/fake_objects.hpp"

namespace compilecache::testing {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Json = nlohmann::json;
using Socket = asio::ip::tcp::socket;

std::string decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      decoded += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

FakeRequest read_request(const http::request<http::string_body>& from) {
  FakeRequest request;
  request.method = std::string(from.method_string());
  const std::string target(from.target());
  const size_t question = target.find('?');
  request.path = decode(target.substr(0, question));
  if (question != std::string::npos) {
    std::stringstream query(target.substr(question + 1));
    for (std::string pair; std::getline(query, pair, '&');) {
      const size_t equals = pair.find('=');
      request.query[decode(pair.substr(0, equals))] =
          equals == std::string::npos ? "" : decode(pair.substr(equals + 1));
    }
  }
  for (const auto& field : from) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    request.headers[name] = std::string(field.value());
  }
  request.body = from.body();
  return request;
}

class Connection : public FakeConnection {
 public:
  explicit Connection(Socket socket) : socket_(std::move(socket)) {}

  bool read(FakeRequest& request) {
    http::request<http::string_body> message;
    beast::error_code error;
    http::read(socket_, buffer_, message, error);
    if (error) return false;
    request = read_request(message);
    return true;
  }

  void reply(int status, const std::string& body,
             const std::map<std::string, std::string>& headers) override {
    std::string text = "HTTP/1.1 " + std::to_string(status) + " X\r\n";
    for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size());
    write(text + "\r\n\r\n" + body);
  }
  void begin_stream(const std::string& content_type) override {
    write("HTTP/1.1 200 OK\r\nContent-Type: " + content_type +
          "\r\nTransfer-Encoding: chunked\r\n\r\n");
  }
  void chunk(const std::string& text) override { write(size_line(text.size()) + text + "\r\n"); }
  void end_stream() override { write("0\r\n\r\n"); }
  void half_chunk(const std::string& text) override { write(size_line(text.size() + 100) + text); }
  void half_chunk_then_cut(const std::string& text) override {
    half_chunk(text);
    cut();
  }
  void cut() override { close(); }
  bool wait_closed(std::chrono::milliseconds time) override {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) {
      if (closed_ || peer_gone()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return closed_;
  }

  // From any thread: what blocks in this connection returns.
  void close() {
    closed_ = true;
    ::shutdown(socket_.native_handle(), SHUT_RDWR);
  }
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  static std::string size_line(size_t size) {
    std::ostringstream line;
    line << std::hex << size << "\r\n";
    return line.str();
  }
  void write(const std::string& text) {
    beast::error_code error;
    asio::write(socket_, asio::buffer(text), error);
    if (error) closed_ = true;
  }
  bool peer_gone() {
    char byte = 0;
    const ssize_t got =
        ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT | MSG_NOSIGNAL);
    return got == 0;
  }

  Socket socket_;
  beast::flat_buffer buffer_;
  std::atomic<bool> closed_{false};
};

}  // namespace

struct FakeApiServer::Impl {
  explicit Impl(uint16_t port) : acceptor(io, {asio::ip::make_address("127.0.0.1"), port}) {}

  asio::io_context io;
  asio::ip::tcp::acceptor acceptor;
  FakeObjects objects;
  std::atomic<bool> initial_events{true};
  mutable std::mutex mutex;  // guards what follows
  std::list<Script> scripts;
  std::vector<FakeRequest> requests;
  std::list<std::shared_ptr<Connection>> connections;
  std::list<std::thread> threads;
  bool stopping = false;
  std::thread accepting;

  void accept() {
    while (true) {
      beast::error_code error;
      Socket socket(io);
      acceptor.accept(socket, error);
      std::lock_guard<std::mutex> lock(mutex);
      if (error || stopping) return;
      auto connection = std::make_shared<Connection>(std::move(socket));
      connections.push_back(connection);
      threads.emplace_back([this, connection] { serve(*connection); });
    }
  }

  void serve(Connection& connection) {
    FakeRequest request;
    while (!connection.closed() && connection.read(request)) {
      {
        std::lock_guard<std::mutex> lock(mutex);
        requests.push_back(request);
      }
      if (!run_script(request, connection)) answer(request, connection);
    }
    connection.close();
  }

  bool run_script(const FakeRequest& request, Connection& connection) {
    std::list<Script> one;
    std::unique_lock<std::mutex> lock(mutex);
    for (auto it = scripts.begin(); it != scripts.end(); ++it) {
      // Taken out while it runs, so that no other request gets it.
      auto next = std::next(it);
      one.splice(one.begin(), scripts, it);
      lock.unlock();
      const bool answered = one.front()(request, connection);
      if (answered) return true;
      lock.lock();
      scripts.splice(next, one);
      it = std::prev(next);
    }
    return false;
  }

  void answer(const FakeRequest& request, Connection& connection) {
    if (request.method == "GET" && request.is_watch()) {
      watch(request, connection);
      return;
    }
    const FakeAnswer answer = objects.answer(request);
    connection.reply(answer.status, answer.body, {});
  }

  void watch(const FakeRequest& request, Connection& connection) {
    if (!initial_events && !request.parameter("sendInitialEvents").empty()) {
      connection.reply(422, fake_status(422, "Invalid", "sendInitialEvents is forbidden"), {});
      return;
    }
    auto watch = objects.watch(request);
    connection.begin_stream("application/json");
    while (!connection.closed()) {
      const FakeObjects::Next next = watch->next(std::chrono::milliseconds(20));
      if (!next.line.empty()) connection.chunk(next.line);
      if (next.ended) {
        if (next.cut) {
          connection.cut();
        } else {
          connection.end_stream();
        }
        return;
      }
      if (next.line.empty() && connection.wait_closed(std::chrono::milliseconds(1))) return;
    }
  }
};

std::string FakeRequest::parameter(const std::string& name) const {
  auto found = query.find(name);
  return found == query.end() ? "" : found->second;
}

bool FakeRequest::is_list() const {
  return method == "GET" && !is_watch() && FakeObjects::is_collection(path);
}

FakeApiServer::FakeApiServer(uint16_t port) : impl_(std::make_unique<Impl>(port)) {
  impl_->accepting = std::thread([this] { impl_->accept(); });
}

FakeApiServer::~FakeApiServer() {
  {
    std::lock_guard<std::mutex> lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->objects.end_watches(End::kClosed);
  ::shutdown(impl_->acceptor.native_handle(), SHUT_RDWR);
  impl_->accepting.join();
  close_all();
  for (std::thread& thread : impl_->threads) thread.join();
}

uint16_t FakeApiServer::port() const { return impl_->acceptor.local_endpoint().port(); }

std::string FakeApiServer::url() const { return "http://127.0.0.1:" + std::to_string(port()); }

void FakeApiServer::script(Script script) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->scripts.push_back(std::move(script));
}

size_t FakeApiServer::scripts_left() const {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->scripts.size();
}

std::vector<FakeRequest> FakeApiServer::requests() const {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->requests;
}

Json FakeApiServer::put(const std::string& collection, Json object) {
  return impl_->objects.put(collection, std::move(object));
}
void FakeApiServer::erase(const std::string& collection, const std::string& ns,
                          const std::string& name) {
  impl_->objects.erase(collection, ns, name);
}
void FakeApiServer::bookmark(const std::string& collection) { impl_->objects.bookmark(collection); }
std::map<std::string, Json> FakeApiServer::objects(const std::string& collection) const {
  return impl_->objects.all(collection);
}
int64_t FakeApiServer::version() const { return impl_->objects.version(); }
void FakeApiServer::allow_initial_events(bool allowed) { impl_->initial_events = allowed; }
void FakeApiServer::compact() { impl_->objects.compact(); }
void FakeApiServer::end_watches(End how) { impl_->objects.end_watches(how); }

void FakeApiServer::close_all() {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  for (auto& connection : impl_->connections) connection->close();
}

}  // namespace compilecache::testing
