#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "store/registry/pushes.hpp"
#include "store/registry/registry_client.hpp"
#include "store/registry/registry_options.hpp"
#include "store/registry/registry_signatures.hpp"
#include "store/registry/registry_upkeep.hpp"
#include "store/registry/spool.hpp"
#include "store/store.hpp"

namespace compilecache::store {

// A store in a repository of an OCI registry, where archives are ordinary artifacts.
//
//   RegistryStore store({.host = "harbor.example.com",
//                        .repository = "ml/caches/team-a/llama",
//                        .docker_config_file = "/compilecache/registry/.dockerconfigjson",
//                        .spool_folder = "/compilecache/cache/control"});
//   auto saved = archive::write_archive(store, request);
//
// A blob is spooled while it is written, and pushed by its commit() unless the registry has it. A
// layer is pushed while the next blobs are made and pushed. A manifest, known by its media type, is
// pushed after all of these, under a tag of its own, "g<generation>-<12 digits of the digest>". By
// it registries make the manifest known by its digest too. If the registry then misses
// blobs, those that are still spooled are pushed again. sync() checks that manifest and blobs are
// all there. Existing blobs are not read to check them, but for those that are to be
// written again: registries keep the file that they have. Where
// they do, the commit fails with kAlreadyExists.
//
// Nothing is connected to before the first call. Errors have a reason of
// docs/troubleshoot/reasons.md; a failed write is never kNotFound or kCorrupt, but for a blob of a
// parent that the registry has lost (kNotFound, when the manifest is pushed). Thread-safe.
class RegistryStore : public Store {
 public:
  explicit RegistryStore(RegistryOptions options);
  ~RegistryStore() override;

  // A blob of the save that goes on is read where it is spooled.
  [[nodiscard]] Result<std::unique_ptr<archive::BlobReader>> open(
      const archive::Descriptor& blob) const override;
  [[nodiscard]] Result<uint64_t> size_of(const std::string& digest) const override;
  // kTooLarge, from write(): the spool's limit, or a manifest larger than registries take.
  Result<std::unique_ptr<archive::BlobWriter>> create(const std::string& media_type) override;
  // kUnavailable: a blob or a manifest that was there is not there any more.
  Status sync() override;
  [[nodiscard]] std::string describe() const override { return client_.name(); }
  [[nodiscard]] uint64_t carried_up_to() const override { return client_.options().carry_up_to; }

  // Streamed, as the digest is known; nothing is spooled.
  Status receive(const archive::Descriptor& blob, const archive::BlobReader& from) override;

  Upkeep* upkeep() override { return &upkeep_; }
  Signatures* signatures() override { return &signatures_; }
  void end_by(http::SteadyTime time) override { client_.end_by(time); }
  [[nodiscard]] Trouble trouble(const Error& error, Use use) const override;

 private:
  class SpooledWriter;
  class SpooledReader;
  class ManifestWriter;

  // Whether a commit waits until its blob is pushed.
  enum class Pushing { kAtOnce, kMeanwhile };

  Result<archive::WrittenBlob> commit_blob(std::shared_ptr<SpoolFile> file, Pushing pushing,
                                           const std::vector<std::string>& rewrite);
  Result<archive::WrittenBlob> commit_manifest(const std::string& text,
                                               const std::vector<std::string>& rewrite);
  // Whether the registry has these bytes now; kAlreadyExists: it has others.
  Status read_back(const std::string& digest, uint64_t size);
  Status push_again(const std::vector<std::string>& blobs);
  Status end_pushes(const Result<Pushes::Digests>& pushed);
  bool any_pushed(const std::vector<std::string>& blobs);
  void note(const std::string& manifest, const std::vector<std::string>& blobs);

  mutable RegistryClient client_;
  RegistryUpkeep upkeep_;
  RegistrySignatures signatures_;
  Spool spool_;
  Pushes pushes_;
  Mutex mutex_;
  // Committed since the last sync().
  std::set<std::string> manifests_ GUARDED_BY(mutex_);
  std::set<std::string> blobs_ GUARDED_BY(mutex_);
  std::set<std::string> pushed_ GUARDED_BY(mutex_);  // those that were not there
};

}  // namespace compilecache::store
