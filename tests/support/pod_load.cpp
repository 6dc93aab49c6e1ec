#include "tests/support/pod_load.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "kube/resource.hpp"

namespace compilecache::testing {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {
// More than can be under way at once, as long as a creation takes a third of a second.
constexpr int kThreads = 16;
}  // namespace

kube::Client client_of_kubeconfig() {
  const auto config = kube::load_config({});
  if (!config) throw std::runtime_error(config.error().message);
  auto transport = kube::make_transport(*config);
  if (!transport) throw std::runtime_error(transport.error().message);
  return kube::Client(std::move(*transport));
}

struct PodLoad::Impl {
  Impl(kube::Client to, json what, int per_second, Predicate predicate)
      : client(std::move(to)),
        pod(std::move(what)),
        gap(std::chrono::duration_cast<Clock::duration>(std::chrono::seconds(1)) / per_second),
        is_injected(std::move(predicate)) {}

  void work() {
    while (true) {
      std::this_thread::sleep_until(begin + gap * ticket.fetch_add(1));
      if (ending) return;
      const auto sent = Clock::now();
      const auto created = client.create(kube::resources::kPods, pod);
      note(created, std::chrono::duration<double>(Clock::now() - sent).count());
    }
  }

  void note(const Result<json>& created, double seconds) {
    const std::lock_guard lock(mutex);
    result.slowest_seconds = std::max(result.slowest_seconds, seconds);
    std::string problem;
    if (!created) {
      ++result.refused;
      problem = created.error().message;
    } else {
      ++result.created;
      if (is_injected(*created)) return;
      ++result.uninjected;
      problem = created->dump();
    }
    if (result.first_problem.empty()) result.first_problem = problem;
  }

  const kube::Client client;
  const json pod;
  const Clock::duration gap;
  const Predicate is_injected;
  const Clock::time_point begin = Clock::now();
  std::atomic<int> ticket{0};
  std::atomic<bool> ending{false};
  std::mutex mutex;  // guards result
  PodLoadResult result;
  std::vector<std::thread> threads;
};

PodLoad::PodLoad(kube::Client client, json pod, int per_second, Predicate is_injected)
    : impl_(std::make_unique<Impl>(std::move(client), std::move(pod), per_second,
                                   std::move(is_injected))) {
  for (int i = 0; i < kThreads; ++i) impl_->threads.emplace_back([this] { impl_->work(); });
}

PodLoad::~PodLoad() { stop(); }

PodLoadResult PodLoad::stop() {
  impl_->ending = true;
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
  return impl_->result;
}

}  // namespace compilecache::testing
