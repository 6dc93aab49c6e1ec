#include "base/mutex.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/support/soon.hpp"

namespace compilecache {
namespace {

using std::chrono::milliseconds;

struct Shared {
  Mutex mutex;
  CondVar changed;
  int value GUARDED_BY(mutex) = 0;

  void set(int to) {
    const MutexLock lock(mutex);
    value = to;
    changed.notify_all();
  }
  bool becomes(int wanted, milliseconds longest) {
    const MutexLock lock(mutex);
    return changed.wait_for(mutex, longest, [&]() REQUIRES(mutex) { return value == wanted; });
  }
};

// Another thread: the one that holds a lock may not ask for it.
bool is_free(Mutex& mutex) {
  std::atomic<bool> had{false};
  std::thread other([&] {
    const MutexLock lock(mutex);
    had = true;
  });
  const bool free = testing::soon([&] { return had.load(); });
  other.join();
  return free;
}

TEST(Mutex, HoldsOthersOffUntilItIsGivenBackForAWhileOrForGood) {
  Mutex mutex;
  int order = 0;
  int first = 0;
  int second = 0;
  std::thread other;
  {
    MutexLock lock(mutex);
    other = std::thread([&] {
      const MutexLock its(mutex);
      second = ++order;
    });
    first = ++order;
    lock.unlock();
    EXPECT_TRUE(is_free(mutex));
    lock.lock();
  }
  other.join();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  {
    MutexLock lock(mutex);
    lock.unlock();
  }  // not given back twice
  EXPECT_TRUE(is_free(mutex));
}

TEST(CondVar, WaitsUntilThePredicateIsTrueAndSaysSo) {
  Shared shared;
  EXPECT_FALSE(shared.becomes(1, milliseconds(1)));
  std::thread other([&] { shared.set(1); });
  EXPECT_TRUE(shared.becomes(1, std::chrono::minutes(1)));
  other.join();
  EXPECT_TRUE(is_free(shared.mutex));
}

TEST(CondVar, GivesTheLockBackWhileItWaits) {
  Shared shared;
  const MutexLock lock(shared.mutex);
  std::thread other([&] { shared.set(1); });
  shared.changed.wait(shared.mutex, [&]() REQUIRES(shared.mutex) { return shared.value == 1; });
  other.join();
  const auto long_ago = std::chrono::steady_clock::now() - milliseconds(1);
  EXPECT_FALSE(shared.changed.wait_until(
      shared.mutex, long_ago, [&]() REQUIRES(shared.mutex) { return shared.value == 2; }));
}

TEST(CondVar, APredicateThatThrowsLeavesTheLockHeldOnceAndThenFree) {
  Shared shared;
  const auto throwing = []() -> bool { throw std::runtime_error("no"); };
  {
    const MutexLock lock(shared.mutex);
    EXPECT_THROW(shared.changed.wait(shared.mutex, throwing), std::runtime_error);
    shared.value = 1;  // still held
  }
  EXPECT_TRUE(is_free(shared.mutex));
}

TEST(SharedMutex, HasManyReadersOrOneWriter) {
  SharedMutex mutex;
  int value = 0;
  std::atomic<int> read{-1};
  {
    const ReaderLock lock(mutex);
    std::thread reader([&] {
      const ReaderLock its(mutex);
      read = value;
    });
    EXPECT_TRUE(testing::soon([&] { return read == 0; }));
    reader.join();
  }
  std::thread reader;
  {
    const WriterLock lock(mutex);
    reader = std::thread([&] {
      const ReaderLock its(mutex);
      read = value;
    });
    value = 1;
  }
  reader.join();
  EXPECT_EQ(read, 1);
}

}  // namespace
}  // namespace compilecache
