#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/log.hpp"
#include "kube/reflector.hpp"
#include "tests/unit/kube/simulated_server.hpp"

// Thousands of histories of a server that changes and fails by chance; after each of them the store
// is what the server has. A history that failed is run alone by its seed:
//
//   kube_test --gtest_filter=ReflectorHistory.* with COMPILECACHE_TEST_SEED=17 in the environment

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kHistories = 2000;

// Events that the handlers of a store may get.
class Told {
 public:
  void operator()(const std::string& key, const Store<int>::Ptr& before,
                  const Store<int>::Ptr& after) {
    if (before && known_.contains(key) && after) {
      EXPECT_EQ(known_.at(key), *before) << key;
      EXPECT_LE(*before, *after) << key << " went back in time";
    }
    EXPECT_EQ(before != nullptr, known_.contains(key)) << key;
    if (after) {
      known_[key] = *after;
    } else {
      known_.erase(key);
    }
  }
  [[nodiscard]] const std::map<std::string, int>& known() const { return known_; }

 private:
  std::map<std::string, int> known_;
};

void run(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  FakeClock clock;
  const auto server = std::make_shared<SimulatedServer>(seed, clock);
  const auto wait = [server](Duration time) {
    server->wait(time);
    return false;
  };
  ClientOptions options;
  options.wait = wait;
  Store<int> store;
  Told told;
  store.add_handlers(
      {[&](const auto& key, const auto& before, const auto& after) { told(key, before, after); }});
  const auto parse = [](const Json& pod) -> Result<int> {
    EXPECT_FALSE(pod["spec"].contains("other"));
    return pod["spec"]["value"].get<int>();
  };
  Reflector<int> reflector(Client(server, options),
                           {.resource = resources::kPods, .fields = {"/spec/value"}, .wait = wait},
                           parse, store, clock, seeded_random(seed));
  reflector.start();
  EXPECT_TRUE(server->wait_until_told()) << reflector.health().last_error;
  reflector.stop();
  std::map<std::string, int> held;
  for (const auto& [key, value] : store.snapshot()) held[key] = *value;
  EXPECT_EQ(held, server->objects());
  EXPECT_EQ(told.known(), server->objects());
}

TEST(ReflectorHistory, AfterEachTheStoreIsWhatTheServerHas) {
  if (const char* one = std::getenv("COMPILECACHE_TEST_SEED")) return run(std::stoull(one));
  log_init(LogFormat::kText, LogLevel::kError);
  const uint64_t first = system_random()() % 1000000;
  std::printf("seeds %lu to %lu\n", (unsigned long)first, (unsigned long)(first + kHistories - 1));
  for (uint64_t seed = first; seed < first + kHistories && !HasFailure(); ++seed) run(seed);
  log_init(LogFormat::kText, LogLevel::kInfo);
}

}  // namespace
}  // namespace compilecache::kube
