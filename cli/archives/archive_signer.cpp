#include "cli/archives/archive_signer.hpp"

#include <fstream>
#include <sstream>

#include "base/p256.hpp"
#include "store/signatures.hpp"

namespace compilecache::cli {

Result<ArchiveSigner> ArchiveSigner::of_file(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in || text.str().empty()) return fail(ErrorCode::kIo, "the key " + file + " cannot be read");
  if (text.str().find("ENCRYPTED") != std::string::npos) {
    return fail(ErrorCode::kInvalid,
                "the key " + file +
                    " has a password, which is cosign's to ask for: sign with `cosign sign --key " +
                    file +
                    " REPOSITORY@DIGEST` (kubectl compilecache archives -o yaml has the digests), "
                    "or take a key without one: openssl genpkey -algorithm EC -pkeyopt "
                    "ec_paramgen_curve:P-256");
  }
  if (const auto tried = sign_p256(text.str(), "tried"); !tried)
    return unexpected(tried.error().with("the key " + file));
  return ArchiveSigner(text.str());
}

Status ArchiveSigner::sign(store::Store& registry, const std::string& manifest) const {
  store::Signatures* signatures = registry.signatures();
  if (signatures == nullptr)
    return fail(ErrorCode::kInvalid, registry.describe() + " has no place for signatures");
  const std::string payload = store::simple_payload(registry.describe(), manifest);
  auto signature = sign_p256(key_, payload);
  if (!signature) return unexpected(signature.error());
  return signatures->add({payload, std::move(*signature), manifest});
}

}  // namespace compilecache::cli
