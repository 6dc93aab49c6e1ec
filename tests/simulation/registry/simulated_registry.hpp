#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "http/message.hpp"
#include "tests/simulation/os/scheduler.hpp"

// A registry as distribution is one: repositories with blobs, manifests and tags; deletion by
// digest; space is free again only after a collection, which runs while the registry is down.
// Blobs are stored once and linked from each repository that was sent them.
//
//   SimulatedRegistry registry;
//   auto response = registry.handle({.method = "GET", .path = "/v2/team/cache/tags/list"});

namespace compilecache::simulation {

struct RegistryRequest {
  std::string method;
  std::string path;   // "/v2/NAME/blobs/DIGEST"
  std::string query;  // "digest=sha256:…"
  http::Headers headers = {};
  std::string body = {};
};

// Until when, in nanoseconds of the run, each is so.
struct RegistryFaults {
  int64_t down = 0;            // nothing connects
  int64_t slow = 0;            // an answer takes up to kSlowAnswer
  int64_t throttled = 0;       // one request in kSome is answered 429, with Retry-After
  int64_t failing = 0;         // one in kSome is answered 500, perhaps after it was done
  int64_t losing_answers = 0;  // one in kSome is done, but the connection breaks before the answer
  int64_t cutting = 0;         // one body in kSome ends in the middle
  int64_t full = 0;            // uploads are answered 500

  static constexpr uint64_t kSome = 10;
  static constexpr int64_t kSlowAnswer = 20 * kSecond;
};

class SimulatedRegistry {
 public:
  struct Repository {
    std::map<std::string, std::string> manifests;  // digest to text
    std::map<std::string, std::string> tags;       // tag to digest
    std::set<std::string> links;                   // blobs that were pushed here
  };

  // None: no connection, or it breaks before the answer.
  std::optional<http::Response> handle(const RegistryRequest& request);

  // Whether the body of an answer is to be cut now.
  bool cuts_a_body() { return happens(faults.cutting); }
  // How long an answer takes now beyond its usual time.
  int64_t delay();
  // Changes a byte of a blob that `which` picks. False where there is none.
  bool damage(uint64_t which);
  bool damage(const std::string& digest);
  // Whether it ever was.
  [[nodiscard]] bool was_damaged(const std::string& digest) const {
    return damaged_.contains(digest);
  }

  // As `registry garbage-collect --delete-untagged=false` with all uploads removed: blobs that no
  // manifest names go. Returns how many.
  int collect();

  [[nodiscard]] const std::map<std::string, Repository>& repositories() const {
    return repositories_;
  }
  // Whether the repository has this blob or manifest.
  [[nodiscard]] bool holds(const std::string& repository, const std::string& digest) const;
  // Bytes that the repository's own manifests keep, which no collection frees.
  [[nodiscard]] uint64_t kept_bytes(const std::string& repository) const;
  [[nodiscard]] uint64_t bytes() const;
  [[nodiscard]] uint64_t requests() const { return requests_; }

  RegistryFaults faults;

 private:
  bool happens(int64_t until);
  http::Response done(const RegistryRequest& request);
  http::Response blob(const RegistryRequest& request, const std::string& name,
                      const std::string& rest);
  http::Response upload(const RegistryRequest& request, const std::string& name,
                        const std::string& id);
  http::Response manifest(const RegistryRequest& request, const std::string& name,
                          const std::string& reference);
  http::Response put_manifest(const RegistryRequest& request, const std::string& name,
                              const std::string& reference);
  http::Response tags(const std::string& name) const;
  http::Response catalog(const RegistryRequest& request) const;

  std::map<std::string, Repository> repositories_;
  std::map<std::string, std::string> blobs_;  // digest to bytes
  std::set<std::string> damaged_;
  std::set<std::string> uploads_;
  uint64_t next_upload_ = 0;
  uint64_t requests_ = 0;
  Chance chance_{"registry"};
};

}  // namespace compilecache::simulation
