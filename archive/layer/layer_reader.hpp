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

// Reads a layer once, from beginning to end. The pool's threads decode its frames; the calling
// thread parses the tar in them in order and calls the sink.

namespace compilecache::archive {

struct ReadSettings {
  unsigned threads = 2;
  uint64_t memory_bytes = kReadMemoryBytes;
  Limits limits;
  Checkpoint checkpoint;
  // Larger layers are not hashed as a whole. That is safe for callers that check the content of
  // every file, and saves time: one thread computes a digest. For content that hardly
  // compresses that takes longer than all the rest.
  uint64_t hash_layers_up_to = UINT64_MAX;
};

// Receives the content of a layer.
class LayerSink : public TarSink {
 public:
  // Called at the end of each frame: no more data comes for a while. A sink that gathers data can
  // process it now.
  virtual void end_frame() {}
};

// The state that the layers of one read share. The sink's tasks also run in `pool` and report to
// `failure`.
class ReadSession {
 public:
  explicit ReadSession(const ReadSettings& settings)
      : limits(settings.limits),
        checkpoint(settings.checkpoint),
        hash_layers_up_to(settings.hash_layers_up_to),
        buffers(settings.memory_bytes, activity),
        pool(settings.threads) {}

  // Returns the first failure of any task, and kCancelled if the checkpoint says so. Call it on the
  // thread that made the session.
  Status check();
  // The same for long work on any thread, also in a task. Only the session's own thread calls the
  // checkpoint; the others see its result.
  Status check_anywhere();
  // Waits until all tasks are done. If the checkpoint says so, it makes them give up, and waits for
  // that.
  Status drain();
  // Runs the work of a task. Its error or exception becomes the failure of the session.
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

// kNotFound: the blob is missing; kCorrupt: it does not match its digest, or is not a layer that we
// write; kTooLarge: over a limit. Also returns errors of the sink and its tasks. These tasks may
// still run when it returns, unless the layer was not hashed.
Status read_layer(ReadSession& session, const BlobStore& store, const Descriptor& layer,
                  LayerSink& sink);

}  // namespace compilecache::archive
