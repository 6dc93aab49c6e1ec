#pragma once

#include <map>
#include <string>

#include "base/error.hpp"

// One signature in cosign's form, by any signer. Read and checked for its form here; who has signed
// is for TrustedKeys to say. Pure.
//
//   const auto of_cosign_3 = bundle_signature(blob);
//   const auto of_cosign_2_and_ours = simple_signature(blob, base64);

namespace compilecache::store {

struct Signature {
  std::string message;    // the very bytes that were signed
  std::string signature;  // DER
  std::string subject;    // the manifest that the message is about: "sha256:..."
  // How it came, to be put elsewhere in the same form: what bundle_signature() read; or else what
  // the layer says beside the signature, a certificate for one, by the annotations' names.
  std::string bundle = {};
  std::map<std::string, std::string> annotations = {};
};

// The largest payload or bundle that is read; cosign's have 0.3 and 1 KB.
inline constexpr size_t kMostSignatureBytes = 64U << 10;

// A layer of "application/vnd.dev.cosign.simplesigning.v1+json", with the text of its annotation
// "dev.cosignproject.cosign/signature". kInvalid: it is not that.
Result<Signature> simple_signature(const std::string& payload, const std::string& base64);
// The signed text of a manifest with that name in a registry ("harbor.example.com/ml/llama").
std::string simple_payload(const std::string& name, const std::string& digest);

// The type of a statement that signs something. Other statements of the same key, such as an
// SBOM's, vouch for nothing.
inline constexpr char kSignPredicate[] = "https://sigstore.dev/cosign/sign/v1";

// A bundle of "application/vnd.dev.sigstore.bundle.v0.3+json": an in-toto statement of cosign's, in
// an envelope (DSSE) with one signature. Its certificates and logs, where it has any, say nothing
// here. kInvalid: it is not that.
Result<Signature> bundle_signature(const std::string& bundle);

}  // namespace compilecache::store
