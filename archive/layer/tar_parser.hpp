#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>

#include "archive/format.hpp"
#include "archive/layer/tar_writer.hpp"
#include "base/error.hpp"

// Reads the tar streams that our writer makes, and refuses all others. They have regular files,
// directories and hard links to an earlier entry of the same stream, in ustar with PAX path,
// linkpath and size.

namespace compilecache::archive {

// Receives the content of a tar. Its methods are called in order, on the thread that feeds the
// parser.
class TarSink {
 public:
  virtual ~TarSink() = default;
  virtual Status begin_file(const TarEntry& entry) = 0;
  // Receives a piece of the file's content; `owner` keeps it alive. All pieces together are
  // entry.size bytes; an empty file has none.
  virtual Status data(std::span<const uint8_t> bytes, const std::shared_ptr<const void>& owner) = 0;
  virtual Status end_file() = 0;
};

// A layer has entries for directories and links too, so more than there are files.
inline uint64_t max_tar_entries(const Limits& limits) { return 4 * limits.max_entries; }

class TarParser {
 public:
  // `sink` must outlive the parser. `max_entries` counts entries of every kind.
  TarParser(TarSink& sink, uint64_t max_entries) : sink_(sink), max_entries_(max_entries) {}

  // Parses the next bytes of the stream. kCorrupt: not one of our tars; kTooLarge: too many
  // entries; also returns the sink's errors.
  Status feed(std::span<const uint8_t> bytes, const std::shared_ptr<const void>& owner);
  // Call it after the last bytes.
  Status finish();

 private:
  enum class State { kHeader, kPax, kContent, kPadding, kEnd };

  size_t gather(std::span<const uint8_t> bytes, size_t wanted);
  Status take_header();
  Status take_pax();
  Status take_entry(TarEntry entry);
  Status check_path(const std::string& path);

  TarSink& sink_;
  const uint64_t max_entries_;
  State state_ = State::kHeader;
  std::string gathered_;      // header or PAX block that is not complete yet
  uint64_t remaining_ = 0;    // of content, padding or PAX
  size_t padding_ = 0;        // after the content or PAX
  bool pax_pending_ = false;  // the next header must be the entry that a PAX header announced
  std::string pax_path_;
  std::string pax_linkpath_;
  uint64_t pax_size_ = 0;
  uint64_t entries_ = 0;
  std::unordered_set<uint64_t> seen_;  // hashes of paths: enough to refuse a second one
};

}  // namespace compilecache::archive
