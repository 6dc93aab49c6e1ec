#include "tests/support/free_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <random>
#include <set>
#include <stdexcept>

namespace compilecache::testing {
namespace {

constexpr uint16_t kFirst = 10'000;
constexpr uint16_t kCount = 10'000;

bool nobody_has(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  ::close(fd);
  return bound;
}

}  // namespace

uint16_t free_port() {
  static std::mutex mutex;
  static std::set<uint16_t> given;
  static std::random_device random;
  const std::lock_guard lock(mutex);
  for (int tries = 0; tries < kCount; ++tries) {
    const auto port = static_cast<uint16_t>(kFirst + random() % kCount);
    if (nobody_has(port) && given.insert(port).second) return port;
  }
  throw std::runtime_error("no free port between 10000 and 19999");
}

}  // namespace compilecache::testing
