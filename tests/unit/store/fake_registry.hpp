#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.hpp"

namespace compilecache::store::test {

// A registry in this process, on loopback, that speaks as distribution does and misbehaves where a
// test wants it to. HTTP without TLS; one thread for each connection, so that answers can be cut
// anywhere.
//
//   FakeRegistry registry;
//   registry.on_call(3, FakeRegistry::cut());           // the third call gets no answer
//   RegistryStore store({.host = registry.host(), .repository = "ml/a", .plain_http = true});
class FakeRegistry {
 public:
  struct Call {
    std::string method;
    std::string target;                          // "/v2/ml/a/blobs/sha256:..."
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;

    [[nodiscard]] std::string header(const std::string& name) const {
      const auto found = headers.find(name);
      return found == headers.end() ? "" : found->second;
    }
  };
  struct Answer {
    int status = 200;
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
    // Ends the connection after so many bytes of the body, whatever was announced; 0 and
    // `no_head`: without a word.
    std::optional<size_t> cut_after;
    bool no_head = false;
    bool no_length = false;        // the body ends with the connection
    bool stalls = false;           // nothing comes, and the connection stays
    std::function<void()> before;  // called first; other calls go on meanwhile
  };
  // The result of a call. `usual` does what it asks for.
  using Fault = std::function<Answer(const std::function<Answer()>& usual)>;
  static Fault cut();                   // no answer, although it was done
  static Fault cut_before();            // no answer, and nothing done
  static Fault cut_body(size_t after);  // ends after so many bytes of the body
  static Fault stall();                 // nothing done, and no end of waiting
  // Nothing done.
  static Fault status(int code, std::string body = "",
                      std::vector<std::pair<std::string, std::string>> headers = {});

  FakeRegistry();
  ~FakeRegistry();
  FakeRegistry(const FakeRegistry&) = delete;
  FakeRegistry& operator=(const FakeRegistry&) = delete;

  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }

  // --- what it has -------------------------------------------------------------------------

  void put(const std::string& digest, const std::string& content);
  [[nodiscard]] std::string content(const std::string& digest) const;  // likewise
  std::optional<std::string> take(const std::string& digest);          // a blob or a manifest
  [[nodiscard]] std::map<std::string, std::string> tags() const;       // tag -> digest
  void tag(const std::string& name, const std::string& digest);
  [[nodiscard]] std::set<std::string> manifests() const;
  void clear();
  // The same from within a fault, which holds the lock.
  void clear_now();
  void take_now(const std::string& digest);
  void revoke_tokens_now();  // those that it gave are good no longer

  // --- what it does ------------------------------------------------------------------------

  // Of the calls from now on, counted from 1; those to its token service count too.
  void on_call(int number, Fault fault);
  // For every call that it is asked about; nothing: as usual.
  void on_every_call(std::function<std::optional<Fault>(const Call&)> decide);
  // Instead of doing what it is asked.
  void refuse(std::function<std::optional<Answer>(const Call&)> decide);
  [[nodiscard]] int calls() const;
  void forget_calls();  // and the faults that were to come
  [[nodiscard]] std::vector<Call> seen() const;
  [[nodiscard]] std::vector<std::string> lines() const;  // "PUT /v2/..." without queries

  struct Manners {
    bool ranges = true;
    bool relative_locations = true;
    bool manifests_by_digest = true;
    bool deletes = true;
    bool referrers = false;    // lists what refers to a manifest
    bool checks_blobs = true;  // a manifest whose blobs are missing is refused
    bool lengths = true;       // Content-Length of blobs
    bool keeps_files = false;  // a blob that is there is not written again, as by distribution
    std::string basic;         // "user:password" that it wants
    bool bearer = false;       // wants tokens of its own token service, /token
    // The action that a token to delete with needs; the token service answers 400 to words other
    // than "pull", "push" and this.
    std::string delete_needs = "delete";
    std::string token_user;     // "user:password" that this wants; empty: none
    std::string refresh_token;  // instead: a POST with it
    int token_seconds = 300;
    std::string blobs_on;  // redirects GETs of blobs to this host
    size_t tags_in_a_page = 1000;
  };
  void set(const std::function<void(Manners&)>& change);
  // A token that it takes, of somebody else.
  void accept_token(const std::string& token);
  [[nodiscard]] int tokens_given() const;

 private:
  struct State;
  void accept_all();
  void serve(int fd);
  Answer answer(const Call& call);

  int listener_ = -1;
  uint16_t port_ = 0;
  std::unique_ptr<State> state_;
  std::thread acceptor_;
};

}  // namespace compilecache::store::test
