#include <string>
#include <vector>

#include "http/chunks.hpp"
#include "http/proxy.hpp"
#include "http/url.hpp"
#include "targets.hpp"

// A server's directions to a client: where to go, and how long its answer is.

namespace compilecache::fuzz {
namespace {

bool is_same(const http::Url& a, const http::Url& b) {
  return a.same_origin(b) && a.target == b.target;
}

// Only a host and a path can go into a request.
void check_url(const http::Url& url) {
  for (const char c : url.text()) require(c > ' ' && c <= '~', "a URL is visible characters");
  require(url.target.starts_with('/'), "a target begins with a slash");
  require(url.host.find_first_of("/?#@\\[] ") == std::string::npos, "a host is a host");
  const auto again = http::parse_url(url.text());
  require(again && is_same(*again, url), "a URL stays the same");
}

void any_url(Bytes input) {
  const std::string given = text(input);
  const auto url = http::parse_url(given);
  if (url) check_url(*url);
  const http::Url base = *http::parse_url("https://registry.example.com:5000/v2/a/b?c=d");
  const auto target = http::follow(base, given);
  if (!target) return;
  check_url(*target);
  const bool elsewhere = url.has_value() || given.starts_with("//");
  require(elsewhere || target->same_origin(base), "what is relative stays where it is");
  const http::Proxy proxy{"http://proxy:3128", {given}};
  (void)proxy.applies("registry.example.com", 443);
  (void)proxy.applies("10.0.0.1", 443);
  (void)proxy.applies("fd00::1", 5000);
}

// The body, how it ended, and the rest.
std::string read_body(std::string_view input, size_t piece) {
  http::ChunkReader chunks;
  std::vector<uint8_t> buffer(piece);
  std::string body;
  while (!input.empty() && !chunks.done() && !chunks.failed()) {
    const auto step = chunks.read(input.substr(0, piece), buffer);
    require(step.consumed > 0, "it goes on");
    require(step.produced <= step.consumed, "a body is not longer than what came");
    body.append(buffer.begin(), buffer.begin() + static_cast<long>(step.produced));
    input.remove_prefix(step.consumed);
  }
  const std::string end = chunks.done() ? "done" : chunks.failed() ? "failed" : "cut";
  return body + "\n" + end + "\n" + std::string(input);
}

// The first byte says in pieces of which size the rest comes; it must not matter.
void any_chunks(Bytes input) {
  if (input.empty()) return;
  const std::string bytes = text(input.subspan(1));
  require(read_body(bytes, 1U + input[0]) == read_body(bytes, 1U + bytes.size()),
          "pieces do not change the body");
}

const Registration kRegistration{{"chunks", any_chunks}, {"url", any_url}};

}  // namespace
}  // namespace compilecache::fuzz
