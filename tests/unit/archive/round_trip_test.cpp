#include <fcntl.h>
#include <sys/stat.h>

#include "archive/blob_store.hpp"
#include "archive_fixture.hpp"

// A load gives exactly what was saved.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

class RealCache : public ArchiveTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(RealCache, ComesBackByteForByte) {
  unpack_real_cache(GetParam(), temp_.path("real"));
  WriteRequest request;
  request.files = sources(temp_.path("real"));
  ASSERT_GT(request.files.size(), 20U);
  const auto written = write_archive(store_, request);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_TRUE(written->left_out.empty());
  EXPECT_EQ(written->archive.files, request.files.size());
  EXPECT_EQ(written->added_files, request.files.size());

  const Tree expected = read_tree(temp_.path("real"));
  EXPECT_EQ(load(written->archive.manifest, 1), expected);
  EXPECT_EQ(load(written->archive.manifest, 4), expected);
  EXPECT_TRUE(verify(store_, written->archive.manifest));
}

INSTANTIATE_TEST_SUITE_P(All, RealCache,
                         ::testing::Values("inductor-cpu-torch2.14", "vllm-binary-llama-t4",
                                           "vllm-triton-rocm"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

using RoundTrip = ArchiveTest;

TEST_F(RoundTrip, KeepsOddNamesSizesAndModes) {
  const std::string deep =
      std::string(120, 'd') + "/" + std::string(200, 'e') + "/" + std::string(255, 'f');
  const Tree tree = {
      {"empty", {"", false}},
      {"empty.sh", {"", true}},
      {"tool", {"#!/bin/sh\n", true}},
      {"with space/and \"quotes\" \\ and umlaut \xC3\xA4", {"x", false}},
      {deep, {"deep", true}},
      {std::string(100, 'n'), {"a name as long as ustar takes", false}},
      {std::string(101, 'n'), {"and one longer", false}},
      {"block", {std::string(512, 'b'), false}},
      {"block+1", {std::string(513, 'b'), false}},
      {"sparse", {std::string(3 << 20, '\0'), false}},
      {"large", {noise(9 << 20, 1), false}},
  };
  const auto saved = save(tree);
  EXPECT_EQ(load(saved.archive.manifest), tree);
  EXPECT_EQ(load(saved.archive.manifest, 7), tree);
}

TEST_F(RoundTrip, EqualContentAndTimesMakeEqualDigests) {
  const Tree tree = {{"b", {noise(5 << 20, 2), false}}, {"a/x", {"1", true}}, {"a/y", {"1", true}}};
  const auto first = save(tree);
  WriteSettings other_threads;
  other_threads.threads = 5;
  const auto second = save(tree, "", other_threads);
  EXPECT_EQ(first.archive.manifest, second.archive.manifest);
  EXPECT_EQ(second.written_bytes, 0U) << "the store had every blob already";
}

TEST_F(RoundTrip, EveryUserCanExtendWhatWasLoadedWhateverTheUmask) {
  const auto saved = save({{"ab/plain", {"1", false}}, {"ab/cd/run", {"2", true}}});
  const std::string into = temp_.path("into");
  const mode_t before = ::umask(077);
  const auto loaded = try_load(saved.archive.manifest, into);
  ::umask(before);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto mode = [&](const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat((into + path).c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  };
  EXPECT_EQ(mode(""), 0777U);
  EXPECT_EQ(mode("/ab"), 0777U);
  EXPECT_EQ(mode("/ab/cd"), 0777U);
  EXPECT_EQ(mode("/ab/plain"), 0666U);
  EXPECT_EQ(mode("/ab/cd/run"), 0777U);
}

TEST_F(RoundTrip, ReadsShowInTheAccessTime) {
  const auto saved = save(
      {{"small", {"1", false}}, {"empty", {"", false}}, {"large", {noise(9 << 20, 3), false}}});
  const std::string into = temp_.path("into");
  ASSERT_TRUE(try_load(saved.archive.manifest, into));
  for (const char* name : {"/small", "/empty", "/large"}) {
    struct stat info {};
    ASSERT_EQ(::stat((into + name).c_str(), &info), 0);
    EXPECT_EQ(info.st_atim.tv_sec, 1) << name;
    EXPECT_GT(info.st_mtim.tv_sec, 1'000'000) << name;
  }
}

TEST_F(RoundTrip, SavingLeavesAccessTimesAlone) {
  const std::string root = temp_.path("tree");
  write_tree(root, {{"x", {noise(1 << 20, 4), false}}, {"y", {noise(1 << 20, 5), false}}});
  const timespec old[2] = {{1, 0}, {0, UTIME_OMIT}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root + "/x").c_str(), old, 0), 0);
  WriteRequest request;
  request.files = {{root + "/x", "torch/x"}, {root + "/y", "torch/y"}};
  ASSERT_TRUE(write_archive(store_, request));
  struct stat info {};
  ASSERT_EQ(::stat((root + "/x").c_str(), &info), 0);
  EXPECT_EQ(info.st_atim.tv_sec, 1);
}

TEST_F(RoundTrip, RootsGoWhereTheyAreMapped) {
  const std::string root = temp_.path("tree");
  write_tree(root, {{"t", {"torch", false}}, {"r", {"triton", false}}, {"v", {"vllm", false}}});
  WriteRequest request;
  request.files = {
      {root + "/t", "torch/a/t"}, {root + "/r", "triton/b/r"}, {root + "/v", "vllm/v"}};
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved) << saved.error().message;

  ExtractOptions options;
  options.roots = {{"torch", temp_.path("one")}, {"triton", temp_.path("two")}};
  const auto report = extract(store_, saved->archive.manifest, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(read_tree(temp_.path("one")), (Tree{{"a/t", {"torch", false}}}));
  EXPECT_EQ(read_tree(temp_.path("two")), (Tree{{"b/r", {"triton", false}}}));
  EXPECT_EQ(report->files, 2U);
  EXPECT_EQ(report->skipped_files, 1U);
  EXPECT_EQ(report->skipped_roots, std::vector<std::string>{"vllm"});

  options.roots = {{"", temp_.path("all")}};
  ASSERT_TRUE(extract(store_, saved->archive.manifest, options));
  EXPECT_EQ(read_tree(temp_.path("all")).size(), 3U);
  options.roots = {{"torch", temp_.path("three")}, {"torch", temp_.path("four")}};
  EXPECT_FALSE(extract(store_, saved->archive.manifest, options)) << "which of them is meant";
}

TEST_F(RoundTrip, ThousandsOfFilesInManyDirectories) {
  Tree tree;
  for (int i = 0; i < 3000; ++i) {
    tree["d" + std::to_string(i % 400) + "/e/f" + std::to_string(i)] = {noise(i % 700, i),
                                                                        i % 3 == 0};
  }
  const auto saved = save(tree);
  EXPECT_EQ(load(saved.archive.manifest), tree);
}

TEST_F(RoundTrip, DescribesItself) {
  WriteRequest request;
  write_tree(temp_.path("t"), {{"x", {"12345", false}}, {"y", {"12345", false}}});
  request.files = sources(temp_.path("t"));
  request.annotations = {{"dev.compilecache.key.GPUProduct", "NVIDIA-H100-80GB-HBM3"}};
  const auto saved = write_archive(store_, request);
  ASSERT_TRUE(saved);
  const auto manifest = read_manifest(store_, saved->archive.manifest);
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(manifest->annotations, request.annotations);
  const auto config = read_config(store_, *manifest);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->plain_bytes(), 10U);
  ASSERT_NE(config->find("torch/y"), nullptr);
  EXPECT_EQ(config->find("torch/y")->from, "torch/x");
  EXPECT_EQ(config->find("torch/z"), nullptr);
  const auto blobs = saved->archive.blobs();
  EXPECT_EQ(blobs.size(), 3U);
  uint64_t size = 0;
  for (const auto& digest : blobs) size += fs::file_size(store_.blob_path(digest));
  EXPECT_EQ(saved->archive.compressed_bytes, size);
  EXPECT_EQ(saved->written_bytes, size);
}

}  // namespace
}  // namespace compilecache::archive::test
