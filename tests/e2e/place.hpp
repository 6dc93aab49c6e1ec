#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

// Where the CompileCaches of a test keep their archives: on a claim of the test's namespace, or in
// the installation's registry (CC_E2E_STORE=registry), whose volume is a directory of this machine
// too. Tests look at blobs through it, so the same tests go over both.

namespace compilecache::e2e {

class Place {
 public:
  // `volume`: the directory below the test's claim.
  Place(std::string ns, std::string volume);

  [[nodiscard]] bool in_registry() const { return !registry_.empty(); }
  // spec.storage of a CompileCache.
  [[nodiscard]] nlohmann::json storage() const;
  // What `kubectl get cc` calls it.
  [[nodiscard]] std::string shown() const { return in_registry() ? "registry" : "caches"; }
  // The file with that blob's bytes.
  [[nodiscard]] std::string blob(const std::string& cache, const std::string& digest) const;
  // Every blob of that CompileCache, as "sha256:...".
  [[nodiscard]] std::set<std::string> blobs(const std::string& cache) const;
  // Names of blobs that are being written, or were when their saver was killed.
  [[nodiscard]] std::set<std::string> unfinished(const std::string& cache) const;

 private:
  std::string ns_;
  std::string volume_;
  std::string registry_;  // .../docker/registry/v2; empty: archives are on the claim
};

}  // namespace compilecache::e2e
