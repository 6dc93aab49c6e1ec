#pragma once

// OpenSSL's old interface is used because EVP looks the algorithm up for each object and loads
// providers for it, which takes a millisecond and two MiB. EVP also does not let other code hash
// some blocks of the stream.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "base/sha256.hpp"

namespace compilecache {

struct Sha256::Context {
  SHA256_CTX state;
  Context() { SHA256_Init(&state); }
};

}  // namespace compilecache
