#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "kube/http_transport.hpp"

// An API server without sockets, threads and time, for very many short histories. It holds a few
// pods and changes them at each call. By one seed, it makes every mistake that a real one (of
// several replicas, behind proxies) may make. After a number of changes it becomes
// honest, and says when its watcher has received everything.

namespace compilecache::kube {

class SimulatedServer : public HttpTransport {
 public:
  SimulatedServer(uint64_t seed, FakeClock& clock);

  Result<HttpResponse> fetch(const HttpRequest& request, const BodyHandler& on_body,
                             const Cancellation& cancel) override;
  StreamEnd stream(const HttpRequest& request, const LineHandler& on_line,
                   const Cancellation& cancel) override;

  // What happens while the client waits.
  void wait(Duration time);
  // Until everything has been received; false after a minute.
  bool wait_until_told();
  // By "namespace/name": the version at which each was written last.
  [[nodiscard]] std::map<std::string, int> objects() const { return state_at(version_); }

 private:
  struct Event {
    int version;
    const char* type;
    std::string key;
  };

  [[nodiscard]] uint64_t below(uint64_t bound) { return random_() % bound; }
  [[nodiscard]] bool one_in(uint64_t n) { return below(n) == 0; }
  [[nodiscard]] bool honest() const { return changes_left_ <= 0; }
  void happen();
  void change();
  [[nodiscard]] std::map<std::string, int> state_at(int version) const;
  // How much of the history the replica that is asked knows.
  [[nodiscard]] int replica();
  Result<HttpResponse> list(const HttpRequest& request, const BodyHandler& on_body);
  StreamEnd follow(int at, const LineHandler& on_line, const Cancellation& cancel);
  bool start(const std::map<std::string, int>& objects, int at, bool bookmark,
             const LineHandler& on_line);
  StreamEnd ended_somehow();
  bool say_nonsense(const LineHandler& on_line);

  const Random random_;
  FakeClock& clock_;
  const bool watch_lists_;
  int changes_left_;
  int version_ = 100;
  int compacted_ = 0;
  std::map<std::string, int> now_;
  std::vector<Event> history_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;
};

}  // namespace compilecache::kube
