#include "tests/support/connections.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace compilecache::testing {
namespace {

constexpr size_t kLongestHead = 64U << 10;
constexpr int kLookEvery = 100;  // milliseconds

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// False when it is ended before there is anything to read.
bool wait_readable(int fd, const std::atomic<bool>& ended) {
  pollfd one{fd, POLLIN, 0};
  while (!ended) {
    if (::poll(&one, 1, kLookEvery) != 0) return true;
  }
  return false;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void pass_on(int one, int other, const std::atomic<bool>& ended, std::atomic<int64_t>* bytes_left) {
  std::vector<char> bytes(64U << 10);
  pollfd ends[] = {{one, POLLIN, 0}, {other, POLLIN, 0}};
  while (!ended) {
    if (::poll(ends, 2, kLookEvery) == 0) continue;
    for (int from = 0; from < 2; ++from) {
      if (ends[from].revents == 0) continue;
      const ssize_t got = ::recv(ends[from].fd, bytes.data(), bytes.size(), 0);
      if (got <= 0) return;
      const int64_t left = bytes_left == nullptr ? INT64_MAX : bytes_left->fetch_sub(got);
      const auto passed = static_cast<size_t>(std::clamp<int64_t>(left, 0, got));
      if (!send_all(ends[1 - from].fd, {bytes.data(), passed}) || left <= got) return;
    }
  }
}

}  // namespace

std::string Connection::read_head() {
  std::string head;
  for (char byte = 0; !head.ends_with("\r\n\r\n"); head += byte) {
    const bool came =
        head.size() < kLongestHead && wait_readable(fd_, ended_) && ::recv(fd_, &byte, 1, 0) == 1;
    if (!came) return "";
  }
  return head;
}

bool Connection::send(std::string_view bytes) { return send_all(fd_, bytes); }

bool Connection::relay(uint16_t port, std::string_view first, std::atomic<int64_t>* bytes_left) {
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  const bool connected =
      ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (connected && send_all(server, first)) pass_on(fd_, server, ended_, bytes_left);
  ::close(server);
  return connected;
}

ConnectionServer::ConnectionServer(std::function<void(Connection&)> serve)
    : serve_(std::move(serve)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, SOMAXCONN) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("a server of the test cannot listen on 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { accept_all(); });
}

ConnectionServer::~ConnectionServer() {
  ended_ = true;
  accepting_.join();
  ::close(listener_);
}

void ConnectionServer::accept_all() {
  std::vector<std::thread> serving;
  while (wait_readable(listener_, ended_)) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    serving.emplace_back([this, fd] {
      Connection connection(fd, ended_);
      serve_(connection);
      ::close(fd);
    });
  }
  for (std::thread& one : serving) one.join();
}

}  // namespace compilecache::testing
