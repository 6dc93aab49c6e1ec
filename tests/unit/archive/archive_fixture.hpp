#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "archive/extract/extract.hpp"
#include "archive/write/write.hpp"
#include "store/directory/directory_store.hpp"

namespace compilecache::archive::test {

using store::Index;
using store::IndexEntry;
using store::StoredBlob;
using store::StoreOwner;
using store::SweepCounts;

// A directory that the destructor removes with everything in it.
class TempDir {
 public:
  explicit TempDir(const std::string& in = std::filesystem::temp_directory_path());
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] std::string path(const std::string& relative = "") const {
    return relative.empty() ? path_ : path_ + "/" + relative;
  }

 private:
  std::string path_;
};

struct FileContent {
  std::string bytes;
  bool executable = false;
  bool operator==(const FileContent&) const = default;
};
// Files by their path relative to the root.
using Tree = std::map<std::string, FileContent>;

void write_file(const std::string& path, const std::string& bytes, bool executable = false);
std::string read_file(const std::string& path);
void write_tree(const std::string& root, const Tree& tree);
Tree read_tree(const std::string& root);
// Every name below root, including directories, to check that nothing was left.
std::vector<std::string> names_below(const std::string& root);

// Bytes that do not compress. The same seed gives the same bytes.
std::string noise(size_t size, uint64_t seed);

// Writes an archive into the store at that path.
Result<WriteResult> write_into(const std::string& store, WriteRequest request);

// Unpacks one of the real caches of tests/testdata/caches.
void unpack_real_cache(const std::string& name, const std::string& into);

// Runs a shell command and gives its standard output; the test fails when the command does.
std::string run(const std::string& command);

// A prepared store, a tree to save and a place to load it.
class ArchiveTest : public ::testing::Test {
 protected:
  ArchiveTest();

  // Every file below `root`. Their root in the archive is "torch".
  static std::vector<SourceFile> sources(const std::string& root,
                                         const std::string& prefix = "torch/");
  // A request that saves `tree` on top of `parent` in many small steps.
  WriteRequest save_request(const Tree& tree, const std::string& parent);
  // Saves `tree` on top of `parent`; the test fails if the save does.
  WriteResult save(const Tree& tree, const std::string& parent = "",
                   const WriteSettings& settings = {});
  // Loads into an empty directory and reads it.
  Tree load(const std::string& manifest, unsigned threads = 2);
  Result<ExtractReport> try_load(const std::string& manifest, const std::string& into);

  TempDir temp_;
  store::DirectoryStore store_;
  const StoreOwner owner_{"cluster-1", "ml", "cc-uid-1"};
  int counter_ = 0;
};

}  // namespace compilecache::archive::test
