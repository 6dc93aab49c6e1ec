#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/trust/signature.hpp"

namespace compilecache::store {

// Of one manifest. Whether they are about it, and by whom, is for TrustedKeys to say.
struct FoundSignatures {
  std::vector<Signature> all;   // those that can be read, 1,000 at most
  std::optional<Error> unread;  // why there may be more: nobody can say then that none is there
};

// The signatures beside a store's archives. Thread-safe.
//
//   if (Signatures* signatures = store.signatures()) signatures->of(manifest);
class Signatures {
 public:
  virtual ~Signatures() = default;

  virtual FoundSignatures of(const std::string& manifest) = 0;
  // Puts one there, in the form it came in, which is simple_signature()'s where it has no bundle;
  // the others stay.
  virtual Status add(const Signature& signature) = 0;
};

}  // namespace compilecache::store
