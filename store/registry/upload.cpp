#include "store/registry/upload.hpp"

#include <utility>

namespace compilecache::store {
namespace {

RegistryRequest begin_upload(const std::string& doing) {
  return {.method = "POST", .target = "blobs/uploads/", .right = Right::kPush, .doing = doing};
}

// Errors worth another try from the beginning: also an upload that the registry has forgotten, or
// whose bytes arrived changed.
bool worth_another(Refusal& refusal) {
  const bool anew = refusal.status == 404 || refusal.has("BLOB_UPLOAD_UNKNOWN") ||
                    refusal.has("BLOB_UPLOAD_INVALID") || refusal.has("DIGEST_INVALID") ||
                    refusal.has("SIZE_INVALID") || refusal.has("RANGE_INVALID");
  if (anew && !refusal.has("NAME_UNKNOWN")) {
    refusal.error.code = ErrorCode::kUnavailable;
    refusal.error.reason = kReasonUnreachable;
  }
  return refusal.may_pass();
}

Reply<AnswerPtr> push_once(RegistryClient& client, const std::string& digest,
                           http::BodySource& content, const std::string& doing) {
  RegistryRequest begin = begin_upload(doing);
  begin.once = true;
  auto begun = client.send(begin);
  if (!begun) return begun;
  auto url = client.location(**begun);
  if (!url) return tl::unexpected(Refusal{0, {}, std::nullopt, {}, url.error().with(doing)});
  finish(**begun);
  *url += (url->find('?') == std::string::npos ? "?digest=" : "&digest=") + digest;
  return client.send({.method = "PUT",
                      .url = std::move(*url),
                      .headers = {{"Content-Type", "application/octet-stream"}},
                      .source = &content,
                      .right = Right::kPush,
                      .once = true,
                      .doing = doing});
}

}  // namespace

Error write_error(const Refusal& refusal) {
  Error error = refusal.error;
  if (error.code == ErrorCode::kNotFound || error.code == ErrorCode::kCorrupt) {
    error.code = error.reason == kReasonNoRepository ? ErrorCode::kIo : ErrorCode::kUnavailable;
    if (error.reason.empty()) error.reason = kReasonUnreachable;
  }
  return error;
}

Status push_blob(RegistryClient& client, const std::string& digest, http::BodySource& content) {
  const std::string doing = "pushing blob " + digest;
  Retries tries = client.retries();
  bool renewed = false;
  for (;;) {
    auto done = push_once(client, digest, content, doing);
    if (done) {
      finish(**done);
      return {};
    }
    Refusal refusal = std::move(done.error());
    // The client has new credentials by now; the upload may be gone.
    if (refusal.status == 401 && !std::exchange(renewed, true)) continue;
    if (!worth_another(refusal) || !tries.again(refusal)) return unexpected(write_error(refusal));
  }
}

Status try_upload(RegistryClient& client) {
  const std::string doing = "trying to push";
  auto begun = client.send(begin_upload(doing));
  if (!begun) return unexpected(write_error(begun.error()));
  auto url = client.location(**begun);
  if (!url) return unexpected(url.error().with(doing));
  finish(**begun);
  // A registry that cannot cancel it forgets it in time.
  auto cancelled = client.send({.method = "DELETE",
                                .url = std::move(*url),
                                .right = Right::kDelete,
                                .once = true,
                                .doing = doing});
  if (cancelled) finish(**cancelled);
  return {};
}

}  // namespace compilecache::store
