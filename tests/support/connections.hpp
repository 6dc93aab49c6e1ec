#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

// Connections on 127.0.0.1 for servers of a test's own that stand between programs.
//
//   ConnectionServer front([&](Connection& client) {
//     const std::string head = client.read_head();
//     if (!redirect(client, head)) client.relay(registry_port, head);
//   });
//   front.port();

namespace compilecache::testing {

// A client's. Its methods return when it, or the server, is ended.
class Connection {
 public:
  Connection(int fd, const std::atomic<bool>& ended) : fd_(fd), ended_(ended) {}

  // Up to an empty line, a byte at a time; "": it ended before.
  std::string read_head();
  bool send(std::string_view bytes);
  // Sends `first` to that port of this machine, then passes on what either side sends until one of
  // them ends, or until so many bytes were sent either way. False: nobody listens there, and
  // nothing was sent.
  bool relay(uint16_t port, std::string_view first, std::atomic<int64_t>* bytes_left = nullptr);

 private:
  const int fd_;
  const std::atomic<bool>& ended_;
};

// Serves each connection in a thread of its own. The destructor ends them.
class ConnectionServer {
 public:
  explicit ConnectionServer(std::function<void(Connection&)> serve);
  ~ConnectionServer();
  ConnectionServer(const ConnectionServer&) = delete;
  ConnectionServer& operator=(const ConnectionServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  void accept_all();

  const std::function<void(Connection&)> serve_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread accepting_;
};

}  // namespace compilecache::testing
