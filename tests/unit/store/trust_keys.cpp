#include "tests/unit/store/trust_keys.hpp"

#include <openssl/pem.h>

#include "base/openssl_ptr.hpp"

namespace compilecache::store::test {
namespace {

template <typename Write>
std::string pem(const Write& write) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  write(out.get());
  char* text = nullptr;
  const long length = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<size_t>(length)};
}

KeyPair make_pair_of_keys() {
  const KeyPtr key(EVP_EC_gen("P-256"));
  return {pem([&](BIO* out) {
            PEM_write_bio_PKCS8PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          }),
          pem([&](BIO* out) { PEM_write_bio_PUBKEY(out, key.get()); })};
}

}  // namespace

const KeyPair& ours() {
  static const KeyPair pair = make_pair_of_keys();
  return pair;
}

const KeyPair& anothers() {
  static const KeyPair pair = make_pair_of_keys();
  return pair;
}

}  // namespace compilecache::store::test
