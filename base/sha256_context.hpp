#pragma once

// Not EVP: looking an algorithm up there loads OpenSSL's providers, which takes a millisecond and
// two MiB, and is done anew for each object. And it does not let somebody else do a few blocks.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "base/sha256.hpp"

namespace compilecache {

struct Sha256::Context {
  SHA256_CTX state;
  Context() { SHA256_Init(&state); }
};

}  // namespace compilecache
