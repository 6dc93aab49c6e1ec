#include "archive_fixture.hpp"
#include "tests/support/paths.hpp"

#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

namespace compilecache::archive::test {

namespace fs = std::filesystem;

TempDir::TempDir(const std::string& in) {
  std::string pattern = (fs::path(in) / "archive-test-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_file(const std::string& path, const std::string& bytes, bool executable) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
  ::chmod(path.c_str(), executable ? 0755 : 0644);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_tree(const std::string& root, const Tree& tree) {
  fs::create_directories(root);
  // All files get the same time, so that equal trees make equal archives.
  const auto when = fs::file_time_type::clock::from_sys(
      std::chrono::sys_seconds(std::chrono::seconds(1'700'000'000)));
  for (const auto& [path, file] : tree) {
    write_file(root + "/" + path, file.bytes, file.executable);
    fs::last_write_time(root + "/" + path, when);
  }
}

Tree read_tree(const std::string& root) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const bool executable =
        (entry.status().permissions() & fs::perms::owner_exec) != fs::perms::none;
    tree[fs::relative(entry.path(), root).string()] = {read_file(entry.path()), executable};
  }
  return tree;
}

std::vector<std::string> names_below(const std::string& root) {
  std::vector<std::string> names;
  if (!fs::exists(root)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(root))
    names.push_back(fs::relative(entry.path(), root).string());
  return names;
}

std::string noise(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

Result<WriteResult> write_into(const std::string& path, WriteRequest request) {
  store::DirectoryStore store(path);
  return write_archive(store, std::move(request));
}

void unpack_real_cache(const std::string& name, const std::string& into) {
  fs::create_directories(into);
  run("zstd -dcq --long=27 " + testing::testdata("caches/") + name + ".tar.zst | tar -x -C " +
      into);
}

std::string run(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> chunk{};
  while (const size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe))
    output.append(chunk.data(), count);
  const int status = ::pclose(pipe);
  EXPECT_EQ(status, 0) << command << "\n" << output;
  return output;
}

ArchiveTest::ArchiveTest() : store_(temp_.path("store")) {
  const auto prepared = store_.prepare(owner_, false);
  EXPECT_TRUE(prepared) << prepared.error().message;
}

std::vector<SourceFile> ArchiveTest::sources(const std::string& root, const std::string& prefix) {
  std::vector<SourceFile> files;
  for (const auto& [path, file] : read_tree(root))
    files.push_back({root + "/" + path, prefix + path});
  return files;
}

WriteRequest ArchiveTest::save_request(const Tree& tree, const std::string& parent) {
  const std::string root = temp_.path("source-" + std::to_string(++counter_));
  write_tree(root, tree);
  WriteRequest request;
  request.parent = parent;
  request.files = sources(root);
  request.settings.compression_level = 1;
  request.settings.frame_bytes = 64 << 10;
  return request;
}

WriteResult ArchiveTest::save(const Tree& tree, const std::string& parent,
                              const WriteSettings& settings) {
  const std::string root = temp_.path("source-" + std::to_string(++counter_));
  write_tree(root, tree);
  WriteRequest request;
  request.parent = parent;
  request.files = sources(root);
  request.settings = settings;
  auto written = write_archive(store_, request);
  EXPECT_TRUE(written) << written.error().message;
  return written.value_or(WriteResult{});
}

Result<ExtractReport> ArchiveTest::try_load(const std::string& manifest, const std::string& into) {
  ExtractOptions options;
  options.roots = {{"torch", into}};
  return extract(store_, manifest, options);
}

Tree ArchiveTest::load(const std::string& manifest, unsigned threads) {
  const std::string into = temp_.path("loaded-" + std::to_string(++counter_));
  ExtractOptions options;
  options.roots = {{"torch", into}};
  options.threads = threads;
  const auto report = extract(store_, manifest, options);
  EXPECT_TRUE(report) << report.error().message;
  if (!report) return {};
  Tree tree = read_tree(into);
  EXPECT_EQ(report->files, tree.size());
  return tree;
}

}  // namespace compilecache::archive::test
