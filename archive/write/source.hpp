#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "archive/format.hpp"
#include "archive/fs.hpp"
#include "archive/write/source_file.hpp"

// Files that may change while we read them. Before and after each read the file is compared with
// its state at the first look.

namespace compilecache::archive {

// The attributes that change when a file changes.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  bool executable = false;

  bool operator==(const FileStamp&) const = default;
};

struct Source {
  SourceFile file;
  FileStamp stamp;
  std::optional<ContentHash> hash;  // if needed to find equal files
};

template <typename T>
using SourceResult = tl::expected<T, LeftOut>;

// Does not open the file.
SourceResult<Source> look_at(SourceFile file);

// Reads a source once, from beginning to end.
//
//   auto reader = SourceReader::open(source);
//   while (...) reader->read(chunk);
//   auto same = reader->finish();   // only now the bytes are known to be good
class SourceReader {
 public:
  static SourceResult<SourceReader> open(const Source& source);
  // Fills the chunk; fewer bytes than the source's size are kBusy.
  SourceResult<void> read(std::span<uint8_t> chunk);
  SourceResult<void> read_at(std::span<uint8_t> chunk, uint64_t offset);
  // Whether the file is still what it was.
  SourceResult<void> finish();

 private:
  SourceReader(const Source& source, Fd fd) : source_(&source), fd_(std::move(fd)) {}

  const Source* source_;
  Fd fd_;
};

// Hashes the whole content; `chunk` is memory to read into.
SourceResult<ContentHash> hash_content(const Source& source, std::span<uint8_t> chunk);

// A hash of a few pieces of the content, for the price of one read. It differs for most files that
// differ.
SourceResult<uint64_t> fingerprint(const Source& source);

}  // namespace compilecache::archive
