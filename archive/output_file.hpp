#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "archive/destination.hpp"
#include "archive/layer_reader.hpp"
#include "archive/manifest.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {

// One content on its way to the places where it belongs: checked against its hash, then created
// there. It comes whole, on any thread, or in pieces, in order; whichever thread is free takes the
// next pieces, one thread at a time.
class OutputFile : public std::enable_shared_from_this<OutputFile> {
 public:
  struct Target {
    Place place;
    bool executable = false;
  };

  // All must outlive it. Without targets the content is only checked.
  OutputFile(ReadSession& session, Destination* destination, const FileEntry& entry,
             std::vector<Target> targets)
      : session_(session), destination_(destination), entry_(entry), targets_(std::move(targets)) {}

  [[nodiscard]] uint64_t size() const { return entry_.size; }
  // On this thread; `hash` is that of `bytes`.
  Status take_whole(std::span<const uint8_t> bytes, const ContentHash& hash);
  // On one of the session's.
  void add_piece(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner);

 private:
  struct Piece {
    std::span<const uint8_t> bytes;
    std::shared_ptr<const void> owner;
  };

  void work();
  Status take(std::span<const uint8_t> bytes);
  [[nodiscard]] Status check_hash(const ContentHash& hash) const;
  Status write(std::span<const uint8_t> bytes);
  Status finish();
  Status copy_to(const Target& target);

  ReadSession& session_;
  Destination* destination_;
  const FileEntry& entry_;
  const std::vector<Target> targets_;

  std::mutex mutex_;
  std::deque<Piece> pieces_;
  bool scheduled_ = false;

  // Only the thread that works on it.
  std::optional<Sha256> hash_;
  uint64_t received_ = 0;
  Fd fd_;
};

// Whole files, done together: two at a time are hashed in little more than the time of one.
struct WholeFiles {
  struct Item {
    std::shared_ptr<OutputFile> file;
    std::span<const uint8_t> bytes;
  };
  std::vector<Item> items;
  uint64_t bytes = 0;
  std::shared_ptr<const void> owner;  // of all bytes

  void work(ReadSession& session) const;
};

}  // namespace compilecache::archive
