#include <atomic>

#include "tests/support/connections.hpp"
#include "tests/unit/store/registry_fixture.hpp"

// The network between a pod and its registry is cut after the n-th byte of any request or
// response. A save is whole or nothing, a load exact or an error, and the next one succeeds.

namespace compilecache::store::test {
namespace {

// Far more than is sent here, so nothing is cut.
constexpr int64_t kNever = INT64_MAX / 2;
// Coprime with what sizes there are, so that cuts fall anywhere.
constexpr int64_t kStep = 997;

class RegistryCutsTest : public RegistryTest {
 protected:
  [[nodiscard]] RegistryOptions through_the_network() const {
    RegistryOptions there = options();
    there.host = network_.host();
    return there;
  }
  // How many bytes go either way meanwhile.
  int64_t bytes_of(const std::function<void()>& what) {
    left_ = kNever;
    what();
    return kNever - left_;
  }

  const uint16_t port_ =
      static_cast<uint16_t>(std::stoi(registry_.host().substr(registry_.host().find(':') + 1)));
  std::atomic<int64_t> left_ = kNever;  // bytes; everything works again after them
  testing::ConnectionServer network_{[this](testing::Connection& client) {
    client.relay(port_, "", &left_);
    if (left_ <= 0) left_ = kNever;
  }};
  const Tree small_{{"a", {archive::test::noise(20'000, 1), false}}, {"b", {"x", true}}};
};

TEST_F(RegistryCutsTest, ASaveThatIsCutAfterAnyByteIsWholeOrNotThere) {
  const int64_t all = bytes_of([&] {
    RegistryStore store(through_the_network());
    ASSERT_TRUE(save(store, small_));
  });
  ASSERT_GT(all, 20'000);
  for (int64_t n = 1; n < all; n += kStep) {
    registry_.clear();
    left_ = n;
    RegistryStore store(through_the_network());
    const auto saved = save(store, small_);
    left_ = kNever;
    ASSERT_TRUE(saved) << n << ": " << saved.error().message;  // one cut is made up for
    const auto loaded = load(store, saved->archive.manifest);
    ASSERT_TRUE(loaded) << n << ": " << loaded.error().message;
    ASSERT_EQ(*loaded, small_) << n;
  }
}

TEST_F(RegistryCutsTest, ALoadThatIsCutAfterAnyByteIsExact) {
  RegistryStore saver(options());
  const auto saved = save(saver, small_);
  ASSERT_TRUE(saved);
  const auto load_there = [&] {
    RegistryStore store(through_the_network());
    return load(store, saved->archive.manifest);
  };
  const int64_t all = bytes_of([&] { ASSERT_TRUE(load_there()); });
  ASSERT_GT(all, 20'000);
  for (int64_t n = 1; n < all; n += kStep) {
    left_ = n;
    const auto loaded = load_there();
    left_ = kNever;
    ASSERT_TRUE(loaded) << n << ": " << loaded.error().message;
    ASSERT_EQ(*loaded, small_) << n;
  }
}

}  // namespace
}  // namespace compilecache::store::test
