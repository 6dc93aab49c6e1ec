#include "tests/unit/store/fake_registry.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <list>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <string_view>

#include "base/base64.hpp"
#include "base/sha256.hpp"

namespace compilecache::store::test {
namespace {

using Json = nlohmann::json;
using Answer = FakeRegistry::Answer;
using Call = FakeRegistry::Call;

std::string digest_of(const std::string& content) { return "sha256:" + sha256_hex(content); }

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Answer error(int status, const std::string& code) {
  return {.status = status,
          .body = Json{{"errors", {{{"code", code}, {"message", "said by a test"}}}}}.dump(),
          .headers = {{"Content-Type", "application/json"}}};
}

// One request of a connection; nothing: it was closed.
std::optional<Call> read_call(int fd, std::string& buffer) {
  const auto more = [&] {
    char piece[16384];
    const ssize_t count = ::recv(fd, piece, sizeof(piece), 0);
    if (count <= 0) return false;
    buffer.append(piece, static_cast<size_t>(count));
    return true;
  };
  size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!more()) return std::nullopt;
  }
  Call call;
  const std::string head = buffer.substr(0, end);
  buffer.erase(0, end + 4);
  size_t at = head.find("\r\n");
  const std::string first = head.substr(0, at);
  call.method = first.substr(0, first.find(' '));
  call.target = first.substr(call.method.size() + 1);
  call.target.resize(call.target.find(' '));
  while (at != std::string::npos) {
    const size_t next = head.find("\r\n", at + 2);
    const std::string line = head.substr(at + 2, next - at - 2);
    const size_t colon = line.find(':');
    const size_t value = line.find_first_not_of(' ', colon + 1);
    call.headers[lower_case(line.substr(0, colon))] =
        value == std::string::npos ? "" : line.substr(value);
    at = next;
  }
  if (call.header("expect") == "100-continue") {
    constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
    ::send(fd, kGoOn.data(), kGoOn.size(), MSG_NOSIGNAL);
  }
  const std::string length = call.header("content-length");
  const size_t wanted = length.empty() ? 0 : std::stoul(length);
  while (buffer.size() < wanted) {
    if (!more()) return std::nullopt;
  }
  call.body = buffer.substr(0, wanted);
  buffer.erase(0, wanted);
  return call;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// Until the other side has hung up.
bool wait_for_the_end(int fd) {
  std::array<char, 4096> ignored{};
  while (::recv(fd, ignored.data(), ignored.size(), 0) > 0) {
  }
  return false;
}

// Whether the connection goes on.
bool send_answer(int fd, const Call& call, const Answer& answer) {
  if (answer.stalls) return wait_for_the_end(fd);
  if (answer.no_head) return false;
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " x\r\n";
  bool has_length = answer.no_length;
  for (const auto& [name, value] : answer.headers) {
    head += name + ": " + value + "\r\n";
    has_length = has_length || lower_case(name) == "content-length";
  }
  if (!has_length) head += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  if (answer.no_length) head += "Connection: close\r\n";
  if (!send_all(fd, head + "\r\n")) return false;
  if (call.method == "HEAD") return !answer.cut_after;
  std::string_view body = answer.body;
  if (answer.cut_after) body = body.substr(0, *answer.cut_after);
  return send_all(fd, body) && !answer.cut_after && !answer.no_length;
}

std::string path_of(const std::string& target) { return target.substr(0, target.find('?')); }

std::string parameter_of(const std::string& target, const std::string& name) {
  std::smatch found;
  const std::regex pattern("[?&]" + name + "=([^&]*)");
  return std::regex_search(target, found, pattern) ? found[1].str() : "";
}

}  // namespace

struct FakeRegistry::State {
  mutable Mutex mutex;
  std::map<std::string, std::string> blobs GUARDED_BY(mutex), manifests GUARDED_BY(mutex);
  std::set<std::string> were_manifests GUARDED_BY(mutex);  // also those that were taken
  std::map<std::string, std::string> tags GUARDED_BY(mutex);
  std::set<std::string> uploads GUARDED_BY(mutex);
  std::map<int, Fault> faults GUARDED_BY(mutex);
  std::function<std::optional<Fault>(const Call&)> decide GUARDED_BY(mutex);
  std::function<std::optional<Answer>(const Call&)> refuse GUARDED_BY(mutex);
  int count GUARDED_BY(mutex) = 0;
  int next_id GUARDED_BY(mutex) = 0;
  std::vector<Call> seen GUARDED_BY(mutex);
  Manners manners GUARDED_BY(mutex);
  std::map<std::string, std::string> tokens GUARDED_BY(mutex);  // what each was asked for
  int given GUARDED_BY(mutex) = 0;
  std::set<int> open GUARDED_BY(mutex);
  std::list<std::thread> threads GUARDED_BY(mutex);
  bool ending GUARDED_BY(mutex) = false;
  std::string host;

