#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "kube/reflector.hpp"
#include "tests/unit/kube/server_test.hpp"

// What memory a reflector needs at most while it gets very many objects. All of this program's
// memory is counted, the scripted server's too, which makes each object when it sends it.

namespace {
std::atomic<int64_t> in_use{0};
std::atomic<int64_t> most{0};

void count(void* block, int sign) {
  const int64_t now = in_use += sign * int64_t(malloc_usable_size(block));
  int64_t before = most;
  while (now > before && !most.compare_exchange_weak(before, now)) {
  }
}
}  // namespace

void* operator new(size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  count(block, 1);
  return block;
}
void operator delete(void* block) noexcept {
  if (block != nullptr) count(block, -1);
  std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }

namespace compilecache::kube {
namespace {

constexpr int kObjects = 10000;
constexpr int64_t kMiB = 1 << 20;

// A pod of some 11 kB, of which a handful of bytes is wanted.
std::string pod_text(int i) {
  const std::string name = "pod-" + std::to_string(i);
  return R"({"kind":"Pod","metadata":{"name":")" + name +
         R"(","namespace":"ml","resourceVersion":"5",)" + R"("managedFields":[{"f:spec":")" +
         std::string(4000, 'x') + R"("}]},"spec":{"containers":[)" + R"({"env":[")" +
         std::string(6500, 'y') + R"("]}]},"status":{"phase":"Running"}})";
}

class ListMemoryTest : public ServerTest {
 protected:
  void follow() {
    in_use = 0;
    most = 0;
    Reflector<std::string> reflector(
        client, {.resource = resources::kPods, .fields = {"/status/phase"}},
        [](const Json& pod) -> Result<std::string> { return pod["status"].value("phase", ""); },
        store);
    reflector.start();
    ASSERT_TRUE(soon([&] { return store.has_synced(); }));
    reflector.stop();
    EXPECT_EQ(store.size(), size_t(kObjects));
    EXPECT_GT(sent, 100 * kMiB);
    // The store itself takes some 2 MiB; a hundredth of what was sent is all there is beside it.
    EXPECT_LT(most, 8 * kMiB);
    std::printf("sent %ld MiB, memory at most %ld KiB, at the end %ld KiB\n", long(sent / kMiB),
                long(most / 1024), long(in_use / 1024));
  }

  std::atomic<int64_t> sent{0};
  Store<std::string> store;
};

TEST_F(ListMemoryTest, OfAListDoesNotDependOnItsLength) {
  server.allow_initial_events(false);
  server.script([&](const FakeRequest& request, FakeConnection& connection) {
    if (!request.is_list()) return false;
    connection.begin_stream();
    connection.chunk(R"({"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[)");
    for (int i = 0; i < kObjects; ++i) {
      const std::string text = (i == 0 ? "" : ",") + pod_text(i);
      connection.chunk(text);
      sent += int64_t(text.size());
    }
    connection.chunk("]}");
    connection.end_stream();
    return true;
  });
  follow();
}

TEST_F(ListMemoryTest, OfAWatchListDoesNotDependOnItsLength) {
  server.script([&](const FakeRequest&, FakeConnection& connection) {
    connection.begin_stream();
    for (int i = 0; i < kObjects; ++i) {
      const std::string text = R"({"type":"ADDED","object":)" + pod_text(i) + "}\n";
      connection.chunk(text);
      sent += int64_t(text.size());
    }
    connection.chunk(R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5",)"
                     R"("annotations":{"k8s.io/initial-events-end":"true"}}}})"
                     "\n");
    connection.wait_closed(std::chrono::minutes(1));
    return true;
  });
  follow();
}

}  // namespace
}  // namespace compilecache::kube
