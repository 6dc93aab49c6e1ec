#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "archive/extract/destination.hpp"
#include "archive/layer/layer_reader.hpp"
#include "archive/manifest.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {

// Checks one content against its hash and writes it to the places where it belongs. Used by one
// thread at a time.
class OutputFile {
 public:
  struct Target {
    Place place;
    bool executable = false;
    std::optional<int64_t> modified_ns;  // none: the time of loading
  };

  // All arguments must outlive it. Without targets the content is only checked.
  OutputFile(ReadSession& session, Destination* destination, const FileEntry& entry,
             std::vector<Target> targets)
      : session_(session), destination_(destination), entry_(entry), targets_(std::move(targets)) {}

  [[nodiscard]] uint64_t size() const { return entry_.size; }
  // The caller updates this hash with the bytes before it calls take() with them.
  [[nodiscard]] Sha256& hash() { return hash_; }
  // Takes the next bytes. After the last ones the hash is compared; a content that comes whole is
  // only created if it is right.
  Status take(std::span<const uint8_t> bytes);

 private:
  [[nodiscard]] Status check_hash();
  Status write(std::span<const uint8_t> bytes);
  Status finish();
  Status copy_to(const Target& target);

  ReadSession& session_;
  Destination* destination_;
  const FileEntry& entry_;
  const std::vector<Target> targets_;

  Sha256 hash_;
  uint64_t received_ = 0;
  Fd fd_;
};

}  // namespace compilecache::archive