  std::optional<Answer> challenge(const Call& call) REQUIRES(mutex);
  Answer give_token(const Call& call) REQUIRES(mutex);
  Answer do_blob(const Call& call, const std::string& digest) REQUIRES(mutex);
  Answer do_upload(const Call& call, const std::string& repository, const std::string& id)
      REQUIRES(mutex);
  Answer do_manifest(const Call& call, const std::string& reference) REQUIRES(mutex);
  Answer put_manifest(const Call& call, const std::string& reference) REQUIRES(mutex);
  Answer list_tags(const Call& call) REQUIRES(mutex);
  Answer list_referrers(const std::string& subject) REQUIRES(mutex);
  Answer act(const Call& call) REQUIRES(mutex);
};

std::optional<Answer> FakeRegistry::State::challenge(const Call& call) {
  const std::string shown = call.header("authorization");
  if (!manners.basic.empty() && shown != "Basic " + base64_encode(manners.basic)) {
    Answer refused = error(401, "UNAUTHORIZED");
    refused.headers.emplace_back("WWW-Authenticate", "Basic realm=\"a test, they say\"");
    return refused;
  }
  if (!manners.bearer) return std::nullopt;
  const bool reads = call.method == "GET" || call.method == "HEAD";
  const bool deletes = call.method == "DELETE";
  const std::string needed = reads ? "pull" : deletes ? manners.delete_needs : "push";
  const auto token = shown.rfind("Bearer ", 0) == 0 ? tokens.find(shown.substr(7)) : tokens.end();
  if (token != tokens.end() && token->second.find(needed) != std::string::npos) return std::nullopt;
  std::smatch name;
  const std::string path = path_of(call.target);
  std::regex_match(path, name, std::regex("/v2/(.+)/(blobs|manifests|tags|referrers)/.*"));
  // As distribution does.
  const std::string actions = needed == "push" ? "pull,push" : needed;
  Answer refused = error(401, "UNAUTHORIZED");
  refused.headers.emplace_back(
      "Www-Authenticate", "Bearer realm=\"http://" + host + "/token\",service=\"a test\",scope=\"" +
                              "repository:" + name[1].str() + ":" + actions + "\"");
  return refused;
}

Answer FakeRegistry::State::give_token(const Call& call) {
  if (!manners.token_user.empty() &&
      call.header("authorization") != "Basic " + base64_encode(manners.token_user))
    return error(401, "UNAUTHORIZED");
  const std::string form = call.method == "POST" ? call.body : call.target;
  if (!manners.refresh_token.empty() &&
      form.find("grant_type=refresh_token&client_id=compilecache&refresh_token=refresh%2Fme&") != 0)
    return error(400, "UNSUPPORTED");
  const std::string scope = parameter_of("?" + form, "scope");
  std::string actions = scope.substr(scope.rfind("%3A") + 3);
  if (actions == "%2A") actions = "*";
  if (actions.find("delete") != std::string::npos && manners.delete_needs != "delete")
    return error(400, "UNSUPPORTED");
  const std::string token = "token-" + std::to_string(++given);
  tokens[token] = actions;
  return {.body = Json{{"token", token}, {"expires_in", manners.token_seconds}}.dump()};
}

