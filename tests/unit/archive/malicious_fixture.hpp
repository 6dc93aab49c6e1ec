#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "archive/manifest.hpp"
#include "archive_fixture.hpp"

// Makes archives that have correct digests but that our writer never makes.

namespace compilecache::archive::test {

FileEntry listed(const std::string& path, const std::string& content);
std::string tar_file(const std::string& path, const std::string& content);
std::string tar_link(const std::string& path, const std::string& target);
// The two blocks that end a tar.
std::string tar_end();
// A PAX header with these records, for the entry after it.
std::string pax(const std::string& records);
// Sets bytes of the first header and fixes its checksum.
std::string changed_header(std::string tar, size_t at, const std::string& bytes);
std::string zstd(const std::string& plain, int level = 3);
// A seek table of one frame.
std::string seek_table(uint32_t compressed, uint32_t plain);

class MaliciousTest : public ArchiveTest {
 public:
  void TestBody() override {}

  std::string put(const std::string& content);
  std::string put_layer(const std::string& tar, size_t frame_bytes = 64 << 10);
  // Makes an archive of one layer, or of an existing layer and config blob.
  std::string put_archive(const std::string& layer, const std::vector<FileEntry>& files);
  std::string put_manifest(const std::string& config, const std::vector<std::string>& layers);
  // Makes an archive whose only layer has this tar.
  std::string archive_of(const std::string& tar, const std::vector<FileEntry>& files) {
    return put_archive(put_layer(tar), files);
  }
  // Makes an archive of a good layer with the file "x" and this JSON as its config.
  std::string archive_with_config(const std::string& json);
  [[nodiscard]] uint64_t size_of(const std::string& digest) const { return sizes_.at(digest); }

  // Writes the blobs that were put since the last call into a tar, as they lie in a store.
  void pack_blobs(const std::string& file);
  // Puts the blobs of such a tar into the store.
  void unpack_blobs(const std::string& file);

  // Loads the whole archive into a directory in `cage`. Expects this message from a load and from a
  // check, and that nothing was written in the cage.
  void expect_refused(const std::string& manifest, const std::string& message,
                      const Limits& limits);

 private:
  std::map<std::string, uint64_t> sizes_;
};

}  // namespace compilecache::archive::test
