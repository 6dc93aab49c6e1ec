#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "archive_fixture.hpp"

// Properties of every tree, tested with random trees: RC_PARAMS="max_success=2000" tries more of
// them.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

[[maybe_unused]] const int kInMemory =
    ::access("/dev/shm", W_OK) == 0 ? ::setenv("TMPDIR", "/dev/shm", 0) : 0;

template <typename T>
T one_of(const std::vector<T>& all) {
  return *rc::gen::elementOf(all);
}

int number(int from, int below) { return *rc::gen::inRange(from, below); }

// Names that file systems allow, and among them names that sort unexpectedly or look like something
// else.
std::string some_name() {
  if (number(0, 3) > 0) return one_of<std::string>({"a", "b", "c", "A", "a-", "a.", "ab"});
  return one_of<std::string>(
      {" ", "a b", "\"quoted\"", "back\\slash", "-rf", "...", "a\xC3\xA4\xE2\x82\xAC",
       "\xF0\x9F\x98\x80", "PaxHeader", "incomplete", std::string(255, 'w'), std::string(100, 'n'),
       std::string(101, 'n'), "per%cent", "star*", "~", "$HOME", "#", "tab?"});
}

std::string some_path() {
  std::string path = some_name();
  for (int depth = number(0, number(0, 8) == 0 ? 31 : 4); depth > 0; --depth) {
    const std::string longer = path + "/" + some_name();
    if (longer.size() > 3'000) break;
    path = longer;
  }
  return path;
}

std::string some_bytes() {
  static const std::vector<size_t> sizes = {0,    1,     2,     511,   512,    513,
                                            4096, 65535, 65536, 65537, 131072, 300'000};
  const size_t size = number(0, 2) == 0 ? static_cast<size_t>(number(0, 2'000)) : one_of(sizes);
  // There are few different contents, so that some files are equal; zeros are holes, see
  // write_sparse.
  switch (number(0, 4)) {
    case 0:
      return std::string(size, '\0');
    case 1:
      return std::string(size, 'x');
    case 2:
      return std::string(size / 2, '\0') + noise(size - size / 2, 7);
    default:
      return noise(size, static_cast<uint64_t>(number(0, 3)));
  }
}

// No path is another's directory.
Tree some_tree(int most) {
  Tree tree;
  for (int i = number(0, most + 1); i > 0; --i) {
    const std::string path = some_path();
    const bool clashes = std::any_of(tree.begin(), tree.end(), [&](const auto& item) {
      return item.first.starts_with(path + "/") || path.starts_with(item.first + "/");
    });
    if (!clashes) tree[path] = {some_bytes(), *rc::gen::arbitrary<bool>()};
  }
  return tree;
}

// Writes the file without the zeros at its beginning, which become a hole.
void write_sparse(const std::string& path, const FileContent& file) {
  write_file(path, "", file.executable);
  const size_t hole = std::min(file.bytes.find_first_not_of('\0'), file.bytes.size());
  std::ofstream out(path, std::ios::binary);
  out.seekp(static_cast<std::streamoff>(hole));
  out << file.bytes.substr(hole);
  out.close();
  fs::resize_file(path, file.bytes.size());
}

class Store : public ArchiveTest {
 public:
  void TestBody() override {}

  std::string write(const Tree& tree) {
    const std::string root = temp_.path("tree-" + std::to_string(++counter_));
    fs::create_directories(root);
    for (const auto& [path, file] : tree) write_sparse(root + "/" + path, file);
    return root;
  }

  WriteResult save_files(const std::string& root, const std::string& parent) {
    WriteRequest request;
    request.parent = parent;
    request.files = sources(root);
    request.settings.compression_level = 1;
    request.settings.frame_bytes = 64 << 10;
    request.settings.threads = 1;
    auto written = write_archive(store_, request);
    RC_ASSERT(written.has_value());
    return *written;
  }

  std::string save_tree(const Tree& tree, const std::string& parent = "") {
    const std::string root = write(tree);
    const auto written = save_files(root, parent);
    RC_ASSERT(written.left_out.empty());
    fs::remove_all(root);
    return written.archive.manifest;
  }

  Tree load_tree(const std::string& manifest) {
    Tree tree = load(manifest, 1);
    fs::remove_all(temp_.path("loaded-" + std::to_string(counter_)));
    return tree;
  }

  std::string write_with_more(const Tree& tree) {
    const std::string root = write(tree);
    fs::create_directories(root + "/empty-1/empty-2");
    fs::create_symlink("/etc/passwd", root + "/empty-1/link");
    write_file(root + "/control\ncharacter", "x");
    write_file(root + "/not\xFFutf8", "x");
    return root;
  }
};

RC_GTEST_PROP(ArchiveProperties, SaveThenLoadGivesTheSameFiles, ()) {
  Store store;
  const Tree tree = some_tree(25);
  const std::string manifest = store.save_tree(tree);
  if (manifest.empty()) {
    RC_ASSERT(tree.empty());
    return;
  }
  RC_ASSERT(store.load_tree(manifest) == tree);
}

// Directories exist only for the files in them (docs/design/archive-format.md). An archive
// cannot hold is reported and harms nothing else.
RC_GTEST_PROP(ArchiveProperties, WhatCannotBeInAnArchiveIsSaidAndTheRestIsThere, ()) {
  Store store;
  const Tree tree = some_tree(8);
  const auto written = store.save_files(store.write_with_more(tree), "");
  RC_ASSERT(written.left_out.size() == 3U);  // the link, and two names
  if (tree.empty()) return;
  RC_ASSERT(store.load_tree(written.archive.manifest) == tree);
}

// The result does not depend on what was saved in which parts and order, with deltas and
// compactions.
RC_GTEST_PROP(ArchiveProperties, AnySequenceOfSavesEqualsOneSave, ()) {
  Store store;
  const Tree whole = some_tree(20);
  RC_PRE(!whole.empty());
  const std::vector<std::pair<std::string, FileContent>> files(whole.begin(), whole.end());
  std::string head;
  const int saves = number(1, 9);
  for (int save = 0; save < saves; ++save) {
    Tree part;
    for (const auto& [path, file] : files) {
      if (number(0, 3) > 0) continue;
      // An earlier version of the file, or its final one.
      part[path] = number(0, 2) == 0 ? FileContent{some_bytes(), file.executable} : file;
    }
    const std::string next = store.save_tree(part, head);
    if (!next.empty()) head = next;
  }
  head = store.save_tree(whole, head);
  RC_ASSERT(store.load_tree(head) == whole);
  RC_ASSERT(store.load_tree(store.save_tree(whole)) == whole);
  RC_ASSERT(store.save_tree(whole, head) == head);  // nothing is new
}

// A file that a later save does not have stays.
RC_GTEST_PROP(ArchiveProperties, SavesUniteAndNeverTakeAway, ()) {
  Store store;
  Tree both = some_tree(12);
  RC_PRE(!both.empty());
  Tree first;
  Tree second;
  for (const auto& [path, file] : both) {
    const int where = number(0, 3);
    if (where != 1) first[path] = file;
    if (where != 0) second[path] = file;
  }
  const std::string head = store.save_tree(first);
  const std::string united = store.save_tree(second, head);
  RC_ASSERT(store.load_tree(united.empty() ? head : united) == both);
}

}  // namespace
}  // namespace compilecache::archive::test
