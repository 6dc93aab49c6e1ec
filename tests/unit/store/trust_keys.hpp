#pragma once

#include <string>

namespace compilecache::store::test {

// Two pairs of P-256 keys in PEM, made when they are asked for first.
struct KeyPair {
  std::string key, public_key;
};
const KeyPair& ours();
const KeyPair& anothers();

}  // namespace compilecache::store::test
