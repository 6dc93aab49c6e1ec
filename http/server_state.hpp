#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "base/mutex.hpp"
#include "http/body_budget.hpp"
#include "http/server.hpp"
#include "http/tls.hpp"

// The state that the connections of one server share; internal to this folder.

namespace compilecache::http {

class Connection {
 public:
  using WaitingSince = std::chrono::steady_clock::time_point;

  virtual ~Connection() = default;
  virtual void start() = 0;
  // Closes it properly if it is between requests; otherwise nothing happens.
  virtual void close_if_idle() = 0;
  // Ends it now, whatever it is doing.
  virtual void cut() = 0;
  // Since when it has waited for its peer: for a handshake, a request, the rest of one, or until
  // the peer takes the answer. Nothing while a request is being answered.
  [[nodiscard]] virtual std::optional<WaitingSince> waiting_since() const = 0;
};

// Thread-safe. Lives until the last connection and the last Responder that is just answering have
// released it, so that a slow worker never touches a destroyed loop.
class ServerState {
 public:
  ServerState(ServerOptions options, Handler handler);

  // Counts the connection; false when there is no room even after closing one that waits.
  bool admit(const std::shared_ptr<Connection>& connection);
  void forget(const std::shared_ptr<Connection>& connection);
  [[nodiscard]] size_t connections() const;
  void close_idle_connections();
  // Ends all connections and admits no more.
  void cut_all();
  // True when all connections had ended before the time was up.
  bool wait_until_empty(std::chrono::milliseconds patience);

  void set_tls(TlsContext context);
  [[nodiscard]] TlsContext tls() const;

  // Runs `work` on the loops' threads through `post`, unless the server has stopped: work
  // queued after that would keep the io_context and itself alive forever.
  void post_unless_stopped(const std::function<void()>& post);
  void refuse_posts();

  // A connection stays on the loop it was given to. With one for all threads each step would wake
  // another thread, which costs more than the step.
  boost::asio::io_context& next_loop();

  // Posts an empty task to each loop that has run the last one; returns when the oldest task that
  // has not run yet was posted, nothing when all have run.
  std::optional<std::chrono::steady_clock::time_point> owing_since();

  const ServerOptions options;
  const Handler handler;
  std::vector<std::unique_ptr<boost::asio::io_context>> loops;  // one for each thread
  const std::shared_ptr<BodyBudget> bodies;
  std::atomic<bool> draining = false;      // every answer asks to close
  std::atomic<bool> closing_idle = false;  // a connection is closed after its answer
  std::atomic<size_t> in_flight = 0;

 private:
  std::shared_ptr<Connection> longest_waiting_locked() const REQUIRES(mutex_);

  // One for each loop: when the task that has not run yet was posted.
  using Asked = std::atomic<std::chrono::steady_clock::time_point>;

  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Asked>> asked_ GUARDED_BY(mutex_);
  CondVar empty_;
  std::set<std::shared_ptr<Connection>> connections_ GUARDED_BY(mutex_);
  TlsContext tls_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
  std::atomic<size_t> next_loop_ = 0;
  Mutex post_mutex_;
  bool stopped_ GUARDED_BY(post_mutex_) = false;
};

// Takes over an accepted socket; with `tls` unset it speaks plain HTTP. The socket's executor must
// be a strand.
std::shared_ptr<Connection> make_connection(std::shared_ptr<ServerState> state,
                                            boost::asio::ip::tcp::socket socket, TlsContext tls);

}  // namespace compilecache::http
