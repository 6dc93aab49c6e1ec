#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "store/registry/registry_client.hpp"

// Parts of a blob, for servers of all kinds: with ranges, and without.

namespace compilecache::store {

// "bytes 100-199/1000", or "bytes */1000" where there is no such range. Pure.
struct ContentRange {
  uint64_t first = 0;
  uint64_t count = 0;             // 0: none
  std::optional<uint64_t> total;  // of the blob; none: "*"
};
std::optional<ContentRange> parse_content_range(std::string_view field);

// The value of Content-Length.
std::optional<uint64_t> content_length(const http::Answer& answer);

// An answer whose next byte is the wanted one.
struct BlobAnswer {
  AnswerPtr answer;               // null: the blob has nothing there
  std::optional<uint64_t> total;  // the blob's size, as far as the server tells
};

// Gets the blob from `first` on, up to `end` (not included) if there is one. A server that does not
// know ranges sends all of it, and bytes before `first` are skipped.
Reply<BlobAnswer> get_blob(RegistryClient& client, const std::string& digest, uint64_t first,
                           std::optional<uint64_t> end);

}  // namespace compilecache::store
