#include "tests/unit/store/redirecting_front.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "tests/unit/archive/archive_fixture.hpp"

namespace compilecache::store::test {
namespace {

// A field of a request's head; "": it has none. `name` in small letters.
std::string field(const std::string& head, const std::string& name) {
  std::string lower = head;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t at = lower.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const size_t from = at + name.size() + 4;
  return head.substr(from, head.find("\r\n", from) - from);
}

// The hexadecimal digits in "GET /.../blobs/sha256:..."; "": it is something else.
std::string blob_of(const std::string& head) {
  constexpr std::string_view kBlobs = "/blobs/sha256:";
  const std::string line = head.substr(0, head.find("\r\n"));
  const size_t at = line.find(kBlobs);
  if (!line.starts_with("GET ") || at == std::string::npos) return "";
  return line.substr(at + kBlobs.size(), 64);
}

std::string answer(const std::string& status, const std::string& fields, std::string_view body) {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace

RedirectingFront::RedirectingFront(uint16_t registry, std::string data)
    : registry_(registry),
      data_(std::move(data)),
      blobs_([this](testing::Connection& client) { give_blob(client); }),
      front_([this](testing::Connection& client) { pass_or_redirect(client); }) {}

void RedirectingFront::pass_or_redirect(testing::Connection& client) {
  std::string head = client.read_head();
  if (head.empty()) return;
  const std::string blob = blob_of(head);
  // The registry refuses a request without credentials.
  if (!blob.empty() && !field(head, "authorization").empty()) {
    ++redirected_;
    client.send(answer(
        "307 Temporary Redirect",
        "Location: http://" + blob_host() + "/bucket/blobs/sha256:" + blob + "?signature=x\r\n",
        ""));
    return;
  }
  head.insert(head.size() - 2, "Connection: close\r\n");
  client.relay(registry_, head);
}

void RedirectingFront::give_blob(testing::Connection& client) {
  const std::string head = client.read_head();
  if (head.empty() || lost_) return;
  // As buckets do where a signature is in the address.
  if (!field(head, "authorization").empty()) {
    ++credentials_shown_;
    client.send(answer("400 Bad Request", "", "only one way of authorization"));
    return;
  }
  const std::string hex = blob_of(head);
  const std::string bytes = archive::test::read_file(data_ + "/docker/registry/v2/blobs/sha256/" +
                                                     hex.substr(0, 2) + "/" + hex + "/data");
  ++served_;
  const std::string range = field(head, "range");  // "bytes=10-19"
  if (!range.starts_with("bytes=")) {
    client.send(answer("200 OK", "", bytes));
    return;
  }
  const size_t from = std::stoull(range.substr(6)), dash = range.find('-');
  size_t to = bytes.size() - 1;
  if (dash + 1 < range.size()) to = std::min<size_t>(to, std::stoull(range.substr(dash + 1)));
  client.send(answer("206 Partial Content",
                     "Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(to) +
                         "/" + std::to_string(bytes.size()) + "\r\n",
                     std::string_view(bytes).substr(from, to + 1 - from)));
}

}  // namespace compilecache::store::test
