#pragma once

#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "store/registry/registry_client.hpp"
#include "store/registry/spool.hpp"

// Blobs that are pushed while their saver goes on, as most of a push is waiting for the registry's
// disk.
//
//   Pushes pushes(client);
//   pushes.begin(layer, file);
//   ...                                   // the config is encoded and pushed
//   auto done = pushes.finish({layer, config});
//   if (!done) return unexpected(done.error());   // else the manifest

namespace compilecache::store {

// Thread-safe. Destroyed when what is under way is over: the client's end_by() bounds that.
class Pushes {
 public:
  // `client` has to outlive it.
  explicit Pushes(RegistryClient& client) : client_(client) {}
  ~Pushes() { wait(); }
  Pushes(const Pushes&) = delete;
  Pushes& operator=(const Pushes&) = delete;

  // One at a time: waits for the one before. Pushes here and now where no thread can be had.
  void begin(const std::string& digest, std::shared_ptr<SpoolFile> file);
  // Whether there was any to wait for. How it ended is still to be asked for.
  bool wait() const;
  // Until the push of this one, if any, is over.
  void wait_for(const std::string& digest) const;
  using Digests = std::vector<std::string>;
  // Waits, and tells once which of these were pushed, or what went wrong with one of them.
  Result<Digests> finish(const Digests& digests);
  // The same of all.
  Result<Digests> finish_all();
  // What went wrong is of no interest any more.
  void forget();

 private:
  using Push = std::shared_future<Status>;

  RegistryClient& client_;
  mutable Mutex mutex_;
  std::map<std::string, Push> pushes_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::store
