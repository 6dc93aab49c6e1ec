#include <atomic>
#include <thread>

#include "store/index.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// Many writers and readers use one store at once.

namespace compilecache::archive::test {
namespace {

using Concurrent = ArchiveTest;

TEST_F(Concurrent, WritersOfTheSameContentAllSucceed) {
  const std::string root = temp_.path("tree");
  write_tree(root, {{"a", {noise(3 << 20, 80), false}}, {"b/c", {noise(70'000, 81), true}}});
  WriteRequest request;
  request.files = sources(root);
  std::vector<Result<WriteResult>> results(6, WriteResult{});
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] { result = write_archive(store_, request); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->archive.manifest, results[0]->archive.manifest);
  }
  EXPECT_EQ(names_below(store_.path() + "/blobs/sha256").size(), 3U);
  EXPECT_EQ(load(results[0]->archive.manifest), read_tree(root));
}

TEST_F(Concurrent, LoadsWhileOthersSave) {
  const Tree tree = {{"a", {noise(3 << 20, 82), false}}, {"b/c", {noise(70'000, 83), true}}};
  const auto saved = save(tree);
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::string name = std::to_string(i);
      const std::string into = temp_.path("into" + name);
      const bool loaded = try_load(saved.archive.manifest, into) && read_tree(into) == tree;
      write_tree(temp_.path("new" + name), {{"n" + name, {noise(50'000, 90 + i), false}}});
      WriteRequest request;
      request.parent = saved.archive.manifest;
      request.files = sources(temp_.path("new" + name));
      const auto next = write_archive(store_, request);
      if (loaded && next && store_.note_node_product("node-" + name, "P").has_value()) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
}

TEST_F(Concurrent, TheIndexIsNeverTorn) {
  std::vector<std::thread> threads;
  std::atomic<bool> torn = false;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int generation = 1; generation <= 20; ++generation) {
        const IndexEntry entry{"sha256:" + std::string(64, static_cast<char>('a' + i)),
                               1,
                               {{kAnnotationName, "n" + std::to_string(i)},
                                {kAnnotationGeneration, std::to_string(generation)}}};
        if (!store_.update_index(entry) || !store_.read_index()->problems.empty()) torn = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(torn);
  EXPECT_FALSE(store_.read_index()->entries.empty());
}

}  // namespace
}  // namespace compilecache::archive::test
