#include "tests/simulation/installation/pods.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/coordinator.hpp"
#include "agent/load/load.hpp"
#include "agent/registry_access.hpp"
#include "agent/save/save.hpp"
#include "agent/sweep/sweep.hpp"
#include "api/names.hpp"
#include "base/random.hpp"
#include "store/access/open.hpp"

namespace compilecache::simulation {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr int kEntries = 3;
constexpr size_t kEntryBytes = 40'000;
constexpr int64_t kRestart = 10 * kSecond;  // of a container that was killed
constexpr char kApplication[] = "server";
constexpr char kShared[] = "/compilecache";  // where our volume is mounted
constexpr char kCreated[] = "2027-01-01T00:00:00Z";

const Clock& the_clock() { return SystemClock::instance(); }

bool simulated_sleep(milliseconds time) {
  sleep_for_ns(time.count() * 1'000'000);
  return true;
}

std::unique_ptr<agent::Coordinator> operator_client(const api::AgentConfig& config,
                                                    const Random& random) {
  return agent::make_operator_client(config, the_clock(), random, simulated_sleep);
}

// What an application writes for one graph: the path says what the bytes must be.
std::string entry_bytes(const std::string& name) {
  std::string bytes = name;
  for (uint64_t x = hash_of(name); bytes.size() < kEntryBytes; x = x * 6364136223846793005ULL + 1) {
    bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  return bytes;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Saved archives hold modification times, and the kernel's clock is not the run's.
void set_times(const fs::path& folder) {
  const auto now =
      std::chrono::file_clock::from_sys(std::chrono::sys_time<nanoseconds>(nanoseconds(wall_ns())));
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    fs::last_write_time(entry.path(), now);
  }
}

void compile(const fs::path& cache, const PodOrder& order) {
  for (int i = 0; i < kEntries; ++i) {
    const std::string name = std::to_string(hash_of(order.image + order.node + std::to_string(i)));
    const fs::path folder = cache / "fxgraph" / std::to_string(i) / ("f" + name);
    fs::create_directories(folder);
    std::ofstream(folder / name, std::ios::binary) << entry_bytes(name);
  }
  set_times(cache);
}

std::vector<std::string> wrong_files(const fs::path& cache) {
  std::vector<std::string> wrong;
  for (const auto& entry : fs::recursive_directory_iterator(cache)) {
    if (!entry.is_regular_file()) continue;
    if (read_file(entry.path()) != entry_bytes(entry.path().filename())) {
      wrong.push_back(entry.path().string());
    }
  }
  return wrong;
}

// The configuration in a container that was injected.
std::optional<api::AgentConfig> config_in(const Json& object) {
  for (const Json& container : object["spec"].value("initContainers", Json::array())) {
    if (container["name"] != api::kLoaderContainer) continue;
    for (const Json& variable : container["env"]) {
      if (variable["name"] != api::kConfigVariable) continue;
      auto config = api::parse_agent_config(variable["value"]);
      if (config) return std::move(*config);
    }
  }
  return std::nullopt;
}

// Where the container sees PATH of the volume that our containers share with the application.
std::string below(const std::string& home, const std::string& path) {
  return home + path.substr(std::string(kShared).size());
}

}  // namespace

struct Pods::Pod {
  std::string name, home;
  api::AgentConfig config;
  EndedLoad load;
  int64_t ends_at = INT64_MAX;  // when it is killed
};

Pods::Pods(Parts parts)
    : parts_(std::move(parts)), random_(system_random()), termination_(*new agent::Termination) {}

agent::Process Pods::process() { return {the_clock(), random_, termination_}; }

std::unique_ptr<store::Store> Pods::open(const api::AgentConfig& config) {
  return store::open_registry(
      agent::registry_options(config, *config.store->registry(),
                              [this, config] { return operator_client(config, random_); }));
}

std::string Pods::make_home(const std::string& ns, const std::string& pod, const std::string& uid,
                            const std::string& node) const {
  std::string home = parts_.folder + "/" + ns + "-" + pod;
  fs::create_directories(home);
  std::ofstream(home + "/token") << ApiServer::token_of(ns, pod, uid, node);
  return home;
}

Json Pods::create(const PodOrder& order) {
  const Json container = {{"name", kApplication},
                          {"image", order.image},
                          {"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}};
  return parts_.api.create_pod(
      {{"apiVersion", "v1"},
       {"kind", "Pod"},
       {"metadata",
        {{"name", order.cache + "-" + std::to_string(++counts_.pods)},
         {"namespace", order.ns},
         {"creationTimestamp", kCreated},
         {"annotations", {{api::kCacheAnnotation, order.cache}}}}},
       {"spec", {{"serviceAccountName", "default"}, {"containers", Json::array({container})}}}});
}

bool Pods::configure(Pod& pod, const Json& object, const PodOrder& order) const {
  auto config = config_in(object);
  if (!config) return false;
  pod.home = make_home(order.ns, pod.name, object["metadata"]["uid"], order.node);
  pod.config = std::move(*config);
  pod.config.token_file = pod.home + "/token";
  pod.config.control_path = below(pod.home, pod.config.control_path);
  for (auto& directory : pod.config.directories) {
    directory.path = below(pod.home, directory.path);
    fs::create_directories(directory.path);
  }
  pod.config.compression.threads = 1;
  pod.config.compression.level = 1;
  pod.load.budget_ns = nanoseconds(pod.config.load.timeout).count();
  return true;
}

void Pods::run(const PodOrder& order) {
  auto* pod = new Pod;  // threads of a killed process may still name it
  const int64_t asked = now_ns();
  Json object = create(order);
  pod->name = object["metadata"]["name"];
  pod->load = {.pod = order.ns + "/" + pod->name,
               .ns = order.ns,
               .cache = order.cache,
               .image = order.image,
               .product = order.node.substr(2)};
  const bool injected = configure(*pod, object, order);
  parts_.pod_created({pod->load.pod, order.ns, order.cache, asked, injected});
  object["spec"]["nodeName"] = order.node;
  object["status"]["phase"] = "Running";
  parts_.api.objects.put(kPods, object);
  if (const auto after = take_arm(Victim::kPod)) pod->ends_at = now_ns() + *after;
  if (injected) {
    live(*pod, order);
  } else {
    ++counts_.plain;
    sleep_for_ns(std::min(order.lives_ns, pod->ends_at - now_ns()));
  }
  if (is_gone(*pod)) ++counts_.killed;
  parts_.api.objects.erase(kPods, order.ns, pod->name);
  if (!pod->home.empty()) fs::remove_all(pod->home);
}

bool Pods::is_gone(const Pod& pod) const { return now_ns() >= pod.ends_at; }

std::optional<int64_t> Pods::take_arm(Victim victim) {
  const auto armed = armed_.find(victim);
  if (armed == armed_.end()) return std::nullopt;
  const int64_t after = armed->second;
  armed_.erase(armed);
  return after;
}

bool Pods::run_process(const Pod& pod, Victim victim, const std::function<void()>& body) {
  const ProcessId process = start_process(pod.load.pod, body);
  const auto armed = take_arm(victim);
  const int64_t killed_at = armed ? now_ns() + *armed : INT64_MAX;
  if (wait_for_process(process, std::min(killed_at, pod.ends_at))) return true;
  kill_process(process);
  ++counts_.killed;
  return false;
}

void Pods::live(Pod& pod, const PodOrder& order) {
  load(pod, order);
  if (is_gone(pod)) return;
  runs(pod);
  if (!pod.load.loaded()) save(pod, order);
  if (!is_gone(pod)) sleep_for_ns(std::min(order.lives_ns, pod.ends_at - now_ns()));
}

// As main.cpp does, in a container that is started again when it was killed.
void Pods::load(Pod& pod, const PodOrder& /*order*/) {
  pod.load.began_ns = now_ns();
  auto predecessor = agent::Predecessor::kNone;
  while (true) {
    const bool crashes = armed_.contains(Victim::kLoaderChild);
    const auto victim = crashes ? Victim::kLoaderChild : Victim::kLoader;
    const int64_t began = now_ns();
    const bool ended = run_process(pod, victim, [this, &pod, predecessor] {
      const auto store = open(pod.config).release();  // its threads may outlive the loader's
      agent::run_load(
          pod.config, *store, process(), [] {}, predecessor);
      agent::empty_after_load(pod.config);
      ::_exit(0);  // as main() returns: with all threads
    });
    parts_.loader_ended(pod.load.pod);
    if (is_gone(pod)) return;
    pod.load.took_ns = std::max(pod.load.took_ns, now_ns() - began);
    if (ended) break;
    pod.load.killed = true;
    predecessor = crashes ? agent::Predecessor::kCrashed : agent::Predecessor::kNone;
    if (!crashes) sleep_for_ns(kRestart);
  }
  judge_load(pod);
}

void Pods::runs(const Pod& pod) {
  const auto pods = parts_.api.objects.all(kPods);
  const auto found = pods.find(pod.load.pod);
  if (found == pods.end()) return;
  Json object = found->second;
  object["status"]["containerStatuses"] = {{{"name", kApplication},
                                            {"restartCount", 0},
                                            {"state", {{"running", {{"startedAt", kCreated}}}}}}};
  object["status"]["conditions"] = {{{"type", "ContainersReady"}, {"status", "True"}}};
  parts_.api.objects.put(kPods, object);
}

void Pods::judge_load(Pod& pod) {
  EndedLoad& load = pod.load;
  load.wrong_files = wrong_files(pod.config.directories.front().path);
  std::ifstream file(pod.config.control_path + "/status.json");
  const Json status = Json::parse(file, nullptr, false);
  if (status.is_object()) {
    load.match = status.value("match", "");
    load.outcome = status.value("outcome", "");
    load.reason = status.value("reason", "");
    load.message = status.value("message", "");
  }
  const bool failed = load.outcome == api::to_string(api::Outcome::kError);
  ++(failed                       ? counts_.failed
     : load.match == "exact"      ? counts_.exact
     : load.match == "compatible" ? counts_.compatible
                                  : counts_.cold);
  parts_.load_ended(load);
}

// Its application compiles, and a save is tried until it is done.
void Pods::save(Pod& pod, const PodOrder& order) {
  Chance chance(pod.load.pod);
  sleep_for_ns(static_cast<int64_t>(60 + chance.below(300)) * kSecond);
  if (is_gone(pod)) return;
  compile(pod.config.directories.front().path, order);
  sleep_for_ns(nanoseconds(pod.config.save.quiet_period).count());
  EndedSave save{.pod = pod.load.pod, .ns = order.ns, .cache = order.cache, .began_ns = now_ns()};
  for (int tries = 0; tries < 3 && !save.saved && !is_gone(pod); ++tries) {
    if (tries > 0) sleep_for_ns(60 * kSecond);
    auto* saved = new bool(false);  // of a process that may be killed
    const bool ended = run_process(pod, Victim::kSaver, [this, &pod, saved] {
      const auto store = open(pod.config).release();
      *saved = agent::run_save_once(pod.config, *store, process());
      ::_exit(0);
    });
    save.killed = save.killed || !ended;
    save.saved = *saved;
  }
  if (save.saved) ++counts_.saves;
  save.killed = save.killed || is_gone(pod);
  parts_.save_ended(save);
}

void Pods::start_new_jobs() {
  for (const auto& [key, job] : parts_.api.objects.all(kJobs)) {
    if (std::exchange(jobs_[job["metadata"]["uid"]], true)) continue;
    start_thread(kWorld, "job", [this, job = job] { run_job(job); });
  }
}

void Pods::run_job(const Json& job) {
  testing::FakeObjects& objects = parts_.api.objects;
  const std::string ns = job["metadata"]["namespace"];
  const std::string name = job["metadata"]["name"];
  Chance chance("job " + ns + "/" + name);
  sleep_for_ns(static_cast<int64_t>(1 + chance.below(5)) * kSecond);
  const std::string pod_name = name + "-pod";
  const Json owner = {{"apiVersion", "batch/v1"},
                      {"kind", "Job"},
                      {"name", name},
                      {"uid", job["metadata"]["uid"]},
                      {"controller", true}};
  const Json pod = objects.put(
      kPods, {{"metadata",
               {{"name", pod_name},
                {"namespace", ns},
                {"labels", {{api::kSweepLabel, job["metadata"]["labels"][api::kSweepLabel]}}},
                {"ownerReferences", {owner}}}},
              {"spec", {{"nodeName", "n-h100"}, {"serviceAccountName", "default"}}},
              {"status", {{"phase", "Running"}}}});
  sleep_for_ns(2 * kSecond);
  auto* good = new bool(false);
  const ProcessId process = start_process(
      ns + "/" + pod_name, [=, this, uid = pod["metadata"]["uid"].get<std::string>()] {
        *good = sweep(job, pod_name, uid);
        ::_exit(0);
      });
  const auto armed = take_arm(Victim::kSweep);
  if (!wait_for_process(process, armed ? now_ns() + *armed : INT64_MAX)) {
    ++counts_.killed;
    kill_process(process);
  }
  ++(*good ? counts_.sweeps : counts_.failed_sweeps);
  const auto jobs = objects.all(kJobs);
  const auto now = jobs.find(ns + "/" + name);
  if (now != jobs.end()) {
    Json ended = now->second;
    const Json condition = {{"type", *good ? "Complete" : "Failed"}, {"status", "True"}};
    ended["status"] = {{*good ? "succeeded" : "failed", 1}, {"conditions", {condition}}};
    objects.put(kJobs, ended);
  }
  sleep_for_ns(600 * kSecond);  // ttlSecondsAfterFinished
  objects.erase(kPods, ns, pod_name);
  objects.erase(kJobs, ns, name);
}

bool Pods::sweep(const Json& job, const std::string& pod, const std::string& uid) {
  const std::string ns = job["metadata"]["namespace"];
  for (const Json& variable : job["spec"]["template"]["spec"]["containers"][0]["env"]) {
    if (variable["name"] != api::kConfigVariable) continue;
    auto config = api::parse_agent_config(variable["value"]);
    if (!config) return false;
    const std::string home = make_home(ns, pod, uid, "n-h100");
    config->token_file = home + "/token";
    config->control_path = home + "/cache/control";
    const auto store = open(*config);
    const auto coordinator = operator_client(*config, random_);
    const bool good = agent::run_sweep(*config, *store, nullptr, *coordinator, the_clock());
    fs::remove_all(home);
    return good;
  }
  return false;
}

}  // namespace compilecache::simulation
