#include "tests/unit/http/raw_socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace compilecache::http::testing {

RawSocket::RawSocket(uint16_t port, bool ipv6)
    : fd_(socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0)) {
  const timeval patience{60, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (ipv6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = in6addr_loopback;
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
}

RawSocket::~RawSocket() { close(fd_); }

bool RawSocket::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::string RawSocket::read_until(std::string_view marker) {
  for (;;) {
    if (!marker.empty()) {
      const size_t at = buffer_.find(marker);
      if (at != std::string::npos) {
        std::string result = buffer_.substr(0, at + marker.size());
        buffer_.erase(0, result.size());
        return result;
      }
    }
    char chunk[4096];
    const ssize_t size = recv(fd_, chunk, sizeof chunk, 0);
    if (size <= 0) return std::exchange(buffer_, {});
    buffer_.append(chunk, static_cast<size_t>(size));
  }
}

RawServer::RawServer(std::function<void(int)> serve) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
  listen(fd_, 8);
  socklen_t size = sizeof address;
  getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this, serve = std::move(serve)] {
    for (;;) {
      const int connection = accept(fd_, nullptr, nullptr);
      if (connection < 0) return;
      serve(connection);
      close(connection);
    }
  });
}

RawServer::~RawServer() {
  shutdown(fd_, SHUT_RDWR);
  thread_.join();
  close(fd_);
}

}  // namespace compilecache::http::testing
