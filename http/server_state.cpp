#include "http/server_state.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <memory>

namespace compilecache::http {

ServerState::ServerState(ServerOptions server_options, Handler request_handler)
    : options(std::move(server_options)),
      handler(std::move(request_handler)),
      bodies(std::make_shared<BodyBudget>(options.limits.large_bodies_bytes,
                                          options.limits.small_body_bytes)) {
  for (int i = 0; i < std::max(1, options.threads); ++i) {
    loops.push_back(std::make_unique<boost::asio::io_context>(1));  // of one thread
    asked_.push_back(std::make_shared<Asked>(std::chrono::steady_clock::time_point::min()));
  }
}

boost::asio::io_context& ServerState::next_loop() {
  return *loops[next_loop_.fetch_add(1) % loops.size()];
}

std::optional<std::chrono::steady_clock::time_point> ServerState::owing_since() {
  using Time = std::chrono::steady_clock::time_point;
  std::optional<Time> earliest;
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < loops.size(); ++i) {
    const std::shared_ptr<Asked> slot = asked_[i];
    const Time asked = slot->load();
    if (asked != Time::min()) {
      if (!earliest || asked < *earliest) earliest = asked;
      continue;
    }
    post_unless_stopped([&] {
      slot->store(std::chrono::steady_clock::now());
      boost::asio::post(*loops[i], [slot] { slot->store(Time::min()); });
    });
  }
  return earliest;
}

bool ServerState::admit(const std::shared_ptr<Connection>& connection) {
  std::shared_ptr<Connection> evicted;
  {
    const MutexLock lock(mutex_);
    if (closed_) return false;
    if (connections_.size() >= options.limits.connections) {
      evicted = longest_waiting_locked();
      if (!evicted) return false;
      connections_.erase(evicted);
    }
    connections_.insert(connection);
  }
  if (evicted) evicted->cut();
  return true;
}

std::shared_ptr<Connection> ServerState::longest_waiting_locked() const {
  std::shared_ptr<Connection> longest;
  std::optional<Connection::WaitingSince> earliest;
  for (const auto& connection : connections_) {
    const auto since = connection->waiting_since();
    if (since && (!earliest || *since < *earliest)) {
      longest = connection;
      earliest = since;
    }
  }
  return longest;
}

void ServerState::forget(const std::shared_ptr<Connection>& connection) {
  const MutexLock lock(mutex_);
  connections_.erase(connection);
  if (connections_.empty()) empty_.notify_all();
}

size_t ServerState::connections() const {
  const MutexLock lock(mutex_);
  return connections_.size();
}

void ServerState::close_idle_connections() {
  closing_idle.store(true);
  std::vector<std::shared_ptr<Connection>> all;
  {
    const MutexLock lock(mutex_);
    all.assign(connections_.begin(), connections_.end());
  }
  for (const auto& connection : all) connection->close_if_idle();
}

void ServerState::cut_all() {
  std::vector<std::shared_ptr<Connection>> all;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    all.assign(connections_.begin(), connections_.end());
  }
  for (const auto& connection : all) connection->cut();
}

bool ServerState::wait_until_empty(std::chrono::milliseconds patience) {
  const MutexLock lock(mutex_);
  return empty_.wait_for(mutex_, patience,
                         [this]() REQUIRES(mutex_) { return connections_.empty(); });
}

void ServerState::set_tls(TlsContext context) {
  const MutexLock lock(mutex_);
  tls_ = std::move(context);
}

TlsContext ServerState::tls() const {
  const MutexLock lock(mutex_);
  return tls_;
}

void ServerState::post_unless_stopped(const std::function<void()>& post) {
  const MutexLock lock(post_mutex_);
  if (!stopped_) post();
}

void ServerState::refuse_posts() {
  const MutexLock lock(post_mutex_);
  stopped_ = true;
}

}  // namespace compilecache::http
