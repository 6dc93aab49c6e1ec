#include "kube/tls_context.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <exception>
#include "base/log.hpp"
#include "base/openssl_ptr.hpp"

namespace compilecache::kube {
namespace {

using Context = OpensslPtr<SSL_CTX, SSL_CTX_free>;

BioPtr memory(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

CertificatePtr next_certificate(BIO* bio) {
  CertificatePtr certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
  if (!certificate) ERR_clear_error();
  return certificate;
}

Status trust_only(SSL_CTX* context, const std::string& pem) {
  // The library has put the system's authorities in; the given ones replace them.
  X509_STORE* store = X509_STORE_new();
  SSL_CTX_set_cert_store(context, store);
  const BioPtr bio = memory(pem);
  int count = 0;
  while (CertificatePtr certificate = next_certificate(bio.get())) {
    X509_STORE_add_cert(store, certificate.get());
    ++count;
  }
  if (count == 0) {
    return fail(ErrorCode::kInvalid, "the certificate authority holds no PEM certificate");
  }
  return {};
}

Status identify(SSL_CTX* context, const Credentials& credentials) {
  const BioPtr chain = memory(credentials.client_certificate);
  const CertificatePtr leaf = next_certificate(chain.get());
  if (!leaf || SSL_CTX_use_certificate(context, leaf.get()) != 1) {
    return fail(ErrorCode::kInvalid, "the client certificate is no PEM certificate");
  }
  while (CertificatePtr issuer = next_certificate(chain.get())) {
    SSL_CTX_add1_chain_cert(context, issuer.get());
  }
  const BioPtr key_text = memory(credentials.client_key);
  const KeyPtr key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  if (!key || SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    ERR_clear_error();
    return fail(ErrorCode::kInvalid,
                "the client key is no PEM private key or does not fit the client certificate");
  }
  return {};
}

// OpenSSL's own verdict; without a callback it would keep the library's.
int as_found(int ok, X509_STORE_CTX*) { return ok; }

// The library has set its own check and SNI on the connection by now.
void at_start_of_handshake(const SSL* connection, int where, int) {
  if ((where & SSL_CB_HANDSHAKE_START) == 0) return;
  auto* own = const_cast<SSL*>(connection);
  SSL_set_verify(own, SSL_VERIFY_PEER, as_found);
  SSL_set_tlsext_host_name(own, nullptr);
}

}  // namespace

Status TlsContext::use(const Credentials& credentials) {
  if (!credentials.client_certificate.empty()) {
    const Context trial(SSL_CTX_new(TLS_client_method()));
    if (auto status = identify(trial.get(), credentials); !status) return status;
  }
  const MutexLock lock(mutex_);
  credentials_ = credentials;
  return {};
}

void TlsContext::apply(SSL_CTX* context) const noexcept {
  try {
    const MutexLock lock(mutex_);
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    Status status;
    auto ca = read_pem(config_.ca, "the certificate authority");
    if (!ca) {
      status = unexpected(ca.error());
    } else if (!ca->empty()) {
      status = trust_only(context, *ca);
    }
    if (status && !credentials_.client_certificate.empty()) {
      status = identify(context, credentials_);
    }
    if (!status) log_warn("preparing TLS failed", {{"error", status.error().message}});
  } catch (const std::exception& error) {
    log_warn("preparing TLS failed", {{"error", error.what()}});
  }
}

void prove_address(SSL_CTX* context, const std::string& address) noexcept {
  X509_VERIFY_PARAM_set1_ip_asc(SSL_CTX_get0_param(context), address.c_str());
  SSL_CTX_set_info_callback(context, at_start_of_handshake);
}

}  // namespace compilecache::kube
