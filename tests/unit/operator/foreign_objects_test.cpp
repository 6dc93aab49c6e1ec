#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "api/injection_bounds.hpp"
#include "api/names.hpp"
#include "kube/json.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/storage/storage_check.hpp"
#include "operator/storage/sweep_job.hpp"
#include "webhook/namespace_facts.hpp"

// What objects cost that others write: ten thousand of each kind, each as large as the API server
// accepts. All of this program's memory is counted.

namespace {
std::atomic<int64_t> in_use{0};
std::atomic<int64_t> most{0};

void count(void* block, int sign) {
  const int64_t now = in_use += sign * int64_t(malloc_usable_size(block));
  int64_t before = most;
  while (now > before && !most.compare_exchange_weak(before, now)) {
  }
}
}  // namespace

void* operator new(size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  count(block, 1);
  return block;
}
void operator delete(void* block) noexcept {
  if (block != nullptr) count(block, -1);
  std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }

namespace compilecache::controller {
namespace {

using nlohmann::json;

constexpr int kObjects = 10'000;
constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;
// etcd takes requests of 1.5 MiB.
constexpr size_t kLargest = 1'400'000;

// What reading the text takes at most, beside the text.
json read_largest(const json& object, const kube::Fields& fields) {
  const std::string text = object.dump();
  EXPECT_GT(text.size(), size_t(200 * kKiB));
  EXPECT_LT(text.size(), size_t(2 * kMiB));
  const int64_t before = in_use;
  most = before;
  json read = kube::parse_json(text, fields);
  EXPECT_FALSE(read.is_discarded());
  // A text of that length is held while it is read, in a buffer that doubles.
  EXPECT_LT(most - before, 6 * kMiB) << "its tree";
  std::printf("%8zu bytes of text: %8ld of tree\n", text.size(), long(most - before));
  return read;
}

// Puts ten thousand objects like this one into a store; returns what they take there.
template <typename T>
int64_t keep(json object, const std::function<Result<T>(const json&)>& parse,
             const std::function<void(json&, const std::string&)>& change = {}) {
  const int64_t before = in_use;
  kube::Store<T> store;
  for (int i = 0; i < kObjects; ++i) {
    const std::string name = "object-" + std::to_string(i);
    object["metadata"]["name"] = name;
    if (change) change(object, std::to_string(i));
    auto parsed = parse(object);
    EXPECT_TRUE(parsed) << parsed.error().message;
    store.upsert("ml/" + name, std::make_shared<const T>(std::move(*parsed)));
  }
  const int64_t taken = in_use - before;
  std::printf("%d in the store: %ld KiB, %ld bytes each\n", kObjects, long(taken / kKiB),
              long(taken / kObjects));
  return taken;
}

json metadata() { return {{"name", "x"}, {"namespace", "ml"}, {"uid", "u"}}; }

// A status that is as large as the operator reads.
api::InjectionStatus large_status() {
  api::InjectionStatus status;
  status.init_containers = {api::kLoaderContainer, api::kSaverContainer};
  for (size_t i = 0; i < api::kMostInjectedContainers; ++i) {
    status.containers.push_back("c" + std::string(60, 'c') + std::to_string(i));
    status.variables.push_back(status.containers.back() + ":TORCHINDUCTOR_CACHE_DIR");
  }
  status.key_basis.image = std::string(1000, 'i');
  while (!api::exceeds_bounds(status)) status.key_basis.directories += "torch=/some/where,";
  status.key_basis.directories.resize(status.key_basis.directories.size() - 100);
  EXPECT_FALSE(api::exceeds_bounds(status));
  return status;
}

json large_pod() {
  json pod = {{"metadata", metadata()}};
  pod["metadata"]["labels"][api::kCacheLabel] = "transformer";
  pod["metadata"]["annotations"][api::kStatusAnnotation] = api::dump(large_status());
  for (int i = 0; i < 3'000; ++i) {
    pod["metadata"]["ownerReferences"].push_back(
        {{"apiVersion", "v1"}, {"kind", "K"}, {"name", std::string(200, 'n')}, {"uid", "u"}});
  }
  pod["metadata"]["ownerReferences"][0]["controller"] = true;
  pod["status"]["conditions"].push_back({{"type", "PodScheduled"},
                                         {"status", "False"},
                                         {"reason", "Unschedulable"},
                                         {"message", std::string(100'000, 'm')}});
  for (size_t i = 0; i < 400; ++i) {
    const std::string name = "c" + std::string(60, 'c') + std::to_string(i);
    pod["status"]["containerStatuses"].push_back(
        {{"name", name},
         {"imageID", std::string(500, 'i')},
         {"state",
          {{"waiting", {{"reason", "CrashLoopBackOff"}, {"message", std::string(400, 'm')}}}}},
         {"lastState", {{"terminated", {{"reason", "Error"}, {"exitCode", 1}}}}}});
  }
  return pod;
}

TEST(ForeignObjects, PodsTakeAFewKilobytesEach) {
  const json pod = read_largest(large_pod(), pod_fields());
  const auto first = parse_pod(pod);
  ASSERT_TRUE(first->injection) << "it looks like our own injection";
  ASSERT_TRUE(first->owner);
  api::InjectionStatus status = large_status();
  const int64_t before = in_use;
  const auto differ = [&](json& object, const std::string& number) {
    status.key_basis.version = number;
    object["metadata"]["annotations"][api::kStatusAnnotation] = api::dump(status);
    object["metadata"]["ownerReferences"][0]["uid"] = number;
    object["status"]["containerStatuses"][0]["restartCount"] = std::stoi(number);
  };
  EXPECT_LT(keep<PodView>(pod, parse_pod, differ), 300 * kMiB) << "the container has 512";
  // They are deleted, which a watch tells one by one.
  json small = {{"metadata", metadata()}, {"status", {{"containerStatuses", {{{"name", "a"}}}}}}};
  small["metadata"]["ownerReferences"].push_back({{"controller", true}, {"uid", "r"}});
  small["metadata"]["annotations"][api::kStatusAnnotation] = "{}";
  keep<PodView>(small, parse_pod);
  EXPECT_LT(in_use - before, kMiB) << "and what was shared is forgotten";
}

TEST(ForeignObjects, AnAnnotationThatNoInjectionOfOursHasIsNotKept) {
  json pod = large_pod();
  api::InjectionStatus status = large_status();
  const auto read = [&] {
    pod["metadata"]["annotations"][api::kStatusAnnotation] = api::dump(status);
    return parse_pod(kube::parse_json(pod.dump(), pod_fields()))->injection;
  };
  ASSERT_TRUE(read());
  EXPECT_TRUE(read()->variables.empty());
  status.containers.emplace_back("one-more");
  EXPECT_FALSE(read());
  status = large_status();
  status.key_basis.image += std::string(200, 'i');
  EXPECT_FALSE(read());
  status = large_status();
  for (int i = 0; i < 20'000; ++i) status.variables.emplace_back("app:A");
  EXPECT_FALSE(read()) << "220 kB";
}

// The first that says that something runs, or has run, is not among those that are left out.
TEST(ForeignObjects, OfManyContainersTheTellingOnesAreKept) {
  json pod = {{"metadata", metadata()}};
  api::InjectionStatus status;
  status.containers = {"app"};
  pod["metadata"]["annotations"][api::kStatusAnnotation] = api::dump(status);
  json& statuses = pod["status"]["containerStatuses"];
  for (int i = 0; i < 300; ++i) {
    statuses.push_back({{"name", "side-" + std::to_string(i)},
                        {"state", {{"waiting", {{"reason", "PodInitializing"}}}}}});
  }
  statuses.push_back({{"name", "runs"}, {"state", {{"running", json::object()}}}});
  statuses.push_back({{"name", "has-run"}, {"restartCount", 2}});
  statuses.push_back({{"name", "app"}, {"imageID", "sha256:app"}});
  pod["status"]["initContainerStatuses"].push_back({{"name", api::kLoaderContainer}});
  const PodView view = *parse_pod(kube::parse_json(pod.dump(), pod_fields()));
  const auto has = [&](const std::string& name) {
    return std::any_of(view.containers->begin(), view.containers->end(),
                       [&](const ContainerView& container) { return container.name == name; });
  };
  EXPECT_LE(view.containers->size(), 20U);
  for (const char* name : {"runs", "has-run", "app", api::kLoaderContainer}) {
    EXPECT_TRUE(has(name)) << name;
  }
  EXPECT_EQ(view.image_id(), "sha256:app");
}

TEST(ForeignObjects, EventsTakeAKilobyteOrTwoEach) {
  const json event = read_largest(
      {{"metadata", metadata()},
       {"involvedObject",
        {{"kind", "ReplicaSet"}, {"namespace", "ml"}, {"name", "web"}, {"uid", "r"}}},
       {"message", "spec.initContainers[0] " + std::string(kLargest, 'm') + "compilecache-save"}},
      refusal_fields());
  EXPECT_TRUE(parse_refusal(event)->places.are_among(0));
  EXPECT_LT(keep<Refusal>(event, parse_refusal), 32 * kMiB);
}

TEST(ForeignObjects, NodesTakeAKilobyteEach) {
  json node = {{"metadata", {{"name", "n"}, {"uid", "u"}}}};
  for (int i = 0; i < 30'000; ++i) {
    node["metadata"]["labels"]["example.com/label-" + std::to_string(i)] = "some-value";
  }
  node["metadata"]["labels"]["nvidia.com/gpu.product"] = "H100";
  node["metadata"]["labels"]["kubernetes.io/arch"] = "amd64";
  const api::NodeLabels names;
  const json read = read_largest(node, node_fields(names));
  const auto parse = [&](const json& object) { return parse_node(object, names); };
  EXPECT_EQ(parse(read)->facts, (api::NodeFacts{"H100", "amd64", "", ""}));
  EXPECT_LT(keep<NodeView>(read, parse), 8 * kMiB);
}

TEST(ForeignObjects, ClaimsTakeAKilobyteEach) {
  json claim = {{"metadata", metadata()}};
  for (int i = 0; i < 40'000; ++i) claim["spec"]["accessModes"].push_back("ReadWriteMany");
  claim["spec"]["volumeName"] = std::string(kLargest / 2, 'v');
  const json read = read_largest(claim, claim_fields());
  EXPECT_EQ(parse_claim(read)->access_modes, std::vector<std::string>{"ReadWriteMany"});
  EXPECT_LT(keep<ClaimView>(read, parse_claim), 12 * kMiB);
}

kube::Fields fields_of(const std::vector<std::string>& pointers) {
  kube::Fields fields{"/metadata/name"};
  for (const std::string& pointer : pointers) fields.add(pointer);
  return fields.with_elements(256);
}

TEST(ForeignObjects, QuotasAndLimitRangesTakeSomeKilobytesEach) {
  json quota = {{"metadata", metadata()}};
  json range = {{"metadata", metadata()}};
  for (int i = 0; i < 20'000; ++i) {
    const std::string number = std::to_string(i);
    quota["spec"]["hard"]["count/things.example.com-" + number] = "1";
    quota["spec"]["scopes"].push_back("Scope-" + number);
    range["spec"]["limits"].push_back(
        {{"type", "Container"}, {"max", {{"cpu", number}, {"example.com/" + number, "1"}}}});
  }
  const json read = read_largest(quota, fields_of(webhook::resource_quota_fields()));
  EXPECT_LT(keep<webhook::Quota>(read, webhook::parse_resource_quota), 16 * kMiB);
  const json limits = read_largest(range, fields_of(webhook::limit_range_fields()));
  EXPECT_LT(keep<std::vector<webhook::LimitRule>>(limits, webhook::parse_limit_range), 48 * kMiB);
}

TEST(ForeignObjects, JobsWithOurLabelTakeAKilobyteEach) {
  json job = {{"metadata", metadata()}};
  job["metadata"]["labels"][api::kSweepLabel] = "transformer";
  job["metadata"]["annotations"]["compilecache.dev/sweep-store"] = std::string(200'000, 's');
  for (int i = 0; i < 10'000; ++i) {
    job["metadata"]["ownerReferences"].push_back({{"kind", "CompileCache"}, {"uid", "u"}});
    job["spec"]["template"]["spec"]["volumes"].push_back(
        {{"name", "v" + std::to_string(i)}, {"emptyDir", json::object()}});
  }
  const json read = read_largest(job, sweep_job_fields());
  EXPECT_FALSE(parse_sweep_job(read)->store);
  EXPECT_LT(keep<SweepJob>(read, parse_sweep_job), 12 * kMiB);
}

}  // namespace
}  // namespace compilecache::controller
