#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <map>

#include "tests/e2e/sandbox.hpp"

// The effect of a loaded archive in a CompileCache's status, beside the real events, with both
// versions of torch. Every pod loads the same archive: a small function compiled for two
// shapes. None saves, so that none changes what the next one finds.

namespace compilecache::e2e {
namespace {

struct Scenario {
  std::string name;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::string effect;
  std::string load = "exact";
};

// The application's user has no name in the image.
constexpr char kUnknownUser[] = "another-user";
const std::vector<std::string> kSeed{"--layers", "0", "--shapes", "8,16"};
constexpr size_t kAtOnce = 3;
constexpr seconds kLimit{300};

std::vector<std::string> with(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"--layers", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

const std::vector<Scenario>& all_scenarios() {
  static const std::vector<Scenario> kScenarios{
      {"the-same", kSeed, {}, "full"},
      {"one-shape-of-two", with({"--shapes", "16"}), {}, "full"},
      {"another-home", kSeed, {{"HOME", "/tmp"}, {"USER", "somebody"}}, "full"},
      {kUnknownUser, kSeed, {{"USER", "app"}, {"HOME", "/tmp"}}, "full"},
      {"two-processes", with({"--shapes", "8,16", "--processes", "2"}), {}, "full"},
      {"one-thread", kSeed, {{"OMP_NUM_THREADS", "1"}}, "full"},
      // Another kind of CPU, for the application: what the archive holds is not for it.
      {"fewer-instructions", kSeed, {{"ATEN_CPU_CAPABILITY", "avx2"}}, "", "none"},
      {"with-a-profile", kSeed, {{"TORCH_COMPILE_JOB_ID", "job"}}, "full"},
      {"one-more-shape", with({"--shapes", "8,16,32"}), {}, "partial"},
      {"one-old-one-new", with({"--shapes", "8,32"}), {}, "partial"},
      {"other-shapes", with({"--shapes", "32"}), {}, "none"},
      // Other entries, made of kernels that were loaded.
      {"fusion-setting",
       with({"--shapes", "8,16", "--setting", "max_fusion_size=32"}),
       {},
       "partial"},
      {"freezing", with({"--shapes", "8,16", "--setting", "freezing=true"}), {}, "partial"},
      {"max-autotune", with({"--shapes", "8,16", "--setting", "max_autotune=true"}), {}, "partial"},
      {"training", with({"--shapes", "8,16", "--train"}), {}, "none"},
      {"symbolic-shapes", with({"--shapes", "8,16", "--dynamic"}), {}, "none"},
      {"caches-off", kSeed, {{"TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1"}}, "unused"},
      {"only-imports", {"--import-only"}, {}, "unused"},
  };
  return kScenarios;
}

// All of them with $CC_E2E_LONG; else every second one, and the others with the newer torch.
std::vector<Scenario> scenarios(bool newer) {
  std::vector<Scenario> chosen;
  for (size_t i = 0; i < all_scenarios().size(); ++i) {
    if (std::getenv("CC_E2E_LONG") != nullptr || i % 2 == size_t{newer}) {
      chosen.push_back(all_scenarios()[i]);
    }
  }
  return chosen;
}

class Effect : public Sandbox {
 protected:
  json seed(const std::string& image, const std::vector<std::string>& arguments) {
    create_cache("transformer", {{"save", {{"quietPeriod", "1h"}}}});
    wait_until_ready();
    TorchPod cold{"seed", arguments, "transformer", {{"compilecache.dev/quiet-period", "1s"}}};
    cold.image = image;
    const json result = run_to_ready(cold, kLimit);
    EXPECT_TRUE(eventually(seconds(60), [&] {
      return !archives().empty() && entries_in(archives().front()) >= at(result, "/keys").size();
    })) << "nothing was saved after a quiet second";
    remove_pod("seed");
    return result;
  }

  [[nodiscard]] size_t entries_in(const json& archive) const {
    std::set<std::string> keys;
    for (const std::string& file : archived_files(archive)) {
      if (file.starts_with("torch/fxgraph/")) keys.insert(file.substr(0, file.rfind('/')));
    }
    return keys.size();
  }

  void start_scenario(const Scenario& scenario, const std::string& image,
                      const std::string& quiet_period = "1h") {
    TorchPod pod{
        scenario.name,
        scenario.arguments,
        "transformer",
        {{"compilecache.dev/mode", "ReadOnly"}, {"compilecache.dev/quiet-period", quiet_period}}};
    pod.image = image;
    for (const auto& [name, value] : scenario.environment) {
      pod.environment.push_back({{"name", name}, {"value", value}});
    }
    if (scenario.name == kUnknownUser) {
      pod.security_context = {{"runAsUser", 4321}, {"runAsGroup", 4321}, {"runAsNonRoot", true}};
    }
    start(pod);
  }

  // The application's counts, by the pod's name.
  std::map<std::string, json> run_all(const std::vector<Scenario>& scenarios,
                                      const std::string& image) {
    std::map<std::string, json> counted;
    for (size_t first = 0; first < scenarios.size(); first += kAtOnce) {
      const size_t end = std::min(first + kAtOnce, scenarios.size());
      for (size_t i = first; i < end; ++i) start_scenario(scenarios[i], image);
      for (size_t i = first; i < end; ++i) {
        const std::string& name = scenarios[i].name;
        counted[name] = wait_for_result(name, kLimit);
        remove_pod(name);
      }
    }
    return counted;
  }

  [[nodiscard]] json recent(const std::string& pod) const {
    for (const json& one : at(cache(), "/status/recent")) {
      if (one.value("pod", "") == pod) return one;
    }
    return json::object();
  }

  void judge_all(bool newer) {
    const std::string image = newer ? next_torch_image() : "";
    seed(image, kSeed);
    const auto chosen = scenarios(newer);
    const auto counted = run_all(chosen, image);
    for (const Scenario& scenario : chosen) {
      json seen = json::object();
      eventually(seconds(15), [&] {
        seen = recent(scenario.name);
        return seen.value("effect", "") == scenario.effect && seen.contains("load");
      });
      std::cout << std::left << std::setw(20) << scenario.name << std::setw(10)
                << seen.value("effect", "?") << counted.at(scenario.name) << "\n";
      EXPECT_EQ(seen.value("effect", ""), scenario.effect) << scenario.name << ": " << seen;
      EXPECT_EQ(seen.value("load", ""), scenario.load) << scenario.name << ": " << seen;
    }
  }
};

TEST_F(Effect, IsWhatHappenedInEveryScenario) { judge_all(false); }

TEST_F(Effect, IsWhatHappenedInEveryScenarioOfANewerTorch) { judge_all(true); }

// The reported time lies between nothing and all that the cold pod took, whatever else the machine
// did. It comes from the times of the pod's files, without the tracing before the first one. The
// test prints how near it came. It is reported from a pod's first read on, and grows with reads.
TEST_F(Effect, SecondsSavedAreOfWhatTheColdPodCompiledAndOfWhatWasRead) {
  const std::vector<std::string> two{"--shapes", "8,16"};
  const auto seconds_of = [](const json& result) { return result.value("seconds", 0.0); };
  const auto saved_by = [&](const std::string& pod) {
    return recent(pod).value("savedMilliseconds", 0.0) / 1000;
  };
  const double cold = seconds_of(seed("", two));
  // Later reads are reported when it is quiet.
  start_scenario({"all-of-it", two, {}, "full"}, "", "1s");
  const double truth = cold - seconds_of(wait_for_result("all-of-it", kLimit));
  EXPECT_TRUE(eventually(seconds(60), [&] {
    const json seen = recent("all-of-it");
    return seen.contains("readEntries") && at(seen, "/readEntries") == at(seen, "/loadedEntries") &&
           saved_by("all-of-it") > 0;
  })) << recent("all-of-it");
  const double saved = saved_by("all-of-it");
  EXPECT_LE(saved, cold) << recent("all-of-it");
  std::cout << "cold " << cold << " s, saved " << truth << " s, the status says " << saved
            << " s\n";
  remove_pod("all-of-it");

  start_scenario({"one-of-two", {"--shapes", "16"}, {}, "full"}, "", "1s");
  wait_for_result("one-of-two", kLimit);
  EXPECT_TRUE(
      eventually(seconds(60), [&] { return std::abs(saved_by("one-of-two") - saved / 2) <= 0.01; }))
      << "half of what was loaded was read; " << recent("one-of-two");
}

}  // namespace
}  // namespace compilecache::e2e
