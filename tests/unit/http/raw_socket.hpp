#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

// Sockets without manners, for what no HTTP library would send.

namespace compilecache::http::testing {

// A TCP connection to 127.0.0.1 (or ::1).
class RawSocket {
 public:
  explicit RawSocket(uint16_t port, bool ipv6 = false);
  ~RawSocket();
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int descriptor() const { return fd_; }
  // False when the other side has closed, or takes nothing for a minute.
  bool send(std::string_view bytes) const;
  // Reads until `marker` is in what came, or the connection ends.
  std::string read_until(std::string_view marker);
  // Reads until the connection ends; a minute at most, so that a test ends.
  std::string read_all() { return read_until({}); }

 private:
  int fd_;
  bool connected_ = false;
  std::string buffer_;
};

// Listens on 127.0.0.1 and gives each connection's descriptor to `serve`, one after another, which
// leaves closing to us.
class RawServer {
 public:
  explicit RawServer(std::function<void(int fd)> serve);
  ~RawServer();
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  int fd_;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace compilecache::http::testing
