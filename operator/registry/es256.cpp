#include "operator/registry/es256.hpp"

#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/base64.hpp"
#include "base/openssl_ptr.hpp"

namespace compilecache::controller {
namespace {

using SignatureContextPtr = OpensslPtr<EVP_MD_CTX, EVP_MD_CTX_free>;
using SignaturePtr = OpensslPtr<ECDSA_SIG, ECDSA_SIG_free>;

constexpr int kNumber = 32;  // bytes of r, and of s

BioPtr reader(const std::string& pem) {
  return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

bool is_p256(const EVP_PKEY* key) {
  char group[32] = "";
  size_t length = 0;
  return EVP_PKEY_get_group_name(key, group, sizeof group, &length) == 1 &&
         std::string_view(group, length) == "prime256v1";
}

// As OpenSSL makes it: DER.
std::string sign_der(EVP_PKEY* key, std::string_view bytes) {
  const SignatureContextPtr context(EVP_MD_CTX_new());
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t length = 0;
  if (!context || EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &length, data, bytes.size()) != 1) {
    return "";
  }
  std::string der(length, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(der.data()), &length, data,
                     bytes.size()) != 1) {
    return "";
  }
  der.resize(length);
  return der;
}

}  // namespace

Result<std::string> sign_es256(const std::string& key, std::string_view bytes) {
  const KeyPtr read(PEM_read_bio_PrivateKey(reader(key).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!read || !is_p256(read.get())) {
    return fail(ErrorCode::kInvalid, "signing a token: the key is no P-256 key in PEM");
  }
  const std::string der = sign_der(read.get(), bytes);
  const auto* next = reinterpret_cast<const unsigned char*>(der.data());
  const SignaturePtr numbers(d2i_ECDSA_SIG(nullptr, &next, static_cast<long>(der.size())));
  std::string both(size_t{2} * kNumber, '\0');
  auto* out = reinterpret_cast<unsigned char*>(both.data());
  if (!numbers || BN_bn2binpad(ECDSA_SIG_get0_r(numbers.get()), out, kNumber) != kNumber ||
      BN_bn2binpad(ECDSA_SIG_get0_s(numbers.get()), out + kNumber, kNumber) != kNumber) {
    ERR_clear_error();
    return fail(ErrorCode::kInternal, "signing a token: OpenSSL does not sign");
  }
  return both;
}

Result<std::string> certificate_der(const std::string& pem) {
  const CertificatePtr read(PEM_read_bio_X509(reader(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!read) return fail(ErrorCode::kInvalid, "signing a token: the certificate is not PEM");
  unsigned char* bytes = nullptr;
  const int length = i2d_X509(read.get(), &bytes);
  if (length <= 0) return fail(ErrorCode::kInternal, "signing a token: OpenSSL writes no DER");
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  OPENSSL_free(bytes);
  return der;
}

std::string base64url(std::string_view bytes) {
  std::string text = base64_encode(bytes);
  text.resize(text.find_last_not_of('=') + 1);
  for (char& c : text) {
    if (c == '+') c = '-';
    if (c == '/') c = '_';
  }
  return text;
}

}  // namespace compilecache::controller
