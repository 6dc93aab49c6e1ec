#include "kube/http_transport.hpp"

namespace compilecache::kube {
namespace {
constexpr size_t kBodyLimit = size_t(1) << 30;
}  // namespace

Result<HttpResponse> HttpTransport::send(const HttpRequest& request, const Cancellation& cancel) {
  std::string body;
  const auto collect = [&](BodyReader& reader) -> Status {
    while (true) {
      const Result<std::string_view> piece = reader.next();
      if (!piece) return unexpected(piece.error());
      if (piece->empty()) return {};
      body += *piece;
      if (body.size() > kBodyLimit) return fail(ErrorCode::kTooLarge, "the answer is too large");
    }
  };
  Result<HttpResponse> response = fetch(request, collect, cancel);
  if (response && response->body.empty()) response->body = std::move(body);
  return response;
}

}  // namespace compilecache::kube
