#include "tests/unit/store/registry_tokens.hpp"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/base64.hpp"
#include "base/strings.hpp"

namespace compilecache::store::test {
namespace {

using Json = nlohmann::json;

constexpr int kHalf = 32;  // bytes of r, and of s

std::string url_safe(std::string_view bytes) {
  std::string text = base64_encode(bytes);
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  while (!text.empty() && text.back() == '=') text.pop_back();
  return text;
}

std::unique_ptr<BIO, decltype(&BIO_free)> memory(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

std::string der_of(const std::string& certificate_pem) {
  const auto bio = memory(certificate_pem);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free);
  std::string der(static_cast<size_t>(i2d_X509(certificate.get(), nullptr)), '\0');
  auto* out = reinterpret_cast<unsigned char*>(der.data());
  i2d_X509(certificate.get(), &out);
  return der;
}

// JWTs want r and s one after the other, and not what OpenSSL makes of them.
std::string raw_signature(const std::vector<unsigned char>& der) {
  const unsigned char* in = der.data();
  const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> signature(
      d2i_ECDSA_SIG(nullptr, &in, static_cast<long>(der.size())), ECDSA_SIG_free);
  std::string raw(2 * kHalf, '\0');
  auto* out = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(signature.get()), out, kHalf);
  BN_bn2binpad(ECDSA_SIG_get0_s(signature.get()), out + kHalf, kHalf);
  return raw;
}

std::string sign(const std::string& key_pem, const std::string& text) {
  const auto bio = memory(key_pem);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get());
  const auto* in = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  EVP_DigestSign(context.get(), nullptr, &size, in, text.size());
  std::vector<unsigned char> der(size);
  EVP_DigestSign(context.get(), der.data(), &size, in, text.size());
  der.resize(size);
  return raw_signature(der);
}

}  // namespace

std::string sign_token(const http::testing::Pair& signer, const std::string& repository,
                       const std::string& actions, long seconds) {
  const auto now = static_cast<int64_t>(std::time(nullptr));
  const Json header = {
      {"typ", "JWT"}, {"alg", "ES256"}, {"x5c", {base64_encode(der_of(signer.certificate_pem))}}};
  const Json claims = {
      {"iss", "compilecache"},
      {"aud", "registry"},
      {"sub", "a test"},
      {"jti", "1"},
      {"iat", now},
      {"nbf", now - 30},
      {"exp", now + seconds},
      {"access",
       {{{"type", "repository"}, {"name", repository}, {"actions", split(actions, ',')}}}}};
  const std::string text = url_safe(header.dump()) + "." + url_safe(claims.dump());
  return text + "." + url_safe(sign(signer.key_pem, text));
}

}  // namespace compilecache::store::test
