#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "archive/fs.hpp"
#include "base/error.hpp"
#include "base/sha256.hpp"
#include "http/session.hpp"

// Blobs on their way to a registry, which wants to know size and digest before the first byte:
// files without a name in a folder, all together bounded.
//
//   Spool spool("/compilecache/cache/control", 1ULL << 30);
//   auto file = spool.create();
//   (*file)->write(bytes);
//   const std::string digest = (*file)->finish();
//   session.start({.method = "PUT", .url = url, .source = file->get()});
//   spool.keep(digest, *file);          // it may have to be pushed again
//
// Kept files make room for written ones, oldest first.

namespace compilecache::store {

class SpoolRoom;  // what the files of one spool share

// One blob: first written by one thread, then read by any.
class SpoolFile : public http::BodySource {
 public:
  SpoolFile(archive::Fd fd, std::shared_ptr<SpoolRoom> room, std::string folder);
  ~SpoolFile() override;

  // kTooLarge: the spool's limit; kIo: the disk is full, or another error of the folder.
  Status write(std::span<const uint8_t> bytes);
  // The digest of all that was written. Call it once.
  std::string finish();

  [[nodiscard]] uint64_t size() const override { return size_; }
  Status read_at(std::span<uint8_t> bytes, uint64_t offset) override;

 private:
  const archive::Fd fd_;
  const std::shared_ptr<SpoolRoom> room_;
  const std::string folder_;
  uint64_t size_ = 0;
  Sha256 hash_;
};

// Thread-safe.
class Spool {
 public:
  // Nothing is written before the first create().
  Spool(std::string folder, uint64_t limit);
  ~Spool();

  // kIo, kForbidden: the folder cannot be written to.
  Result<std::shared_ptr<SpoolFile>> create();
  // Holds the file until its room is needed or forget() is called.
  void keep(const std::string& digest, std::shared_ptr<SpoolFile> file);
  // Null: it is not kept (any more).
  [[nodiscard]] std::shared_ptr<SpoolFile> find(const std::string& digest) const;
  void forget();

 private:
  const std::string folder_;
  const std::shared_ptr<SpoolRoom> room_;
};

}  // namespace compilecache::store
