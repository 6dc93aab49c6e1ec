#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "agent/registry_access.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "operator/registry/own_repositories.hpp"
#include "operator/registry/registry_keeper.hpp"
#include "operator/registry/registry_tokens.hpp"
#include "operator/registry/token_authority.hpp"
#include "operator/registry/token_minter.hpp"
#include "store/registry/registry_store.hpp"
#include "tests/integration/registry_pod.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// Agents read from the installation's registry all the time while its keys and its certificate are
// replaced, step by step as RegistryKeeper does it. They have the patience of saves and sweeps,
// which bridges the restart of the registry's process. A load that meets the restart gives up
// after two seconds (agent::loading_options), and its pod starts cold.

namespace compilecache::testing {
namespace {

using archive::test::Tree;
using controller::AuthorityStep;
using controller::TokenAuthority;
using controller::TokenMinter;

constexpr int kLoaders = 3;
constexpr int kLoadsBetween = 6;
constexpr char kRepository[] = "ml/transformer";

class RotatedRegistry : public ::testing::Test {
 protected:
  void SetUp() override {
    if (registry_program().empty()) {
      GTEST_SKIP() << "no distribution v3: CC_REGISTRY=$(tests/cluster/cluster registry)";
    }
    ASSERT_TRUE(use(replicas_[0], authority_) && use(replicas_[1], authority_));
    pod_ = std::make_unique<RegistryPod>(temp_.path("pod"), serving_, authority_.bundle());
    ASSERT_EQ(pod_->start(), "");
    save();
  }
  void TearDown() override { stop(); }

  static bool use(TokenMinter& replica, const TokenAuthority& authority) {
    return replica.use(authority).has_value();
  }
  // As an agent has them that asks this replica for its tokens.
  [[nodiscard]] store::RegistryOptions options(const TokenMinter& replica) const {
    api::AgentConfig config;
    config.operator_ca = serving_.bundle();
    const std::string port = ":" + std::to_string(pod_->port());
    store::RegistryOptions options =
        agent::registry_options(config,
                                {.host = "compilecache-registry.compilecache-system.svc" + port,
                                 .repository = kRepository,
                                 .own = true,
                                 .address = "127.0.0.1" + port},
                                nullptr);
    options.spool_folder = temp_.path();
    options.tokens = [&replica](bool push, http::SteadyTime) -> Result<store::Token> {
      const auto minted = replica.mint(
          "ml/web-1", {{kRepository, controller::grant_token({.push = push}).actions}});
      if (!minted) return unexpected(minted.error());
      return store::Token{minted->token, minted->life};
    };
    return options;
  }

