#include "agent/termination.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <thread>

#include "base/mutex.hpp"

namespace compilecache::agent {

struct Termination::Handler {
  Mutex mutex;
  bool came GUARDED_BY(mutex) = false;
  std::function<void()> run GUARDED_BY(mutex);
};

namespace {

sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void wait_for(const sigset_t& signals) {
  int number = 0;
  while (::sigwait(&signals, &number) != 0) {
  }
}

}  // namespace

Termination::Termination() : event_(::eventfd(0, EFD_CLOEXEC)) {
  auto handler = std::make_unique<Handler>();
  handler_ = handler.get();
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = block_signals();
  std::thread([this, signals] {
    wait_for(signals);
    requested_at_ = std::chrono::steady_clock::now();
    requested_ = true;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(event_, &one, sizeof(one));
    const MutexLock lock(handler_->mutex);
    handler_->came = true;
    if (handler_->run) handler_->run();
  }).detach();
  [[maybe_unused]] auto* const kept = handler.release();  // there is a thread now
}

void wait_for_signal() { wait_for(block_signals()); }

std::chrono::milliseconds Termination::since() const {
  if (!requested_) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               requested_at_.load());
}

void Termination::on_request(std::function<void()> handler) {
  const MutexLock lock(handler_->mutex);
  handler_->run = std::move(handler);
  if (handler_->came && handler_->run) handler_->run();
}

bool Termination::sleep(std::chrono::milliseconds duration) const {
  pollfd ready{event_, POLLIN, 0};
  return ::poll(&ready, 1, static_cast<int>(duration.count())) <= 0 && !requested_;
}

}  // namespace compilecache::agent
