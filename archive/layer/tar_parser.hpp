#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>

#include "archive/format.hpp"
#include "archive/layer/tar_writer.hpp"
#include "base/error.hpp"

// Reads the tar streams that our writer makes, and refuses every other: regular files, directories
// and hard links to an earlier entry of the same stream, ustar and PAX path, linkpath and size.

namespace compilecache::archive {

// Hears what is in a tar. Called in order, on the thread that feeds the parser.
class TarSink {
 public:
  virtual ~TarSink() = default;
  virtual Status begin_file(const TarEntry& entry) = 0;
  // A piece of the file's content; `owner` keeps it alive. Together they are entry.size bytes; an
  // empty file gets none.
  virtual Status data(std::span<const uint8_t> bytes, const std::shared_ptr<const void>& owner) = 0;
  virtual Status end_file() = 0;
};

// A layer has entries for directories and links too, so more than there are files.
inline uint64_t max_tar_entries(const Limits& limits) { return 4 * limits.max_entries; }

class TarParser {
 public:
  // Both must outlive it. `max_entries` counts every entry.
  TarParser(TarSink& sink, uint64_t max_entries) : sink_(sink), max_entries_(max_entries) {}

  // The next bytes of the stream. kCorrupt: not a tar of ours; kTooLarge: too many entries; or what
  // the sink said.
  Status feed(std::span<const uint8_t> bytes, const std::shared_ptr<const void>& owner);
  // After the last bytes.
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
