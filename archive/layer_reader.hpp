#pragma once

#include <functional>
#include <string>

#include "archive/blob.hpp"
#include "archive/buffer_pool.hpp"
#include "archive/checkpoint.hpp"
#include "archive/format.hpp"
#include "archive/manifest.hpp"
#include "archive/shared_state.hpp"
#include "archive/tar_parser.hpp"
#include "archive/task_pool.hpp"
#include "base/error.hpp"

// Reads a layer once, from beginning to end: frames are decoded by the pool's threads, the tar in
// them is parsed in order on the calling thread, which tells the sink.

namespace compilecache::archive {

struct ReadSettings {
  unsigned threads = 2;
  uint64_t memory_bytes = 32ULL << 20;
  Limits limits;
  Checkpoint checkpoint;
};

// What the layers of one read have in common. Tasks of the sink go to `pool` too and report to
// `failure`.
class ReadSession {
 public:
  explicit ReadSession(const ReadSettings& settings)
      : limits(settings.limits),
        checkpoint(settings.checkpoint),
        buffers(settings.memory_bytes, activity),
        pool(settings.threads) {}

  // kCancelled when the checkpoint says so; the first failure of any task.
  Status check();
  // Does what a task has to do: an error or exception of it becomes the failure of the session.
  void guarded(const std::function<Status()>& work);

  const Limits limits;
  const Checkpoint checkpoint;
  Progress progress;
  FirstFailure failure;
  Activity activity;
  BufferPool buffers;
  TaskPool pool;  // destroyed first, so that no task outlives what it uses
};

// kNotFound: the blob is missing; kCorrupt: it is not what its digest promises, or not a layer of
// ours; kTooLarge: over a limit; or what the sink said. Tasks that the sink posted may still run
// when it returns.
Status read_layer(ReadSession& session, const BlobFolder& blobs, const Descriptor& layer,
                  TarSink& sink);

}  // namespace compilecache::archive
