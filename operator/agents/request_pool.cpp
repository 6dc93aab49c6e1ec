#include "operator/agents/request_pool.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "operator/agents/agent_answers.hpp"
#include "operator/agents/fair_queue.hpp"

namespace compilecache::controller {
namespace {

// Requests that wait for a worker. With an answer in 20 ms and 8 workers that is 10 s of work.
constexpr size_t kMaxWaiting = 4096;
// ... of one address: a node's pods may share one, and each has two requests under way at most.
constexpr size_t kMaxWaitingOfOne = 256;

// Half of the workers are for others, however slow its requests are.
FairQueueLimits limits_for(int threads) {
  return {kMaxWaiting, kMaxWaitingOfOne, static_cast<size_t>(std::max(1, threads / 2))};
}

// Who sent it, before anybody has looked at the token: the address, without the port.
std::string sender_of(const http::Request& request) {
  return request.peer.substr(0, request.peer.rfind(':'));
}

}  // namespace

struct RequestPool::Impl {
  struct Task {
    http::Request request;
    http::Responder respond;
  };

  Impl(int count, Answer given)
      : answer(std::move(given)), threads(count), waiting(limits_for(count)) {}

  http::Response safely(const http::Request& request) const;
  void work();

  const Answer answer;
  const int threads;
  Mutex mutex;
  CondVar wake;
  bool stopping GUARDED_BY(mutex) = false;
  FairQueue<Task> waiting GUARDED_BY(mutex);
  std::vector<std::thread> workers;
};

http::Response RequestPool::Impl::safely(const http::Request& request) const {
  try {
    return answer(request);
  } catch (const std::exception& e) {
    log_error("a call of the agent API failed",
              {{"reason", "exception"}, {"path", request.path}, {"error", e.what()}});
    return error_response({ErrorCode::kInternal, "this is a bug of the operator; see its log"});
  }
}

void RequestPool::Impl::work() {
  MutexLock lock(mutex);
  for (;;) {
    auto next = waiting.pop();
    if (!next) {
      if (stopping && waiting.empty()) return;
      wake.wait(mutex);
      continue;
    }
    lock.unlock();
    next->work.respond(safely(next->work.request));
    lock.lock();
    waiting.done(next->sender);
    wake.notify_all();  // its sender may have been waiting for this one
  }
}

RequestPool::RequestPool(int threads, Answer answer)
    : impl_(std::make_unique<Impl>(threads, std::move(answer))) {}

RequestPool::~RequestPool() { stop(); }

void RequestPool::start() {
  for (int i = 0; i < impl_->threads; ++i) {
    impl_->workers.emplace_back([this] { impl_->work(); });
  }
}

void RequestPool::stop() {
  {
    const MutexLock lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
  impl_->workers.clear();
}

void RequestPool::handle(http::Request request, http::Responder respond) {
  using Queue = FairQueue<Impl::Task>;
  const std::string sender = sender_of(request);
  Impl::Task task{std::move(request), std::move(respond)};
  Queue::Pushed pushed = Queue::Pushed::kFull;
  {
    const MutexLock lock(impl_->mutex);
    if (!impl_->stopping) pushed = impl_->waiting.push(sender, std::move(task));
  }
  if (pushed == Queue::Pushed::kYes) {
    impl_->wake.notify_one();
    return;
  }
  const bool of_one = pushed == Queue::Pushed::kTooManyOfOne;
  // push() takes the task only where it answers kYes. NOLINTNEXTLINE(bugprone-use-after-move)
  task.respond(
      of_one ? error_response(
                   {ErrorCode::kThrottled, "too many requests of " + sender + " wait; try again"})
             : error_response({ErrorCode::kUnavailable, "too many agents are asking; try again"}));
}

http::Response RequestPool::answer(const http::Request& request) const {
  return impl_->safely(request);
}

}  // namespace compilecache::controller
