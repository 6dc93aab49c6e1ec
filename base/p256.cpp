#include "base/p256.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/openssl_ptr.hpp"

namespace compilecache {
namespace {

using SignatureContextPtr = OpensslPtr<EVP_MD_CTX, EVP_MD_CTX_free>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

BioPtr reader(const std::string& pem) {
  return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

bool is_p256(const EVP_PKEY* key) {
  char group[32] = "";
  size_t length = 0;
  return EVP_PKEY_get_group_name(key, group, sizeof group, &length) == 1 &&
         std::string_view(group, length) == "prime256v1";
}

// An encrypted key asks nobody for a password.
int no_password(char*, int, int, void*) { return -1; }

}  // namespace

Result<std::string> sign_p256(const std::string& key, std::string_view bytes) {
  const KeyPtr read(PEM_read_bio_PrivateKey(reader(key).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (!read || !is_p256(read.get())) {
    return fail(ErrorCode::kInvalid, "the key is no P-256 key in PEM without a password");
  }
  const SignatureContextPtr context(EVP_MD_CTX_new());
  size_t length = 0;
  if (!context ||
      EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, read.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &length, bytes_of(bytes), bytes.size()) != 1) {
    ERR_clear_error();
    return fail(ErrorCode::kInternal, "OpenSSL does not sign");
  }
  std::string signature(length, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &length,
                     bytes_of(bytes), bytes.size()) != 1) {
    ERR_clear_error();
    return fail(ErrorCode::kInternal, "OpenSSL does not sign");
  }
  signature.resize(length);
  return signature;
}

Result<P256PublicKey> P256PublicKey::parse(const std::string& pem) {
  KeyPtr read(PEM_read_bio_PUBKEY(reader(pem).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (!read || !is_p256(read.get())) {
    return fail(ErrorCode::kInvalid,
                "it is no public key of P-256 in PEM (\"-----BEGIN PUBLIC KEY-----\"), as cosign "
                "generate-key-pair writes into cosign.pub");
  }
  return P256PublicKey(std::shared_ptr<EVP_PKEY>(read.release(), EVP_PKEY_free));
}

bool P256PublicKey::has_signed(std::string_view bytes, std::string_view signature) const {
  const SignatureContextPtr context(EVP_MD_CTX_new());
  const bool good =
      context &&
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(bytes),
                       bytes.size()) == 1;
  ERR_clear_error();
  return good;
}

}  // namespace compilecache
