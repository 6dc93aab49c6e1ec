#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// An API server in the test's own process, on 127.0.0.1 without TLS: it holds objects of any kind,
// lists them in pages, watches and checks resource versions. A script makes it fail.
//
//   FakeApiServer server;
//   server.put("/api/v1/pods", {{"metadata", {{"namespace", "a"}, {"name", "p"}}}});
//   server.script([](const FakeRequest& request, FakeConnection& connection) {
//     if (request.method != "GET") return false;                 // not this one
//     connection.reply(429, "{}", {{"Retry-After", "0"}});
//     return true;                                               // done: the script is used up
//   });
//
// Thread-safe; one thread for each connection.

namespace compilecache::testing {

struct FakeRequest {
  std::string method;
  std::string path;
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  [[nodiscard]] std::string parameter(const std::string& name) const;
  [[nodiscard]] bool is_watch() const { return parameter("watch") == "1"; }
  [[nodiscard]] bool is_list() const;  // a GET of a whole collection that is no watch
};

// The possible answers to one request. After the peer has closed they do nothing.
class FakeConnection {
 public:
  virtual ~FakeConnection() = default;
  virtual void reply(int status, const std::string& body,
                     const std::map<std::string, std::string>& headers = {}) = 0;
  // An answer 200 in chunks.
  virtual void begin_stream(const std::string& content_type = "application/json") = 0;
  virtual void chunk(const std::string& text) = 0;
  virtual void end_stream() = 0;
  // Says that a chunk comes and sends `text`, which is less; the latter closes, too.
  virtual void half_chunk(const std::string& text) = 0;
  virtual void half_chunk_then_cut(const std::string& text) = 0;
  virtual void cut() = 0;
  // Until the peer or the server closes, at most that long; true when closed.
  virtual bool wait_closed(std::chrono::milliseconds time) = 0;
};

class FakeApiServer {
 public:
  using Json = nlohmann::json;
  using Script = std::function<bool(const FakeRequest&, FakeConnection&)>;

  // On that port; 0: on one that the system chooses.
  explicit FakeApiServer(uint16_t port = 0);
  ~FakeApiServer();

  [[nodiscard]] std::string url() const;
  [[nodiscard]] uint16_t port() const;

  // Asked before the objects are; used up by the first request that it answers.
  void script(Script script);
  [[nodiscard]] size_t scripts_left() const;
  // Every request so far, in the order of arrival.
  [[nodiscard]] std::vector<FakeRequest> requests() const;

  // Creates or replaces; gives it the next resource version and a uid, and tells watches.
  Json put(const std::string& collection, Json object);
  void erase(const std::string& collection, const std::string& ns, const std::string& name);
  // A bookmark of the present version to every watch of the collection.
  void bookmark(const std::string& collection);
  // All by "namespace/name".
  [[nodiscard]] std::map<std::string, Json> objects(const std::string& collection) const;
  [[nodiscard]] int64_t version() const;

  // Whether watches may begin with the present objects (sendInitialEvents); false: 422, as servers
  // answer that cannot do this.
  void allow_initial_events(bool allowed);
  // Forgets the history: older watches and continue tokens are answered with 410.
  void compact();
  // Ends every watch under way: properly, with an ERROR event 410, or cut.
  enum class End { kClosed, kGone, kCut };
  void end_watches(End how);
  // Closes every connection, idle ones too.
  void close_all();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A Status object as the API server answers with.
std::string fake_status(int code, const std::string& reason, const std::string& message);

}  // namespace compilecache::testing
