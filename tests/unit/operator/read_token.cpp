#include "tests/unit/operator/read_token.hpp"

#include <openssl/ecdsa.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <stdexcept>

#include "base/base64.hpp"
#include "base/openssl_ptr.hpp"
#include "base/strings.hpp"

namespace compilecache::controller::test {
namespace {

using StorePtr = OpensslPtr<X509_STORE, X509_STORE_free>;
using StoreContextPtr = OpensslPtr<X509_STORE_CTX, X509_STORE_CTX_free>;
using DigestPtr = OpensslPtr<EVP_MD_CTX, EVP_MD_CTX_free>;
using SignaturePtr = OpensslPtr<ECDSA_SIG, ECDSA_SIG_free>;

std::string from_base64url(std::string text) {
  for (char& c : text) {
    if (c == '-') c = '+';
    if (c == '_') c = '/';
  }
  text.resize((text.size() + 3) / 4 * 4, '=');
  return base64_decode(text).value();
}

CertificatePtr from_pem(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return CertificatePtr(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

StorePtr store_of(const std::string& bundle) {
  StorePtr store(X509_STORE_new());
  const BioPtr bio(BIO_new_mem_buf(bundle.data(), static_cast<int>(bundle.size())));
  while (CertificatePtr one{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    X509_STORE_add_cert(store.get(), one.get());
  }
  return store;
}

bool verifies(X509* certificate, const std::string& bundle, WallTime now, int purpose,
              const std::string& name) {
  const StorePtr store = store_of(bundle);
  const StoreContextPtr context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr);
  X509_VERIFY_PARAM* how = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(how, std::chrono::system_clock::to_time_t(now));
  X509_VERIFY_PARAM_set_purpose(how, purpose);
  if (!name.empty()) X509_VERIFY_PARAM_set1_host(how, name.c_str(), 0);
  return X509_verify_cert(context.get()) == 1;
}

bool is_signature(X509* certificate, const std::string& text, const std::string& raw) {
  if (raw.size() != 64) return false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(raw.data());
  const SignaturePtr numbers(ECDSA_SIG_new());
  ECDSA_SIG_set0(numbers.get(), BN_bin2bn(bytes, 32, nullptr), BN_bin2bn(bytes + 32, 32, nullptr));
  unsigned char* der = nullptr;
  const int length = i2d_ECDSA_SIG(numbers.get(), &der);
  const DigestPtr digest(EVP_MD_CTX_new());
  EVP_DigestVerifyInit(digest.get(), nullptr, EVP_sha256(), nullptr, X509_get0_pubkey(certificate));
  const bool good =
      EVP_DigestVerify(digest.get(), der, static_cast<size_t>(length),
                       reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1;
  OPENSSL_free(der);
  return good;
}

}  // namespace

ReadToken read_token(const std::string& token, const std::string& bundle, WallTime now) {
  const auto parts = split(token, '.');
  if (parts.size() != 3) throw std::runtime_error("no token: " + token);
  ReadToken read;
  read.header_text = from_base64url(parts[0]);
  read.payload_text = from_base64url(parts[1]);
  read.header = nlohmann::json::parse(read.header_text);
  read.payload = nlohmann::json::parse(read.payload_text);
  const std::string der = base64_decode(read.header.at("x5c").at(0).get<std::string>()).value();
  const auto* next = reinterpret_cast<const unsigned char*>(der.data());
  const CertificatePtr leaf(d2i_X509(nullptr, &next, static_cast<long>(der.size())));
  read.signed_by_leaf =
      is_signature(leaf.get(), parts[0] + "." + parts[1], from_base64url(parts[2]));
  read.leaf_is_trusted = verifies(leaf.get(), bundle, now, X509_PURPOSE_ANY, "");
  return read;
}

bool serves(const std::string& certificate, const std::string& bundle, const std::string& name,
            WallTime now) {
  return verifies(from_pem(certificate).get(), bundle, now, X509_PURPOSE_SSL_SERVER, name);
}

}  // namespace compilecache::controller::test
