#include "tests/simulation/registry/simulated_registry.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sha256.hpp"

namespace compilecache::simulation {
namespace {

using Json = nlohmann::json;

http::Response refuse(int status, const char* code) {
  const Json error = {{"code", code}, {"message", "simulated"}};
  return {.status = status, .body = Json{{"errors", {error}}}.dump()};
}

std::string digest_of(const std::string& bytes) { return "sha256:" + sha256_hex(bytes); }

bool is_digest(const std::string& reference) { return reference.starts_with("sha256:"); }

// What a manifest needs to be whole.
std::vector<std::string> blobs_of(const std::string& text) {
  const Json manifest = Json::parse(text);
  std::vector<std::string> named;
  if (manifest.contains("config")) named.push_back(manifest["config"]["digest"]);
  for (const Json& layer : manifest.value("layers", Json::array()))
    named.push_back(layer["digest"]);
  return named;
}

// The bytes that "Range: bytes=FIRST-LAST" asks for.
http::Response part_of(const std::string& bytes, std::string_view range) {
  size_t first = 0;
  size_t last = bytes.size() - 1;
  std::sscanf(std::string(range).c_str(), "bytes=%zu-%zu", &first, &last);
  if (first >= bytes.size()) return refuse(416, "RANGE_INVALID");
  last = std::min(last, bytes.size() - 1);
  http::Response response{.status = 206, .body = bytes.substr(first, last - first + 1)};
  response.headers.emplace_back("Content-Range", "bytes " + std::to_string(first) + "-" +
                                                     std::to_string(last) + "/" +
                                                     std::to_string(bytes.size()));
  return response;
}

http::Response whole(const RegistryRequest& request, const std::string& bytes,
                     const std::string& digest) {
  http::Response response{.body = request.method == "HEAD" ? "" : bytes};
  response.headers = {{"Docker-Content-Digest", digest},
                      {"Content-Length", std::to_string(bytes.size())}};
  return response;
}

}  // namespace

bool SimulatedRegistry::happens(int64_t until) {
  return now_ns() < until && chance_.one_in(RegistryFaults::kSome);
}

int64_t SimulatedRegistry::delay() {
  if (now_ns() >= faults.slow) return 0;
  return static_cast<int64_t>(chance_.below(RegistryFaults::kSlowAnswer));
}

std::optional<http::Response> SimulatedRegistry::handle(const RegistryRequest& request) {
  if (now_ns() < faults.down) return std::nullopt;
  ++requests_;
  if (happens(faults.throttled)) {
    http::Response response = refuse(429, "TOOMANYREQUESTS");
    response.headers.emplace_back("Retry-After", "30");
    return response;
  }
  const bool fails = happens(faults.failing);
  if (fails && chance_.one_in(2)) return refuse(500, "UNKNOWN");
  http::Response response = done(request);
  if (happens(faults.losing_answers)) return std::nullopt;
  return fails ? refuse(500, "UNKNOWN") : response;
}

http::Response SimulatedRegistry::done(const RegistryRequest& request) {
  if (request.path == "/v2/") return http::Response{};
  if (request.path == "/v2/_catalog") return catalog(request);
  const std::pair<std::string_view, int> kinds[] = {
      {"/blobs/", 0}, {"/manifests/", 1}, {"/tags/list", 2}};
  for (const auto& [separator, kind] : kinds) {
    const size_t at = request.path.find(separator);
    if (at == std::string::npos) continue;
    const std::string name = request.path.substr(4, at - 4);
    const std::string rest = request.path.substr(at + separator.size());
    if (kind == 0) return blob(request, name, rest);
    return kind == 1 ? manifest(request, name, rest) : tags(name);
  }
  return refuse(404, "UNSUPPORTED");
}

http::Response SimulatedRegistry::blob(const RegistryRequest& request, const std::string& name,
                                       const std::string& rest) {
  if (rest == "uploads/") {
    const std::string id = std::to_string(++next_upload_);
    uploads_.insert(id);
    http::Response response{.status = 202};
    response.headers.emplace_back("Location", "/v2/" + name + "/blobs/uploads/" + id + "?_state=x");
    return response;
  }
  if (rest.starts_with("uploads/")) return upload(request, name, rest.substr(8));
  if (!holds(name, rest) || !blobs_.contains(rest)) return refuse(404, "BLOB_UNKNOWN");
  const std::string& bytes = blobs_.at(rest);
  const auto range = http::find_header(request.headers, "range");
  if (range && request.method == "GET") return part_of(bytes, *range);
  return whole(request, bytes, rest);
}

http::Response SimulatedRegistry::upload(const RegistryRequest& request, const std::string& name,
                                         const std::string& id) {
  if (uploads_.erase(id) == 0) return refuse(404, "BLOB_UPLOAD_UNKNOWN");
  if (request.method == "DELETE") return {.status = 204};
  const std::string digest = request.query.substr(request.query.find("digest=") + 7);
  if (digest_of(request.body) != digest) return refuse(400, "DIGEST_INVALID");
  if (now_ns() < faults.full) return refuse(500, "UNKNOWN");
  blobs_.insert_or_assign(digest, request.body);
  repositories_[name].links.insert(digest);
  return {.status = 201};
}

http::Response SimulatedRegistry::manifest(const RegistryRequest& request, const std::string& name,
                                           const std::string& reference) {
  if (request.method == "PUT") return put_manifest(request, name, reference);
  const auto repository = repositories_.find(name);
  if (repository == repositories_.end()) return refuse(404, "NAME_UNKNOWN");
  Repository& in = repository->second;
  const auto tag = in.tags.find(reference);
  const std::string digest = tag == in.tags.end() ? reference : tag->second;
  const auto found = in.manifests.find(digest);
  if (found == in.manifests.end()) return refuse(404, "MANIFEST_UNKNOWN");
  if (request.method != "DELETE") return whole(request, found->second, digest);
  in.manifests.erase(found);
  std::erase_if(in.tags, [&](const auto& each) { return each.second == digest; });
  return {.status = 202};
}

http::Response SimulatedRegistry::put_manifest(const RegistryRequest& request,
                                               const std::string& name,
                                               const std::string& reference) {
  const std::string digest = digest_of(request.body);
  if (is_digest(reference) && reference != digest) return refuse(400, "DIGEST_INVALID");
  Repository& in = repositories_[name];
  for (const std::string& blob : blobs_of(request.body)) {
    if (!in.links.contains(blob)) return refuse(400, "MANIFEST_BLOB_UNKNOWN");
  }
  in.manifests[digest] = request.body;
  if (!is_digest(reference)) in.tags[reference] = digest;
  http::Response response{.status = 201};
  response.headers.emplace_back("Docker-Content-Digest", digest);
  return response;
}

http::Response SimulatedRegistry::tags(const std::string& name) const {
  const auto repository = repositories_.find(name);
  if (repository == repositories_.end()) return refuse(404, "NAME_UNKNOWN");
  Json tags;  // null where there are none, as distribution answers
  for (const auto& [tag, digest] : repository->second.tags) tags.push_back(tag);
  return {.body = Json{{"name", name}, {"tags", tags}}.dump()};
}

bool SimulatedRegistry::damage(uint64_t which) {
  if (blobs_.empty()) return false;
  const auto at = static_cast<std::ptrdiff_t>(which % blobs_.size());
  return damage(std::next(blobs_.begin(), at)->first);
}

bool SimulatedRegistry::damage(const std::string& digest) {
  const auto found = blobs_.find(digest);
  if (found == blobs_.end() || found->second.empty()) return false;
  found->second[hash_of(digest) % found->second.size()] ^= 1;
  damaged_.insert(digest);
  return true;
}

// "n=100&last=NAME"
http::Response SimulatedRegistry::catalog(const RegistryRequest& request) const {
  const auto parameter = [&](const std::string& name) {
    const size_t at = ("&" + request.query).find("&" + name + "=");
    if (at == std::string::npos) return std::string();
    const std::string value = request.query.substr(at + name.size() + 1);
    return http::percent_decode(value.substr(0, value.find('&'))).value_or("");
  };
  const std::string count = parameter("n");
  const size_t most = count.empty() ? 100 : std::stoul(count);
  Json names = Json::array();
  http::Response response;
  for (auto at = repositories_.upper_bound(parameter("last")); at != repositories_.end(); ++at) {
    if (names.size() == most) {
      response.headers.emplace_back("Link", "</v2/_catalog>; rel=\"next\"");
      break;
    }
    names.push_back(at->first);
  }
  response.body = Json{{"repositories", names}}.dump();
  return response;
}

int SimulatedRegistry::collect() {
  std::set<std::string> used;
  for (const auto& [name, repository] : repositories_) {
    for (const auto& [digest, text] : repository.manifests) {
      const auto named = blobs_of(text);
      used.insert(named.begin(), named.end());
    }
  }
  const auto gone = static_cast<int>(
      std::erase_if(blobs_, [&](const auto& blob) { return !used.contains(blob.first); }));
  for (auto& [name, repository] : repositories_) {
    std::erase_if(repository.links, [&](const auto& digest) { return !blobs_.contains(digest); });
  }
  uploads_.clear();
  return gone;
}

bool SimulatedRegistry::holds(const std::string& repository, const std::string& digest) const {
  const auto found = repositories_.find(repository);
  return found != repositories_.end() &&
         (found->second.links.contains(digest) || found->second.manifests.contains(digest));
}

uint64_t SimulatedRegistry::kept_bytes(const std::string& repository) const {
  const auto found = repositories_.find(repository);
  if (found == repositories_.end()) return 0;
  std::set<std::string> kept;
  for (const auto& [digest, text] : found->second.manifests) {
    const auto named = blobs_of(text);
    kept.insert(named.begin(), named.end());
  }
  uint64_t sum = 0;
  for (const std::string& digest : kept) {
    const auto blob = blobs_.find(digest);
    if (blob != blobs_.end()) sum += blob->second.size();
  }
  return sum;
}

uint64_t SimulatedRegistry::bytes() const {
  uint64_t sum = 0;
  for (const auto& [digest, bytes] : blobs_) sum += bytes.size();
  for (const auto& [name, repository] : repositories_) {
    for (const auto& [digest, text] : repository.manifests) sum += text.size();
  }
  return sum;
}

}  // namespace compilecache::simulation