Answer FakeRegistry::State::do_blob(const Call& call, const std::string& digest) {
  const auto found = blobs.find(digest);
  if (found == blobs.end()) return error(404, "BLOB_UNKNOWN");
  if (call.method == "GET" && !manners.blobs_on.empty()) {
    return {.status = 307,
            .headers = {{"Location", "http://" + manners.blobs_on + path_of(call.target)}}};
  }
  const std::string& content = found->second;
  Answer whole{.body = content, .headers = {{"Docker-Content-Digest", digest}}};
  if (call.method == "HEAD") {
    whole.headers.emplace_back("Content-Length", std::to_string(content.size()));
    return whole;
  }
  whole.no_length = !manners.lengths;
  const std::string range = call.header("range");
  if (range.empty() || !manners.ranges) return whole;
  std::smatch asked;
  if (!std::regex_match(range, asked, std::regex("bytes=(\\d+)-(\\d*)"))) return whole;
  const size_t first = std::stoul(asked[1]);
  if (first >= content.size()) {
    Answer none = error(416, "RANGE_INVALID");
    none.headers.emplace_back("Content-Range", "bytes */" + std::to_string(content.size()));
    return none;
  }
  const size_t last = asked[2].length() == 0 ? content.size() - 1
                                             : std::min(std::stoul(asked[2]), content.size() - 1);
  Answer part{.status = 206, .body = content.substr(first, last - first + 1)};
  part.headers.emplace_back("Content-Range", "bytes " + std::to_string(first) + "-" +
                                                 std::to_string(last) + "/" +
                                                 std::to_string(content.size()));
  return part;
}

Answer FakeRegistry::State::do_upload(const Call& call, const std::string& repository,
                                      const std::string& id) {
  if (call.method == "POST") {
    const std::string name = "upload-" + std::to_string(++next_id);
    uploads.insert(name);
    const std::string path = "/v2/" + repository + "/blobs/uploads/" + name + "?_state=x";
    return {.status = 202,
            .headers = {{"Location", manners.relative_locations ? path : "http://" + host + path}}};
  }
  if (uploads.erase(id) == 0) return error(404, "BLOB_UPLOAD_UNKNOWN");
  if (call.method == "DELETE") return {.status = 204};
  // What not every registry takes.
  if (call.method != "PUT" || !call.header("content-range").empty() ||
      call.header("content-length").empty())
    return error(400, "UNSUPPORTED");
  const std::string digest = parameter_of(call.target, "digest");
  if (digest_of(call.body) != digest) return error(400, "DIGEST_INVALID");
  if (!manners.keeps_files || !blobs.contains(digest)) blobs[digest] = call.body;
  return {.status = 201, .headers = {{"Location", "/v2/" + repository + "/blobs/" + digest}}};
}

Answer FakeRegistry::State::put_manifest(const Call& call, const std::string& reference) {
  const std::string digest = digest_of(call.body);
  const bool by_digest = reference.rfind("sha256:", 0) == 0;
  if (by_digest && !manners.manifests_by_digest) return error(405, "UNSUPPORTED");
  if (by_digest && reference != digest) return error(400, "DIGEST_INVALID");
  const Json manifest = Json::parse(call.body);
  const std::string type = call.header("content-type");
  if (type != "application/vnd.oci.image.manifest.v1+json" &&
      (type != "application/vnd.oci.image.index.v1+json" ||
       manifest.value("mediaType", "") != type))
    return error(400, "MANIFEST_INVALID");
  // An index has neither.
  std::vector<std::string> named;
  if (manifest.contains("config")) named.push_back(manifest["config"]["digest"]);
  for (const auto& layer : manifest.value("layers", Json::array()))
    named.push_back(layer["digest"]);
  for (const std::string& blob : named) {
    if (manners.checks_blobs && !blobs.contains(blob)) return error(400, "MANIFEST_BLOB_UNKNOWN");
  }
  manifests[digest] = call.body;
  were_manifests.insert(digest);
  if (!by_digest) tags[reference] = digest;
  return {.status = 201, .headers = {{"Docker-Content-Digest", digest}}};
}

Answer FakeRegistry::State::do_manifest(const Call& call, const std::string& reference) {
  if (call.method == "PUT") return put_manifest(call, reference);
  const auto tag = tags.find(reference);
  const auto found = manifests.find(tag == tags.end() ? reference : tag->second);
  if (found == manifests.end()) return error(404, "MANIFEST_UNKNOWN");
  const std::string digest = found->first;
  if (call.method == "DELETE") {
    if (!manners.deletes) return error(405, "UNSUPPORTED");
    manifests.erase(found);
    std::erase_if(tags, [&](const auto& one) { return one.second == digest; });
    return {.status = 202};
  }
  if (call.header("accept").find("application/vnd.oci.image.manifest.v1+json") == std::string::npos)
    return error(404, "MANIFEST_UNKNOWN");
  return {.body = found->second, .headers = {{"Docker-Content-Digest", digest}}};
}

