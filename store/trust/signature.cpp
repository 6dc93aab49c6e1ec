#include "store/trust/signature.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/base64.hpp"
#include "base/checked_json.hpp"
#include "base/hex.hpp"

namespace compilecache::store {
namespace {

using Json = nlohmann::json;

constexpr char kSimpleType[] = "cosign container image signature";
constexpr char kStatementType[] = "application/vnd.in-toto+json";
constexpr size_t kDigits = 64;

// The member at the end of that path, or null.
const Json& at(const Json& object, std::initializer_list<const char*> path) {
  static const Json none;
  const Json* here = &object;
  for (const char* name : path) {
    if (!here->is_object()) return none;
    const auto found = here->find(name);
    if (found == here->end()) return none;
    here = &*found;
  }
  return *here;
}

std::string text_at(const Json& object, std::initializer_list<const char*> path) {
  const Json& found = at(object, path);
  return found.is_string() ? found.get<std::string>() : "";
}

tl::unexpected<Error> not_one(const std::string& why) {
  return fail(ErrorCode::kInvalid, "it is no signature of cosign's: " + why);
}

// "DSSEv1 LENGTH TYPE LENGTH BODY": what an envelope's signature is of.
std::string pre_authentication(const std::string& type, const std::string& body) {
  return "DSSEv1 " + std::to_string(type.size()) + " " + type + " " + std::to_string(body.size()) +
         " " + body;
}

// The one manifest that a statement is about.
Result<std::string> subject_of(const std::string& statement) {
  const auto json = parse_json(statement, "the statement");
  if (!json) return unexpected(json.error());
  if (text_at(*json, {"predicateType"}) != kSignPredicate)
    return not_one("its statement is not that something was signed");
  const Json& subjects = at(*json, {"subject"});
  if (!subjects.is_array() || subjects.size() != 1)
    return not_one("its statement is not about one manifest");
  const std::string digest = text_at(subjects[0], {"digest", "sha256"});
  if (!is_hex(digest, kDigits)) return not_one("its statement names no digest");
  return "sha256:" + digest;
}

}  // namespace

Result<Signature> simple_signature(const std::string& payload, const std::string& base64) {
  if (payload.size() > kMostSignatureBytes) return not_one("it is too long");
  const auto json = parse_json(payload, "the payload");
  if (!json) return unexpected(json.error());
  if (text_at(*json, {"critical", "type"}) != kSimpleType)
    return not_one("its payload is of another type");
  const std::string digest = text_at(*json, {"critical", "image", "docker-manifest-digest"});
  if (!digest.starts_with("sha256:") || !is_hex(digest.substr(7), kDigits))
    return not_one("its payload names no digest");
  const auto signature = base64_decode(base64);
  if (!signature || signature->empty()) return not_one("its annotation is not base64");
  return Signature{payload, *signature, digest};
}

std::string simple_payload(const std::string& name, const std::string& digest) {
  return Json{{"critical",
               {{"identity", {{"docker-reference", name}}},
                {"image", {{"docker-manifest-digest", digest}}},
                {"type", kSimpleType}}},
              {"optional", nullptr}}
      .dump();
}

Result<Signature> bundle_signature(const std::string& bundle) {
  if (bundle.size() > kMostSignatureBytes) return not_one("it is too long");
  const auto json = parse_json(bundle, "the bundle");
  if (!json) return unexpected(json.error());
  const Json& envelope = at(*json, {"dsseEnvelope"});
  if (text_at(envelope, {"payloadType"}) != kStatementType)
    return not_one("its envelope is of another type");
  const auto statement = base64_decode(text_at(envelope, {"payload"}));
  const Json& signatures = at(envelope, {"signatures"});
  if (!statement || !signatures.is_array() || signatures.size() != 1)
    return not_one("its envelope has not one signature");
  const auto signature = base64_decode(text_at(signatures[0], {"sig"}));
  if (!signature || signature->empty()) return not_one("its signature is not base64");
  auto subject = subject_of(*statement);
  if (!subject) return unexpected(subject.error());
  return Signature{pre_authentication(kStatementType, *statement), *signature, std::move(*subject),
                   bundle};
}

}  // namespace compilecache::store
