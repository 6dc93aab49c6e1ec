#include "operator/certificates/x509.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/openssl_ptr.hpp"
#include "base/strings.hpp"

namespace compilecache::controller {
namespace {

using ExtensionPtr = OpensslPtr<X509_EXTENSION, X509_EXTENSION_free>;
using NamesPtr = OpensslPtr<GENERAL_NAMES, GENERAL_NAMES_free>;
using NumberPtr = OpensslPtr<BIGNUM, BN_free>;

// Serial numbers are random and positive. Source: the CA/Browser Forum's rule of at least 64 bits.
constexpr int kSerialBits = 127;

Error openssl_error(const std::string& doing) {
  char text[256] = "no further detail";
  if (const unsigned long code = ERR_get_error(); code != 0) {
    ERR_error_string_n(code, text, sizeof text);
  }
  ERR_clear_error();
  return {ErrorCode::kInternal, doing + ": " + text};
}

BioPtr reader(const std::string& pem) {
  return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

CertificatePtr read_x509(const std::string& pem) {
  CertificatePtr certificate(PEM_read_bio_X509(reader(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

KeyPtr read_key(const std::string& pem) {
  KeyPtr key(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return key;
}

std::string contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

bool set_serial(X509* certificate) {
  NumberPtr number(BN_new());
  return number && BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_times(X509* certificate, const CertificateRequest& request) {
  using std::chrono::system_clock;
  return ASN1_TIME_set(X509_getm_notBefore(certificate),
                       system_clock::to_time_t(request.not_before)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate),
                       system_clock::to_time_t(request.not_after)) != nullptr;
}

bool add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool add_extensions(X509* certificate, X509* issuer, const CertificateRequest& request) {
  if (!add_extension(certificate, issuer, NID_subject_key_identifier, "hash")) return false;
  if (!add_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always"))
    return false;
  if (request.signs_tokens) {
    // Any use but TLS, which "any" or none would allow.
    return add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, issuer, NID_ext_key_usage, "codeSigning");
  }
  if (request.dns_names.empty()) {
    return add_extension(certificate, issuer, NID_basic_constraints,
                         "critical,CA:TRUE,pathlen:0") &&
           add_extension(certificate, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
  }
  std::vector<std::string> names;
  for (const std::string& name : request.dns_names) names.push_back("DNS:" + name);
  return add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
         add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature") &&
         add_extension(certificate, issuer, NID_ext_key_usage, "serverAuth") &&
         add_extension(certificate, issuer, NID_subject_alt_name, join(names, ","));
}

bool fill(X509* certificate, X509* issuer, EVP_PKEY* key, const CertificateRequest& request) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const auto* name = reinterpret_cast<const unsigned char*>(request.common_name.c_str());
  return X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
         set_times(certificate, request) &&
         X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, -1, -1, 0) == 1 &&
         X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
         X509_set_pubkey(certificate, key) == 1 && add_extensions(certificate, issuer, request);
}

Result<KeyPair> to_pem(X509* certificate, EVP_PKEY* key) {
  BioPtr certificate_bio(BIO_new(BIO_s_mem())), key_bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_bio.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(key_bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return unexpected(openssl_error("writing a certificate"));
  }
  return KeyPair{contents(certificate_bio.get()), contents(key_bio.get())};
}

Result<WallTime> to_wall(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return unexpected(openssl_error("reading a certificate"));
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

}  // namespace

Result<KeyPair> issue_certificate(const CertificateRequest& request, const KeyPair& issuer) {
  const std::string doing = "making the certificate \"" + request.common_name + "\"";
  KeyPtr key(EVP_EC_gen("P-256"));
  CertificatePtr certificate(X509_new());
  if (!key || !certificate) return unexpected(openssl_error(doing));

  CertificatePtr issuer_certificate;
  KeyPtr issuer_key;
  if (!issuer.empty()) {
    issuer_certificate = read_x509(issuer.certificate);
    issuer_key = read_key(issuer.key);
    if (!issuer_certificate || !issuer_key) {
      return fail(ErrorCode::kInvalid, doing + ": the authority's certificate or key is not PEM");
    }
  }
  X509* by = issuer_certificate ? issuer_certificate.get() : certificate.get();
  EVP_PKEY* with = issuer_key ? issuer_key.get() : key.get();
  if (!fill(certificate.get(), by, key.get(), request) ||
      X509_sign(certificate.get(), with, EVP_sha256()) == 0) {
    return unexpected(openssl_error(doing));
  }
  return to_pem(certificate.get(), key.get());
}

bool belongs_together(const KeyPair& pair, const std::string& issuer) {
  CertificatePtr certificate = read_x509(pair.certificate);
  CertificatePtr authority = read_x509(issuer);
  const bool good = certificate && authority && has_key(pair) &&
                    X509_verify(certificate.get(), X509_get0_pubkey(authority.get())) == 1;
  ERR_clear_error();
  return good;
}

bool is_certificate_list(const std::string& pem) {
  const BioPtr bio = reader(pem);
  bool any = false;
  while (CertificatePtr(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))) any = true;
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return any && at_end;
}

bool has_key(const KeyPair& pair) {
  CertificatePtr certificate = read_x509(pair.certificate);
  KeyPtr key = read_key(pair.key);
  const bool good = certificate && key && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  return good;
}

Result<CertificateFacts> read_certificate(const std::string& pem) {
  CertificatePtr certificate = read_x509(pem);
  if (!certificate) return fail(ErrorCode::kInvalid, "reading a certificate: it is not PEM");
  auto not_before = to_wall(X509_get0_notBefore(certificate.get()));
  auto not_after = to_wall(X509_get0_notAfter(certificate.get()));
  if (!not_before) return unexpected(not_before.error());
  if (!not_after) return unexpected(not_after.error());
  CertificateFacts facts{*not_before, *not_after, {}};
  NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    const auto* data = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName));
    facts.dns_names.emplace_back(data, static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
  }
  return facts;
}

}  // namespace compilecache::controller