Answer FakeRegistry::State::list_referrers(const std::string& subject) {
  Json found = Json::array();
  for (const auto& [digest, text] : manifests) {
    const Json manifest = Json::parse(text);
    if (manifest.value("/subject/digest"_json_pointer, "") == subject)
      found.push_back({{"digest", digest}, {"size", text.size()}});
  }
  return {.body = Json{{"schemaVersion", 2}, {"manifests", found}}.dump()};
}

Answer FakeRegistry::State::list_tags(const Call& call) {
  if (tags.empty() && manifests.empty() && blobs.empty()) return error(404, "NAME_UNKNOWN");
  Json page = Json::array();
  bool more = false;
  for (const auto& [name, digest] : tags) {
    if (name <= parameter_of(call.target, "last")) continue;
    more = page.size() == manners.tags_in_a_page;
    if (more) break;
    page.push_back(name);
  }
  Answer list{.body = Json{{"name", "x"}, {"tags", page.empty() ? Json() : page}}.dump()};
  if (more) list.headers.emplace_back("Link", "</v2/x/tags/list?last=y>; rel=\"next\"");
  return list;
}

Answer FakeRegistry::State::act(const Call& call) {
  const std::string path = path_of(call.target);
  if (path == "/token") return give_token(call);
  if (refuse) {
    if (auto answer = refuse(call)) return *answer;
  }
  if (auto asked = challenge(call)) return *asked;
  std::smatch part;
  if (path == "/v2/") return {};
  if (std::regex_match(path, part, std::regex("/v2/(.+)/blobs/uploads/([^/]*)")))
    return do_upload(call, part[1], part[2]);
  if (std::regex_match(path, part, std::regex("/v2/(.+)/blobs/([^/]+)")))
    return do_blob(call, part[2]);
  if (std::regex_match(path, part, std::regex("/v2/(.+)/manifests/([^/]+)")))
    return do_manifest(call, part[2]);
  if (std::regex_match(path, part, std::regex("/v2/(.+)/tags/list"))) return list_tags(call);
  if (manners.referrers && std::regex_match(path, part, std::regex("/v2/(.+)/referrers/([^/]+)")))
    return list_referrers(part[2]);
  return error(404, "UNSUPPORTED");
}

FakeRegistry::Fault FakeRegistry::cut() {
  return [](const auto& usual) {
    Answer answer = usual();
    answer.no_head = true;
    return answer;
  };
}

FakeRegistry::Fault FakeRegistry::cut_before() {
  return [](const auto&) { return Answer{.no_head = true}; };
}

FakeRegistry::Fault FakeRegistry::cut_body(size_t after) {
  return [after](const auto& usual) {
    Answer answer = usual();
    answer.cut_after = after;
    return answer;
  };
}

FakeRegistry::Fault FakeRegistry::stall() {
  return [](const auto&) { return Answer{.stalls = true}; };
}

FakeRegistry::Fault FakeRegistry::status(int code, std::string body,
                                         std::vector<std::pair<std::string, std::string>> headers) {
  return [=](const auto&) { return Answer{code, body, headers}; };
}

FakeRegistry::FakeRegistry() : state_(std::make_unique<State>()) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("no port for a registry");
  port_ = ntohs(address.sin_port);
  state_->host = host();
  acceptor_ = std::thread([this] { accept_all(); });
}

FakeRegistry::~FakeRegistry() {
  std::list<std::thread> threads;
  {
    const MutexLock lock(state_->mutex);
    state_->ending = true;
    for (const int fd : state_->open) ::shutdown(fd, SHUT_RDWR);
  }
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  {
    const MutexLock lock(state_->mutex);
    threads.swap(state_->threads);
  }
  for (std::thread& thread : threads) thread.join();
}

void FakeRegistry::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const int yes = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    const MutexLock lock(state_->mutex);
    if (state_->ending) {
      ::close(fd);
      return;
    }
    state_->open.insert(fd);
    state_->threads.emplace_back([this, fd] { serve(fd); });
  }
}

void FakeRegistry::serve(int fd) {
  std::string buffer;
  while (const auto call = read_call(fd, buffer)) {
    const Answer given = answer(*call);
    if (given.before) given.before();
    if (!send_answer(fd, *call, given)) break;
  }
  const MutexLock lock(state_->mutex);
  state_->open.erase(fd);
  ::close(fd);
}

