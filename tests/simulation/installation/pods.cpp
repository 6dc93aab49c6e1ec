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

api::InjectionStatus injection_of(const api::CompileCache& cache, const std::string& image) {
  api::InjectionStatus status;
  status.containers = {kApplication};
  status.init_containers = {api::kLoaderContainer, api::kSaverContainer};
  status.key_basis.parts = cache.spec.key;
  status.key_basis.gpu_resource = "nvidia.com/gpu";
  status.key_basis.gpu_count = 1;
  status.key_basis.image = image;
  return status;
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
  fs::create_directories(home + "/cache/torch");
  std::ofstream(home + "/token") << ApiServer::token_of(ns, pod, uid, node);
  return home;
}

void Pods::run(const PodOrder& order) {
  const auto caches = parts_.api.objects.all(kCaches);
  const auto found = caches.find(order.ns + "/" + order.cache);
  if (found == caches.end()) return;
  const auto cache = api::parse_compile_cache(found->second);
  if (!cache) return;
  auto* pod = new Pod;  // threads of a killed process may still name it
  pod->name = order.cache + "-" + std::to_string(++counts_.pods);
  const Json made = parts_.api.objects.put(
      kPods, {{"metadata",
               {{"name", pod->name},
                {"namespace", order.ns},
                {"creationTimestamp", kCreated},
                {"labels", {{api::kCacheLabel, order.cache}}},
                {"annotations",
                 {{api::kStatusAnnotation, api::dump(injection_of(*cache, order.image))}}}}},
              {"spec", {{"nodeName", order.node}, {"serviceAccountName", "default"}}},
              {"status", {{"phase", "Running"}}}});
  pod->home = make_home(order.ns, pod->name, made["metadata"]["uid"], order.node);
  api::AgentConfig& config = pod->config;
  config.cache = order.cache;
  config.ns = order.ns;
  config.cache_uid = cache->metadata.uid;
  config.operator_address = kAgentAddress;
  config.load_address = kLoadAddress;
  config.operator_name = std::string(api::kAgentService) + ".compilecache-system.svc";
  config.token_file = pod->home + "/token";
  config.control_path = pod->home + "/cache/control";
  config.store = api::store_of(*cache, parts_.registry);
  config.index_fallback = false;
  config.directories = {{parts_.framework, pod->home + "/cache/torch"}};
  config.load = cache->spec.load;
  config.save = cache->spec.save;
  config.compression.threads = 1;
  config.compression.level = 1;
  pod->load = {.pod = order.ns + "/" + pod->name,
               .ns = order.ns,
               .cache = order.cache,
               .image = order.image,
               .product = order.node.substr(2),
               .budget_ns = nanoseconds(config.load.timeout).count()};
  if (const auto after = take_arm(Victim::kPod)) pod->ends_at = now_ns() + *after;
  live(*pod, order);
  if (is_gone(*pod)) ++counts_.killed;
  parts_.api.objects.erase(kPods, order.ns, pod->name);
  fs::remove_all(pod->home);
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
