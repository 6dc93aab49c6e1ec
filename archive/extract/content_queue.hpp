#pragma once

#include <deque>
#include <memory>
#include <span>

#include "archive/extract/output_file.hpp"
#include "base/mutex.hpp"

namespace compilecache::archive {

// Hashes and writes file contents that come whole or in pieces. The pieces of one content are
// processed in order, by whichever of the session's threads is free. A thread takes two contents at
// a time, as hashing two takes little longer than hashing one.
//
//   auto content = ContentQueue::begin(std::move(file));
//   queue.add(content, piece, owner);   // until the file has all its bytes
//   queue.flush();                      // when nothing more comes for now
//
// Used from one thread. The destructor waits for the session's tasks.
class ContentQueue {
 public:
  struct Content;

  explicit ContentQueue(ReadSession& session) : session_(session) {}
  ~ContentQueue() { session_.pool.drain(); }
  ContentQueue(const ContentQueue&) = delete;
  ContentQueue& operator=(const ContentQueue&) = delete;

  static std::shared_ptr<Content> begin(std::unique_ptr<OutputFile> file);
  // `owner` keeps the bytes alive.
  void add(const std::shared_ptr<Content>& content, std::span<const uint8_t> bytes,
           std::shared_ptr<const void> owner);
  void flush();

 private:
  class Worker;

  ReadSession& session_;
  uint64_t waiting_bytes_ = 0;  // of what was added since the last task was posted
  size_t waiting_pieces_ = 0;

  Mutex mutex_;
  // Contents that have a piece and that no thread works on.
  std::deque<std::shared_ptr<Content>> ready_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::archive