  void save() {
    archive::test::write_tree(temp_.path("source"), tree_);
    archive::WriteRequest request;
    for (const auto& [path, file] : tree_)
      request.files.push_back({temp_.path("source/" + path), "torch/" + path});
    store::RegistryStore store(options(replicas_[0]));
    const auto written = archive::write_archive(store, request);
    ASSERT_TRUE(written) << written.error().message;
    manifest_ = written->archive.manifest;
  }
  void load(const TokenMinter& replica) {
    const archive::test::TempDir into(temp_.path());
    archive::ExtractOptions extract;
    extract.roots = {{"torch", into.path("torch")}};
    extract.threads = 1;
    store::RegistryStore store(options(replica));
    const auto loaded = archive::extract(store, manifest_, extract);
    ++loads_;
    if (loaded && archive::test::read_tree(into.path("torch")) == tree_) return;
    const MutexLock lock(mutex_);
    wrong_.push_back(loaded ? "other files than were saved" : loaded.error().message);
  }
  void start_loading() {
    for (int i = 0; i < kLoaders; ++i) {
      threads_.emplace_back([this, i] {
        while (!stopped_) load(replicas_[i % 2]);
      });
    }
  }
  void stop() {
    stopped_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  void some_loads() {
    const int until = loads_ + kLoadsBetween;
    while (loads_ < until) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  void make_pod_anew() {
    pod_->stop();
    // As long as a kubelet may take at least.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    ASSERT_EQ(pod_->start(), "");
    some_loads();
  }
  TokenAuthority rotate(AuthorityStep step) {
    authority_ =
        controller::rotate_authority(authority_, step, {}, SystemClock::instance().wall()).value();
    return authority_;
  }

  const archive::test::TempDir temp_;
  const Tree tree_{{"a", {archive::test::noise(300'000, 1), false}}, {"b", {"x", true}}};
  controller::Certificates serving_ =
      controller::make_certificates(
          controller::registry_names("compilecache-system", "compilecache-registry"), {},
          SystemClock::instance().wall())
          .value();
  TokenAuthority authority_ =
      controller::make_token_authority({}, SystemClock::instance().wall()).value();
  TokenMinter replicas_[2] = {{SystemClock::instance(), seeded_random(1)},
                              {SystemClock::instance(), seeded_random(2)}};
  std::unique_ptr<RegistryPod> pod_;
  std::string manifest_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stopped_ = false;
  std::atomic<int> loads_ = 0;
  Mutex mutex_;
  std::vector<std::string> wrong_ GUARDED_BY(mutex_);
};

TEST_F(RotatedRegistry, NoLoadFails) {
  start_loading();
  some_loads();
  // The next authority is published first, and then signs, for one replica before the other.
  pod_->accept(rotate(AuthorityStep::kAddNext).bundle());
  make_pod_anew();
  rotate(AuthorityStep::kSwitch);
  ASSERT_TRUE(use(replicas_[0], authority_));
  some_loads();
  ASSERT_TRUE(use(replicas_[1], authority_));
  some_loads();
  // Another certificate to serve, while the old authority is dropped.
  const auto served =
      controller::rotate(serving_, controller::RotationStep::kRenewLeaf,
                         controller::registry_names("compilecache-system", "compilecache-registry"),
                         {}, SystemClock::instance().wall());
  ASSERT_TRUE(served);
  pod_->serve(served->leaf);
  pod_->accept(rotate(AuthorityStep::kDropPrevious).bundle());
  make_pod_anew();
  stop();
  const MutexLock lock(mutex_);
  for (const std::string& what : wrong_) ADD_FAILURE() << what;
}

// As the leader does it: no pod's token opens so much.
TEST_F(RotatedRegistry, TheOperatorLooksIntoItWithTokensOfItsOwn) {
  const std::string port = ":" + std::to_string(pod_->port());
  const controller::OwnRepositories repositories(
      {.place =
           [&] {
             return api::OwnRegistry{"compilecache-registry.compilecache-system.svc" + port,
                                     "127.0.0.1" + port};
           },
       .authorities = [this] { return serving_.bundle(); },
       .minter = replicas_[0]});
  const auto names = repositories.list();
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_EQ(*names, std::vector<std::string>{kRepository});
  const auto found = repositories.find_save(kRepository, manifest_);
  ASSERT_TRUE(found) << found.error().message;
  const auto use = repositories.use(kRepository);
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_EQ(use->bytes, found->bytes);
  const WallTime since{std::chrono::hours(24 * 20'000)};
  ASSERT_TRUE(repositories.mark_unneeded(kRepository, since));
  EXPECT_EQ(repositories.use(kRepository)->unneeded_since, since);
  const auto emptied = repositories.empty(kRepository);
  ASSERT_TRUE(emptied) << emptied.error().message;
  EXPECT_EQ(repositories.use(kRepository)->bytes, 0U);
  EXPECT_EQ(repositories.find_save(kRepository, manifest_).error().code, ErrorCode::kNotFound);
  pod_->stop();
  ASSERT_EQ(pod_->start(), "");
  EXPECT_TRUE(repositories.list()->empty());
}

}  // namespace
}  // namespace compilecache::testing
