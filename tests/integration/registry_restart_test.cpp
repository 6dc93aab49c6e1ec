#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "agent/registry_access.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/registry/registry_keeper.hpp"
#include "operator/registry/registry_tokens.hpp"
#include "operator/registry/token_authority.hpp"
#include "operator/registry/token_minter.hpp"
#include "store/registry/registry_store.hpp"
#include "tests/integration/registry_pod.hpp"
#include "tests/integration/service.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// Agents save to and load from the installation's registry all the time while it is restarted for
// collection. RegistryKeeper takes the steps; this test does what the controllers of Deployments
// and Services do, with processes of distribution v3.

namespace compilecache::testing {
namespace {

using archive::test::Tree;
using controller::RegistryKeeper;
using controller::TokenMinter;
using nlohmann::json;
using std::chrono::milliseconds;

constexpr char kDeployments[] = "/apis/apps/v1/deployments";
constexpr char kRepository[] = "ml/transformer";
constexpr int kRestarts = 4;

// The two Deployments as processes, behind their Service.
class Pods {
 public:
  Pods(FakeApiServer& server, RegistryPod& registry, RegistryPod& reader)
      : server_(server), registry_(registry), reader_(reader) {
    put("images", 1);
    put("images-reader", 0);
  }

  // Does what the Deployments say; the error.
  std::string follow() {
    const json written = deployment("images").at("spec").at("template");
    if (written != runs_) {
      if (!runs_.is_null()) end(registry_, "images");
      runs_ = written;
      if (auto failed = begin(registry_, "images", registry_.start()); !failed.empty())
        return failed;
    }
    const bool wanted = deployment("images-reader").at("spec").at("replicas") == 1;
    if (wanted == reads_) return "";
    reads_ = wanted;
    if (wanted) return begin(reader_, "images-reader", reader_.start_reader(registry_.data()));
    end(reader_, "images-reader");
    return "";
  }
  [[nodiscard]] bool reader_runs() const { return reads_; }
  [[nodiscard]] uint16_t port() const { return service_.port(); }

 private:
  void put(const std::string& name, int replicas) {
    server_.put(kDeployments,
                {{"metadata", {{"name", name}, {"namespace", "system"}}},
                 {"spec", {{"replicas", replicas}, {"template", {{"metadata", json::object()}}}}}});
  }
  [[nodiscard]] json deployment(const std::string& name) const {
    return server_.objects(kDeployments).at("system/" + name);
  }
  void set_ready(const std::string& name, int pods) {
    json changed = deployment(name);
    changed["status"] = {{"observedGeneration", 1'000'000},
                         {"replicas", pods},
                         {"updatedReplicas", pods},
                         {"readyReplicas", pods}};
    server_.put(kDeployments, changed);
  }
  std::string begin(const RegistryPod& pod, const std::string& name, std::string failed) {
    if (!failed.empty()) return failed;
    backends_.insert(pod.port());
    service_.set_backends(backends_);
    set_ready(name, 1);
    return "";
  }
  // It leaves the Service first, and serves until nodes know that: preStop.
  void end(RegistryPod& pod, const std::string& name) {
    backends_.erase(pod.port());
    service_.set_backends(backends_);
    set_ready(name, 0);
    std::this_thread::sleep_for(milliseconds(300));
    pod.stop();
  }

  FakeApiServer& server_;
  RegistryPod& registry_;
  RegistryPod& reader_;
  LoopbackService service_;
  std::set<uint16_t> backends_;
  json runs_;  // the template of the registry's pod
  bool reads_ = false;
};

class RestartedRegistry : public ::testing::Test {
 protected:
  void SetUp() override {
    if (registry_program().empty()) {
      GTEST_SKIP() << "no distribution v3: CC_REGISTRY=$(tests/cluster/cluster registry)";
    }
    if (::geteuid() != 0) GTEST_SKIP() << "only root may mount the reader's volume read-only";
    ASSERT_TRUE(minter_.use(authority_));
    registry_ = std::make_unique<RegistryPod>(temp_.path("pod"), serving_, authority_.bundle());
    reader_ = std::make_unique<RegistryPod>(temp_.path("reader"), serving_, authority_.bundle());
    pods_ = std::make_unique<Pods>(server_, *registry_, *reader_);
    finish_restart();
    save(0);
    ASSERT_EQ(saved_count(), 1U);
  }
  void TearDown() override { stop(); }

  // The keeper's rounds, until nothing is left to do.
  void finish_restart() {
    for (int quiet = 0; quiet < 2;) {
      const auto round = keeper_.round();
      ASSERT_TRUE(round) << round.error().message;
      ASSERT_EQ(pods_->follow(), "");
      had_reader_ |= pods_->reader_runs();
      quiet = keeper_.started() && !pods_->reader_runs() ? quiet + 1 : 0;
    }
  }

  // As agents have them: savers wait for the registry, loads give up after two seconds.
  [[nodiscard]] store::RegistryOptions options(bool saves) const {
    api::AgentConfig config;
    config.operator_ca = serving_.bundle();
    const std::string port = ":" + std::to_string(pods_->port());
    const api::RegistryRef place{.host = "compilecache-registry.compilecache-system.svc" + port,
                                 .repository = kRepository,
                                 .own = true,
                                 .address = "127.0.0.1" + port};
    store::RegistryOptions options = saves ? agent::registry_options(config, place, nullptr)
                                           : agent::loading_options(config, place, nullptr);
    options.spool_folder = temp_.path();
    options.tokens = [this](bool push, http::SteadyTime) -> Result<store::Token> {
      const auto minted = minter_.mint(
          "ml/web-1", {{kRepository, controller::grant_token({.push = push}).actions}});
      if (!minted) return unexpected(minted.error());
      return store::Token{minted->token, minted->life};
    };
    return options;
  }

