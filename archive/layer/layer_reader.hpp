#pragma once

#include <functional>
#include <string>
#include <thread>

#include "archive/blob_store.hpp"
#include "archive/checkpoint.hpp"
#include "archive/format.hpp"
#include "archive/layer/buffer_pool.hpp"
#include "archive/layer/shared_state.hpp"
#include "archive/layer/tar_parser.hpp"
#include "archive/layer/task_pool.hpp"
#include "archive/manifest.hpp"
#include "base/error.hpp"

// Reads a layer once, from beginning to end: frames are decoded by the pool's threads, the tar in
// them is parsed in order on the calling thread, which tells the sink.

namespace compilecache::archive {

struct ReadSettings {
  unsigned threads = 2;
  uint64_t memory_bytes = kReadMemoryBytes;
  Limits limits;
  Checkpoint checkpoint;
  // Larger layers are not hashed as a whole. For who checks the content of every file, as a digest
  // is one chain: where content hardly compresses nothing would take longer.
  uint64_t hash_layers_up_to = UINT64_MAX;
};

// Hears of what a layer holds.
class LayerSink : public TarSink {
 public:
  // For a while nothing more comes; for those who gather.
  virtual void end_frame() {}
};

// What the layers of one read have in common. Tasks of the sink go to `pool` too and report to
// `failure`.
class ReadSession {
 public:
  explicit ReadSession(const ReadSettings& settings)
      : limits(settings.limits),
        checkpoint(settings.checkpoint),
        hash_layers_up_to(settings.hash_layers_up_to),
        buffers(settings.memory_bytes, activity),
        pool(settings.threads) {}

  // kCancelled when the checkpoint says so; the first failure of any task. On the thread that made
  // the session.
  Status check();
  // The same for long work on any thread, which may be a task's: the others hear of what the
  // session's own thread is told.
  Status check_anywhere();
  // Until all tasks are done. When the checkpoint says so they are told to give up, and waited for.
  Status drain();
  // Does what a task has to do: an error or exception of it becomes the failure of the session.
  void guarded(const std::function<Status()>& work);

  const Limits limits;
  const Checkpoint checkpoint;
  const uint64_t hash_layers_up_to;
  Progress progress;
  FirstFailure failure;
  Activity activity;
  BufferPool buffers;
  TaskPool pool;  // destroyed first, so that no task outlives what it uses

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
};

// kNotFound: the blob is missing; kCorrupt: it is not what its digest promises, or not a layer of
// ours; kTooLarge: over a limit; or what the sink said, or its tasks. These may still run when it
// returns, unless the layer was not hashed.
Status read_layer(ReadSession& session, const BlobStore& store, const Descriptor& layer,
                  LayerSink& sink);

}  // namespace compilecache::archive
