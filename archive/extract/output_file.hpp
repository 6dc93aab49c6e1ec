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

// One content on its way to the places where it belongs: checked against its hash and created
// there. Used by one thread at a time.
class OutputFile {
 public:
  struct Target {
    Place place;
    bool executable = false;
    std::optional<int64_t> modified_ns;  // none: the time of loading
  };

  // All must outlive it. Without targets the content is only checked.
  OutputFile(ReadSession& session, Destination* destination, const FileEntry& entry,
             std::vector<Target> targets)
      : session_(session), destination_(destination), entry_(entry), targets_(std::move(targets)) {}

  [[nodiscard]] uint64_t size() const { return entry_.size; }
  // Has to have heard of bytes before they are taken.
  [[nodiscard]] Sha256& hash() { return hash_; }
  // The next ones. With the last the hash is compared; a content that comes whole is not created
  // when it is wrong.
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