  // A save that fails is repeated by its saver later; one that succeeds is committed.
  void save(unsigned seed) {
    const archive::test::TempDir from(temp_.path());
    const Tree tree{{"a", {archive::test::noise(200'000, seed), false}}, {"b", {"x", true}}};
    archive::test::write_tree(from.path(), tree);
    archive::WriteRequest request;
    for (const auto& [path, file] : tree)
      request.files.push_back({from.path(path), "torch/" + path});
    store::RegistryStore store(options(true));
    const auto written = archive::write_archive(store, request);
    const MutexLock lock(mutex_);
    if (written) {
      saved_.emplace_back(written->archive.manifest, tree);
    } else {
      refused_.push_back(written.error().message);
    }
  }
  void load(const std::string& manifest, const Tree& tree) {
    const archive::test::TempDir into(temp_.path());
    archive::ExtractOptions extract;
    extract.roots = {{"torch", into.path("torch")}};
    extract.threads = 1;
    store::RegistryStore store(options(false));
    const auto loaded = archive::extract(store, manifest, extract);
    ++loads_;
    if (loaded && archive::test::read_tree(into.path("torch")) == tree) return;
    const MutexLock lock(mutex_);
    wrong_.push_back(loaded ? "other files than were saved" : loaded.error().message);
  }
  [[nodiscard]] size_t saved_count() const {
    const MutexLock lock(mutex_);
    return saved_.size();
  }
  [[nodiscard]] std::pair<std::string, Tree> saved(size_t at) const {
    const MutexLock lock(mutex_);
    return saved_.at(at % saved_.size());
  }
  void start_agents() {
    threads_.emplace_back([this] {
      for (unsigned seed = 1; !stopped_; ++seed) save(seed);
    });
    for (unsigned loader = 0; loader < 2; ++loader) {
      threads_.emplace_back([this, loader] {
        std::mt19937 random(loader);
        while (!stopped_) {
          const auto [manifest, tree] = saved(random());
          load(manifest, tree);
        }
      });
    }
  }
  void stop() {
    stopped_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  void expect_nothing_wrong(const char* when) {
    const MutexLock lock(mutex_);
    for (const std::string& what : wrong_) ADD_FAILURE() << when << ": " << what;
    wrong_.clear();
  }

  const archive::test::TempDir temp_;
  const controller::Certificates serving_ =
      controller::make_certificates(
          controller::registry_names("compilecache-system", "compilecache-registry"), {},
          SystemClock::instance().wall())
          .value();
  const controller::TokenAuthority authority_ =
      controller::make_token_authority({}, SystemClock::instance().wall()).value();
  TokenMinter minter_{SystemClock::instance(), seeded_random(1)};

  FakeApiServer server_;
  FakeClock clock_;  // the keeper's
  TokenMinter keepers_minter_{clock_, seeded_random(2)};
  RegistryKeeper keeper_{kube::Client(*kube::make_transport({.server = server_.url()})),
                         {.ns = "system", .name = "images"},
                         {keepers_minter_, [] { return true; },
                          [] { return controller::KeyPair{}; }, seeded_random(3)},
                         clock_};
  std::unique_ptr<RegistryPod> registry_, reader_;
  std::unique_ptr<Pods> pods_;
  bool had_reader_ = false;

  std::vector<std::thread> threads_;
  std::atomic<bool> stopped_ = false;
  std::atomic<int> loads_ = 0;
  mutable Mutex mutex_;
  std::vector<std::pair<std::string, Tree>> saved_ GUARDED_BY(mutex_);
  std::vector<std::string> refused_ GUARDED_BY(mutex_), wrong_ GUARDED_BY(mutex_);
};

TEST_F(RestartedRegistry, NoLoadFailsAndNoCommittedArchiveIsLost) {
  start_agents();
  for (int restart = 0; restart < kRestarts; ++restart) {
    const size_t saves = saved_count();
    const int loads = loads_;
    clock_.advance(std::chrono::hours(1));
    ASSERT_TRUE(keeper_.start_anew());
    had_reader_ = false;
    ASSERT_NO_FATAL_FAILURE(finish_restart());
    EXPECT_TRUE(had_reader_);
    while (saved_count() < saves + 2 || loads_ < loads + 4)
      std::this_thread::sleep_for(milliseconds(20));
  }
  stop();
  expect_nothing_wrong("while it was restarted");
  for (size_t at = 0; at < saved_count(); ++at) {
    const auto [manifest, tree] = saved(at);
    load(manifest, tree);
  }
  expect_nothing_wrong("afterwards");
  EXPECT_NE(registry_->collected().find("collected\n"), std::string::npos);
}

// Savers retry it, as they retry a registry that restarts.
TEST_F(RestartedRegistry, TheReaderRefusesWhatIsPushedUntilItIsRepeated) {
  ASSERT_EQ(reader_->start_reader(registry_->data()), "");
  const std::string token =
      minter_.mint("ml/web-1", {{kRepository, controller::grant_token({.push = true}).actions}})
          .value()
          .token;
  std::string digest;
  EXPECT_EQ(reader_->push_blob(kRepository, token, "a layer", digest), 500);
  EXPECT_EQ(registry_->push_blob(kRepository, token, "a layer", digest), 201);
  EXPECT_EQ(
      reader_->send("GET", "/v2/" + std::string(kRepository) + "/blobs/" + digest, token).status,
      200);
}

}  // namespace
}  // namespace compilecache::testing