FakeRegistry::Answer FakeRegistry::answer(const Call& call) {
  const MutexLock lock(state_->mutex);
  state_->seen.push_back(call);
  // The lock is held until the answer is there.
  const auto usual = [this, &call]() NO_THREAD_SAFETY_ANALYSIS { return state_->act(call); };
  const auto fault = state_->faults.find(++state_->count);
  if (fault != state_->faults.end()) return fault->second(usual);
  const auto decided = state_->decide ? state_->decide(call) : std::nullopt;
  return decided ? (*decided)(usual) : usual();
}

void FakeRegistry::put(const std::string& digest, const std::string& content) {
  const MutexLock lock(state_->mutex);
  auto& where = state_->were_manifests.contains(digest) ? state_->manifests : state_->blobs;
  where[digest] = content;
}

std::optional<std::string> FakeRegistry::take(const std::string& digest) {
  const MutexLock lock(state_->mutex);
  for (auto* all : {&state_->blobs, &state_->manifests}) {
    if (const auto found = all->find(digest); found != all->end()) {
      std::string content = std::move(found->second);
      all->erase(found);
      return content;
    }
  }
  return std::nullopt;
}

std::string FakeRegistry::content(const std::string& digest) const {
  const MutexLock lock(state_->mutex);
  const auto blob = state_->blobs.find(digest);
  return blob != state_->blobs.end() ? blob->second : state_->manifests.at(digest);
}

std::map<std::string, std::string> FakeRegistry::tags() const {
  const MutexLock lock(state_->mutex);
  return state_->tags;
}

void FakeRegistry::tag(const std::string& name, const std::string& digest) {
  const MutexLock lock(state_->mutex);
  state_->tags[name] = digest;
}

std::set<std::string> FakeRegistry::manifests() const {
  const MutexLock lock(state_->mutex);
  std::set<std::string> all;
  for (const auto& [digest, text] : state_->manifests) all.insert(digest);
  return all;
}

void FakeRegistry::clear() {
  const MutexLock lock(state_->mutex);
  clear_now();
}

void FakeRegistry::clear_now() NO_THREAD_SAFETY_ANALYSIS {
  state_->blobs.clear();
  state_->manifests.clear();
  state_->tags.clear();
}

void FakeRegistry::take_now(const std::string& digest) NO_THREAD_SAFETY_ANALYSIS {
  state_->blobs.erase(digest);
  state_->manifests.erase(digest);
}

void FakeRegistry::revoke_tokens_now() NO_THREAD_SAFETY_ANALYSIS { state_->tokens.clear(); }

void FakeRegistry::on_call(int number, Fault fault) {
  const MutexLock lock(state_->mutex);
  state_->faults[state_->count + number] = std::move(fault);
}

void FakeRegistry::on_every_call(std::function<std::optional<Fault>(const Call&)> decide) {
  const MutexLock lock(state_->mutex);
  state_->decide = std::move(decide);
}

void FakeRegistry::refuse(std::function<std::optional<Answer>(const Call&)> decide) {
  const MutexLock lock(state_->mutex);
  state_->refuse = std::move(decide);
}

int FakeRegistry::calls() const {
  const MutexLock lock(state_->mutex);
  return state_->count;
}

void FakeRegistry::forget_calls() {
  const MutexLock lock(state_->mutex);
  state_->count = 0;
  state_->seen.clear();
  state_->faults.clear();
}

std::vector<FakeRegistry::Call> FakeRegistry::seen() const {
  const MutexLock lock(state_->mutex);
  return state_->seen;
}

std::vector<std::string> FakeRegistry::lines() const {
  std::vector<std::string> lines;
  for (const Call& call : seen()) lines.push_back(call.method + " " + path_of(call.target));
  return lines;
}

void FakeRegistry::set(const std::function<void(Manners&)>& change) {
  const MutexLock lock(state_->mutex);
  change(state_->manners);
}

void FakeRegistry::accept_token(const std::string& token) {
  const MutexLock lock(state_->mutex);
  state_->tokens[token] = "pull,push,delete";
}

int FakeRegistry::tokens_given() const {
  const MutexLock lock(state_->mutex);
  return state_->given;
}

}  // namespace compilecache::store::test
