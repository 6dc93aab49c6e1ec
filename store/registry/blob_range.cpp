#include "store/registry/blob_range.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

namespace compilecache::store {
namespace {

constexpr size_t kPassOverBytes = 256U << 10;

std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view expected) {
  if (text.substr(0, expected.size()) != expected) return false;
  text.remove_prefix(expected.size());
  return true;
}

Status pass_over(http::Answer& answer, uint64_t bytes) {
  std::vector<uint8_t> room(static_cast<size_t>(std::min<uint64_t>(bytes, kPassOverBytes)));
  while (bytes > 0) {
    const auto piece =
        std::span(room).first(static_cast<size_t>(std::min<uint64_t>(bytes, room.size())));
    const auto count = answer.read(piece);
    if (!count) return unexpected(count.error());
    if (*count == 0) return fail(ErrorCode::kUnavailable, "the answer ends too early");
    bytes -= *count;
  }
  return {};
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view field) {
  if (!take(field, "bytes ")) return std::nullopt;
  ContentRange range;
  if (!take(field, "*")) {
    const auto first = take_number(field);
    if (!first || !take(field, "-")) return std::nullopt;
    const auto last = take_number(field);
    if (!last || *last < *first) return std::nullopt;
    range.first = *first;
    range.count = *last - *first + 1;
  }
  if (!take(field, "/")) return std::nullopt;
  if (take(field, "*")) return range;
  range.total = take_number(field);
  if (!range.total || !field.empty()) return std::nullopt;
  return range;
}

std::optional<uint64_t> content_length(const http::Answer& answer) {
  const auto field = answer.header("Content-Length");
  if (!field) return std::nullopt;
  std::string_view text = *field;
  const auto number = take_number(text);
  return text.empty() ? number : std::nullopt;
}

Reply<BlobAnswer> get_blob(RegistryClient& client, const std::string& digest, uint64_t first,
                           std::optional<uint64_t> end) {
  const std::string doing = "reading blob " + digest;
  RegistryRequest request{.target = "blobs/" + digest, .streamed = true, .doing = doing};
  if (first > 0 || end) {
    const std::string last = end ? std::to_string(*end - 1) : "";
    request.headers = {{"Range", "bytes=" + std::to_string(first) + "-" + last}};
  }
  auto answer = client.send(request);
  if (!answer) {
    if (answer.error().status == 416) return BlobAnswer{};
    return tl::unexpected(answer.error());
  }
  if ((*answer)->status() == 206) {
    const auto field = (*answer)->header("Content-Range");
    const auto range = field ? parse_content_range(*field) : std::nullopt;
    if (range && range->first == first) return BlobAnswer{std::move(*answer), range->total};
    return tl::unexpected(no_answer(
        {ErrorCode::kUnavailable, "the server sent another range than was asked for"}, doing));
  }
  const auto total = content_length(**answer);
  if (total && *total <= first && first > 0) return BlobAnswer{nullptr, total};
  if (auto passed = pass_over(**answer, first); !passed)
    return tl::unexpected(no_answer(passed.error(), doing));
  return BlobAnswer{std::move(*answer), total};
}

}  // namespace compilecache::store
