#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/trust/signature.hpp"

namespace compilecache::store {

// What stands beside a store's archives to say who vouches for them. Thread-safe.
//
//   if (Signatures* signatures = store.signatures()) signatures->of(manifest);
class Signatures {
 public:
  virtual ~Signatures() = default;

  // Of that manifest, those that can be read, 64 at most; none where nobody has signed it. Whether
  // they are about it, and by whom, is for TrustedKeys to say.
  virtual Result<std::vector<Signature>> of(const std::string& manifest) = 0;
  // Puts one there, in the form it came in, which is simple_signature()'s where it has no bundle;
  // the others stay.
  virtual Status add(const Signature& signature) = 0;
};

}  // namespace compilecache::store
