#pragma once

#include <string>

#include "base/error.hpp"
#include "store/store.hpp"

namespace compilecache::cli {

// Signs archives in a registry with a key file, for spec.trust of those who take them.
//
//   const auto signer = ArchiveSigner::of_file("release.key");
//   signer->sign(*store, manifest_digest);
class ArchiveSigner {
 public:
  // A P-256 key in PEM. kInvalid: it is none, or has a password, as the keys that cosign makes:
  // then the message says what to do with cosign.
  static Result<ArchiveSigner> of_file(const std::string& file);

  // Puts a signature beside the archive, in cosign's format. kInvalid: the store has none.
  Status sign(store::Store& registry, const std::string& manifest) const;

 private:
  explicit ArchiveSigner(std::string key) : key_(std::move(key)) {}

  std::string key_;
};

}  // namespace compilecache::cli
