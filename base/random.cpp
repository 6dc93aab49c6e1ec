#include "base/random.hpp"

#include <openssl/rand.h>

#include <array>
#include <memory>
#include <random>

#include "base/hex.hpp"
#include "base/mutex.hpp"

namespace compilecache {

Random system_random() {
  return [] {
    std::array<uint8_t, 8> bytes{};
    RAND_bytes(bytes.data(), bytes.size());
    uint64_t value = 0;
    for (const uint8_t byte : bytes) value = value << 8 | byte;
    return value;
  };
}

Random seeded_random(uint64_t seed) {
  struct State {
    explicit State(uint64_t seed) : engine(seed) {}
    Mutex mutex;
    std::mt19937_64 engine GUARDED_BY(mutex);
  };
  auto state = std::make_shared<State>(seed);
  return [state] {
    const MutexLock lock(state->mutex);
    return static_cast<uint64_t>(state->engine());
  };
}

std::string random_id(const Random& random) {
  const uint64_t value = random();
  std::array<uint8_t, 8> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  return to_hex(bytes);
}

double random_fraction(const Random& random) {
  return static_cast<double>(random() >> 11) * 0x1.0p-53;
}

}  // namespace compilecache
