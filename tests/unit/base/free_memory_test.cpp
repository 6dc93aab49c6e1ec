#include "base/free_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <thread>
#include <vector>

namespace compilecache {
namespace {

// Resident pages of this process.
long resident() {
  long size = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

TEST(FreeMemory, GoesBackToTheSystem) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return_free_memory();  // the sanitizer's allocator has its own ways
#else
  constexpr size_t kCount = 1 << 16, kSize = 1024;  // below what is mapped by itself
  std::vector<std::unique_ptr<char[]> > blocks;
  for (size_t i = 0; i < kCount; ++i) blocks.push_back(std::make_unique<char[]>(kSize));
  auto last = std::make_unique<char[]>(kSize);  // holds the end of the heap
  const long before = resident();
  blocks.clear();
  return_free_memory();
  EXPECT_LT(resident(), before - static_cast<long>(kCount * kSize / 2));
#endif
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(MemoryWatch, GivesBackWhatABurstHasLeft) {
  constexpr size_t kCount = 1 << 16, kSize = 1024;
  MemoryWatch watch;
  std::vector<std::unique_ptr<char[]> > blocks;
  for (size_t i = 0; i < kCount; ++i) blocks.push_back(std::make_unique<char[]>(kSize));
  auto last = std::make_unique<char[]>(kSize);
  EXPECT_FALSE(watch.look()) << "all of it is in use";
  const long before = resident();
  blocks.clear();
  EXPECT_TRUE(watch.look());
  EXPECT_LT(resident(), before - static_cast<long>(kCount * kSize / 2));
  EXPECT_FALSE(watch.look()) << "once";
}
#endif

TEST(FreeMemory, IsReturnedByManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) threads.emplace_back([] { return_free_memory(); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace compilecache
