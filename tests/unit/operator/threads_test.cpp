#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "base/log.hpp"
#include "base/random.hpp"
#include "operator/storage/sweep_ledger.hpp"
#include "tests/unit/operator/agent_api_fixture.hpp"

// Savers, loaders and sweeps on threads of their own against one leader, as they come from the
// network. ThreadSanitizer sees it too (tests/run.sh threads).

namespace compilecache::controller::test {
namespace {

// What all of them see: blobs by their digests.
class SharedVolume {
 public:
  void write(const std::vector<std::string>& blobs) {
    const std::lock_guard lock(mutex_);
    blobs_.insert(blobs.begin(), blobs.end());
  }
  size_t remove(const std::vector<std::string>& blobs) {
    const std::lock_guard lock(mutex_);
    size_t removed = 0;
    for (const std::string& blob : blobs) removed += blobs_.erase(blob);
    return removed;
  }
  [[nodiscard]] std::set<std::string> blobs() const {
    const std::lock_guard lock(mutex_);
    return blobs_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> blobs_;
};

class Threads : public AgentApiTest {
 protected:
  Threads() {
    log_init(LogFormat::kText, LogLevel::kError);  // a thousand grants
    archives.on_write = [this](const auto&, const auto& after) {
      show(after);
      const std::set<std::string> there = volume_.blobs();
      for (const std::string& blob : referenced_digests({after})) {
        if (!there.contains(blob)) ++lost_;
      }
      if (after.lock.fence < fence_) ++fences_back_;
      fence_ = after.lock.fence;
    };
  }

  ~Threads() override { log_init(LogFormat::kText, LogLevel::kInfo); }

  // One attempt to save something of a small pool, so that blobs come, go and come again.
  void save_something(const std::string& pod, Random& random) {
    const auto answer = parse<api::SaveAnswer>(
        send("POST", "/v1/saves", pod,
             api::dump(api::SaveRequest{
                 .cache = "transformer", .attempt = std::to_string(random()), .new_files = 1})));
    if (!answer || answer->decision != api::SaveDecision::kGranted) return;
    api::CommitRequest request{.fence = answer->fence,
                               .parent_digest = answer->parent_digest,
                               .manifest_digest = digest("0123456789"[random() % 10])};
    request.blobs = {request.manifest_digest, digest("abcdef"[random() % 6])};
    volume_.write(request.blobs);
    send("PUT", "/v1/saves/" + answer->id, pod,
         api::dump(api::RenewRequest{.fence = answer->fence}));
    const int status =
        send("POST", "/v1/saves/" + answer->id + "/commit", pod, api::dump(request)).status;
    ++(status == 200 ? committed_ : refused_);
    if (status != 200) send("DELETE", "/v1/saves/" + answer->id, pod);
  }

  void sweep() {
    const auto begun = parse<api::SweepAnswer>(send(
        "POST", "/v1/sweeps", "job",
        api::dump(api::SweepRequest{.cache = "transformer", .phase = api::SweepPhase::kBegin})));
    if (!begun) return;
    swept_ += volume_.remove(begun->deletable);
    api::SweepRequest end{.cache = "transformer", .phase = api::SweepPhase::kEnd};
    end.inventory.emplace();
    for (const std::string& blob : volume_.blobs()) end.inventory->blobs.push_back({blob, 1});
    send("POST", "/v1/sweeps", "job", api::dump(end));
    write_status();
  }

  template <typename Answer>
  static std::optional<Answer> parse(const http::Response& response) {
    if (response.status != 200) return std::nullopt;
    auto answer = api::parse<Answer>(response.body);
    return answer ? std::optional(*answer) : std::nullopt;
  }

  SharedVolume volume_;
  int64_t fence_ = 0;  // like the next two under the archives' own lock
  int lost_ = 0, fences_back_ = 0;
  std::atomic<int> committed_{0}, refused_{0};
  size_t swept_ = 0;
};

TEST_F(Threads, NoHeadNamesASweptBlobWhateverComesBetween) {
  clock.advance(minutes(20));
  std::atomic<int> saving{3};
  std::vector<std::thread> threads;
  for (const char* pod : {"a", "b", "c"}) {
    threads.emplace_back([&, pod] {
      Random random = seeded_random(static_cast<uint64_t>(*pod));
      for (int i = 0; i < 400; ++i) save_something(pod, random);
      --saving;
    });
  }
  threads.emplace_back([&] {
    while (saving > 0) {
      load("b");
      clock.advance(seconds(20));
    }
  });
  while (saving > 0) sweep();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost_, 0);
  EXPECT_EQ(fences_back_, 0);
  EXPECT_GT(committed_, 0);
  EXPECT_GT(swept_, 0U);
}

}  // namespace
}  // namespace compilecache::controller::test
