#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/fake_apiserver.hpp"

// The objects of FakeApiServer: one history of all changes, as etcd has it. Thread-safe.

namespace compilecache::testing {

struct FakeAnswer {
  int status = 200;
  std::string body;
};

class FakeObjects {
 public:
  using Json = nlohmann::json;

  Json put(const std::string& collection, Json object);
  void erase(const std::string& collection, const std::string& ns, const std::string& name);
  void bookmark(const std::string& collection);
  std::map<std::string, Json> all(const std::string& collection) const;
  int64_t version() const;
  void compact();
  void end_watches(FakeApiServer::End how);

  // Everything but watches: list, get, create, update (with status), patch (a merge or
  // JSON Patch), delete.
  FakeAnswer answer(const FakeRequest& request);

  struct Next {
    std::string line;  // empty: nothing happened
    bool ended = false;
    bool cut = false;
  };
  class Watch {
   public:
    virtual ~Watch() = default;
    virtual Next next(std::chrono::milliseconds time) = 0;
  };
  std::unique_ptr<Watch> watch(const FakeRequest& request);

  static bool is_collection(const std::string& path);

 private:
  class HistoryWatch;
  struct Event {
    int64_t version;
    std::string type;
    Json object;
  };
  // What happened in one collection, oldest first, and who waits for it.
  struct History {
    std::vector<Event> events;
    std::condition_variable changed;
  };
  // "/api/v1/namespaces/ns/pods/name/status" is collection "/api/v1/pods" and the rest.
  struct Place {
    std::string collection, ns, name, subresource;
  };
  static Place place_of(const std::string& path);

  Json put_locked(const std::string& collection, Json object);
  void erase_locked(const std::string& collection, const std::string& key);
  FakeAnswer list_locked(const FakeRequest& request, const Place& place);
  FakeAnswer get_locked(const Place& place);
  FakeAnswer create_locked(const FakeRequest& request, const Place& place);
  FakeAnswer update_locked(const Json& wanted, const Place& place);
  FakeAnswer patch_locked(const FakeRequest& request, const Place& place);
  FakeAnswer delete_locked(const FakeRequest& request, const Place& place);

  void add_event(const std::string& collection, std::string type, Json object);
  void wake_all_watches();

  mutable std::mutex mutex_;
  int64_t version_ = 100;
  int64_t compacted_ = 0;  // events up to here are forgotten
  int64_t uids_ = 0;
  std::map<std::string, std::map<std::string, Json>> objects_;  // by collection and key
  std::map<std::string, History> history_;                      // by collection
  int64_t ends_ = 0;                                            // counts end_watches()
  FakeApiServer::End how_ = FakeApiServer::End::kClosed;
};

}  // namespace compilecache::testing
