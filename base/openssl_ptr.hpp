#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>

// OpenSSL's objects as unique_ptr.
//
//   CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));

namespace compilecache {

template <auto Free>
struct OpensslDeleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <typename T, auto Free>
using OpensslPtr = std::unique_ptr<T, OpensslDeleter<Free>>;

using BioPtr = OpensslPtr<BIO, BIO_free_all>;
using CertificatePtr = OpensslPtr<X509, X509_free>;
using KeyPtr = OpensslPtr<EVP_PKEY, EVP_PKEY_free>;

}  // namespace compilecache
