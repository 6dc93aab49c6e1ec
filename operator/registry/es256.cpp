#include "operator/registry/es256.hpp"

#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/base64.hpp"
#include "base/openssl_ptr.hpp"
#include "base/p256.hpp"

namespace compilecache::controller {
namespace {

using SignaturePtr = OpensslPtr<ECDSA_SIG, ECDSA_SIG_free>;

constexpr int kNumber = 32;  // bytes of r, and of s

BioPtr reader(const std::string& pem) {
  return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

}  // namespace

Result<std::string> sign_es256(const std::string& key, std::string_view bytes) {
  const auto der = sign_p256(key, bytes);
  if (!der) return unexpected(der.error().with("signing a token"));
  const auto* next = reinterpret_cast<const unsigned char*>(der->data());
  const SignaturePtr numbers(d2i_ECDSA_SIG(nullptr, &next, static_cast<long>(der->size())));
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
