#include "tests/unit/http/certificates.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <array>
#include <atomic>
#include <cstdio>

namespace compilecache::http::testing {

namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Key new_key() { return {EVP_EC_gen("P-256"), EVP_PKEY_free}; }

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string pem_of(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  return text_of(bio);
}

std::string pem_of(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(bio);
}

Certificate new_certificate(EVP_PKEY* key, const std::string& common_name, long seconds) {
  static std::atomic<long> serial = 1;
  Certificate certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial.fetch_add(1));
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  return certificate;
}

void add_extension(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace

struct TestCa::Native {
  Key key{nullptr, EVP_PKEY_free};
  Certificate certificate{nullptr, X509_free};
};

TestCa::TestCa(const std::string& common_name) : native_(std::make_unique<Native>()) {
  native_->key = new_key();
  native_->certificate = new_certificate(native_->key.get(), common_name, 86400);
  X509* certificate = native_->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(certificate, native_->key.get(), EVP_sha256());
  pem_ = pem_of(certificate);
}

TestCa::~TestCa() = default;

std::string TestCa::subject_hash() const {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08lx",
                X509_subject_name_hash(native_->certificate.get()));
  return text.data();
}

Pair TestCa::issue(const std::string& dns_name, long seconds) const {
  const bool address = dns_name.find_first_not_of("0123456789abcdef.:") == std::string::npos;
  return sign(NID_subject_alt_name, (address ? "IP:" : "DNS:") + dns_name, seconds);
}

Pair TestCa::issue_for(const std::string& use, long seconds) const {
  return sign(NID_ext_key_usage, use, seconds);
}

Pair TestCa::sign(int extension, const std::string& value, long seconds) const {
  const Key key = new_key();
  const Certificate certificate = new_certificate(key.get(), "leaf", seconds);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(native_->certificate.get()));
  add_extension(certificate.get(), extension, value);
  X509_sign(certificate.get(), native_->key.get(), EVP_sha256());
  return {pem_of(certificate.get()), pem_of(key.get())};
}

}  // namespace compilecache::http::testing
