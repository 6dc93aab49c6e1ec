#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/compile_cache_archive.hpp"
#include "base/error.hpp"
#include "kube/client.hpp"

// Reads and creates CompileCacheArchives in the API server, and changes their status by
// compare-and-swap.
//
//   auto archive = modify_archive(archives, "ml", "transformer-3f9a1c04b2", [&](auto& a) {
//     return mark_suspect(a, digest, pod, now);      // false: nothing to change
//   });
//
// Thread-safe. Errors as in kube/client.hpp; kConflict means that somebody else was first, and
// after any other failure of a write nobody knows whether it happened.

namespace compilecache::controller {

class ArchiveClient {
 public:
  virtual ~ArchiveClient() = default;
  virtual Result<api::CompileCacheArchive> get(const std::string& ns, const std::string& name) = 0;
  // All archives of a CompileCache, as the API server has them now. They are selected by
  // spec.cache, which is immutable, and not by a label: a label that somebody removed must not make
  // an archive's blobs garbage.
  virtual Result<std::vector<api::CompileCacheArchive>> list(const std::string& ns,
                                                             const std::string& cache) = 0;
  // Returns kAlreadyExists when there is one of that name.
  virtual Result<api::CompileCacheArchive> create(const api::CompileCacheArchive& archive) = 0;
  // kConflict unless the resource version is still what `archive` carries.
  virtual Result<api::CompileCacheArchive> update_status(
      const api::CompileCacheArchive& archive) = 0;
};

class KubeArchiveClient : public ArchiveClient {
 public:
  explicit KubeArchiveClient(kube::Client client) : client_(std::move(client)) {}
  Result<api::CompileCacheArchive> get(const std::string& ns, const std::string& name) override;
  Result<std::vector<api::CompileCacheArchive>> list(const std::string& ns,
                                                     const std::string& cache) override;
  Result<api::CompileCacheArchive> create(const api::CompileCacheArchive& archive) override;
  Result<api::CompileCacheArchive> update_status(const api::CompileCacheArchive& archive) override;

 private:
  kube::Client client_;
};

// Reads, changes and writes an archive, again (up to 5 times) when somebody else wrote first.
// `change` may run more than once and returns whether there is anything to write. Returns the
// archive as it is afterwards.
Result<api::CompileCacheArchive> modify_archive(
    ArchiveClient& archives, const std::string& ns, const std::string& name,
    const std::function<bool(api::CompileCacheArchive&)>& change);

}  // namespace compilecache::controller
