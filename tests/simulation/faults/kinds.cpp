#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "tests/simulation/faults/fault.hpp"
#include "tests/simulation/tenants/tenants.hpp"

namespace compilecache::simulation {
namespace {

constexpr int64_t kDaySeconds = 86'400;
constexpr int64_t kStormSeconds = 57'600;

constexpr char kCrowd[] = "crowd", kDamagedCrowd[] = "head-damaged";
// Of what makes other replicas answer, or know less, some happen around a crowd.
constexpr const char* kAround[] = {"watches-dead",  "watches-dead",       "leader-frozen",
                                   "leader-killed", "leader-partitioned", "replica-frozen",
                                   "api-down",      "registry-slow"};
constexpr int64_t kAroundBefore = 60, kAroundAfter = 120;

struct Kind {
  const char* name;
  int64_t per_day;      // about as often
  int64_t least, most;  // its amount
  bool lasts;           // its amount is how many seconds it lasts
  void (*happen)(World& world, int64_t amount);
};

void until(int64_t& fault, int64_t seconds) {
  fault = std::max(fault, now_ns() + seconds * kSecond);
}

OperatorReplica& one_of(World& world, int64_t amount) {
  return *world.replicas()[static_cast<size_t>(amount) % world.replicas().size()];
}

OperatorReplica& leader_of(World& world) {
  for (const auto& replica : world.replicas()) {
    if (replica->leads()) return *replica;
  }
  return one_of(world, 0);
}

void freeze(World& world, int64_t seconds) { leader_of(world).freeze(seconds * kSecond); }

// amount: the leader's, the others', or all.
void kill_watches(World& world, int64_t amount) {
  for (const auto& replica : world.replicas()) {
    if (amount < 2 && replica->leads() != (amount == 0)) continue;
    world.api.faults.dead_watches[replica->name()] = now_ns();
  }
}

void touch_everything(World& world, int64_t /*amount*/) {
  for (const char* collection : {kCaches, kArchives, kJobs, kDeployments}) {
    for (const auto& [key, object] : world.api.objects.all(collection)) {
      world.api.touch(collection, key);
    }
  }
}

const Kind kKinds[] = {
    {"api-down", 3, 2, 120, true, [](World& w, int64_t s) { until(w.api.faults.down, s); }},
    {"api-slow", 2, 10, 300, true, [](World& w, int64_t s) { until(w.api.faults.slow, s); }},
    {"api-throttles", 2, 10, 900, true,
     [](World& w, int64_t s) { until(w.api.faults.throttled, s); }},
    {"api-fails", 2, 10, 900, true, [](World& w, int64_t s) { until(w.api.faults.failing, s); }},
    {"api-loses-answers", 3, 10, 900, true,
     [](World& w, int64_t s) { until(w.api.faults.losing_answers, s); }},
    {"others-write", 3, 10, 1800, true, [](World& w, int64_t s) { until(w.api.faults.busy, s); }},
    {"everything-touched", 2, 0, 0, false, touch_everything},
    {"events-late", 2, 10, 900, true,
     [](World& w, int64_t s) { until(w.api.faults.late_events, s); }},
    {"watches-cut", 3, 0, 0, false,
     [](World& w, int64_t) { w.api.objects.end_watches(testing::FakeApiServer::End::kCut); }},
    {"watches-closed", 2, 0, 0, false,
     [](World& w, int64_t) { w.api.objects.end_watches(testing::FakeApiServer::End::kClosed); }},
    {"watches-expired", 2, 0, 0, false,
     [](World& w, int64_t) { w.api.objects.end_watches(testing::FakeApiServer::End::kGone); }},
    {"watches-dead", 2, 0, 2, false, kill_watches},
    {"etcd-compacted", 3, 0, 0, false, [](World& w, int64_t) { w.api.objects.compact(); }},
    {"leader-killed", 2, 0, 0, false, [](World& w, int64_t) { leader_of(w).kill(); }},
    {"replica-killed", 2, 0, 1, false, [](World& w, int64_t which) { one_of(w, which).kill(); }},
    {"leader-frozen", 2, 2, 180, true, freeze},
    {"replica-frozen", 1, 2, 180, true,
     [](World& w, int64_t s) { one_of(w, s & 1).freeze(s * kSecond); }},
    {"leader-partitioned", 2, 2, 180, true,
     [](World& w, int64_t s) { until(w.api.faults.partitioned[leader_of(w).name()], s); }},
    {"clock-jumps", 2, -400, 400, false,
     [](World& w, int64_t s) { one_of(w, s & 1).set_clock_offset(s * kSecond); }},
    {"registry-down", 3, 2, 180, true,
     [](World& w, int64_t s) { until(w.registry.faults.down, s); }},
    {"registry-slow", 2, 10, 300, true,
     [](World& w, int64_t s) { until(w.registry.faults.slow, s); }},
    {"registry-throttles", 3, 10, 1800, true,
     [](World& w, int64_t s) { until(w.registry.faults.throttled, s); }},
    {"registry-fails", 3, 10, 900, true,
     [](World& w, int64_t s) { until(w.registry.faults.failing, s); }},
    {"registry-loses-answers", 3, 10, 900, true,
     [](World& w, int64_t s) { until(w.registry.faults.losing_answers, s); }},
    {"registry-cuts", 3, 10, 900, true,
     [](World& w, int64_t s) { until(w.registry.faults.cutting, s); }},
    {"registry-full", 1, 600, 7200, true,
     [](World& w, int64_t s) { until(w.registry.faults.full, s); }},
    {"registry-restarts", 1, 0, 0, false, [](World& w, int64_t) { w.restart_registry(); }},
    {"blob-damaged", 1, 0, 1'000'000, false,
     [](World& w, int64_t which) { w.registry.damage(static_cast<uint64_t>(which)); }},
    {kCrowd, 1, 0, 1'000'000, false,
     [](World& w, int64_t which) { start_crowd(w, static_cast<uint64_t>(which), false); }},
    {kDamagedCrowd, 1, 0, 1'000'000, false,
     [](World& w, int64_t which) { start_crowd(w, static_cast<uint64_t>(which), true); }},
    {"loader-killed", 4, 0, 400, false,
     [](World& w, int64_t ms) { w.pods().arm(Victim::kLoader, ms * kMillisecond); }},
    {"loader-crashes", 2, 0, 400, false,
     [](World& w, int64_t ms) { w.pods().arm(Victim::kLoaderChild, ms * kMillisecond); }},
    {"saver-killed", 4, 0, 800, false,
     [](World& w, int64_t ms) { w.pods().arm(Victim::kSaver, ms * kMillisecond); }},
    {"sweep-killed", 4, 0, 2000, false,
     [](World& w, int64_t ms) { w.pods().arm(Victim::kSweep, ms * kMillisecond); }},
    {"pod-killed", 4, 0, 600'000, false,
     [](World& w, int64_t ms) { w.pods().arm(Victim::kPod, ms * kMillisecond); }},
};

const Kind* find_kind(const std::string& name) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const Kind& kind) { return name == kind.name; });
  return found == std::end(kKinds) ? nullptr : found;
}

int64_t between(Chance& chance, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(chance.below(static_cast<uint64_t>(most - least + 1)));
}

// What goes wrong around each crowd.
void add_around_crowds(std::vector<Fault>& faults) {
  std::vector<Fault> added;
  for (const Fault& crowd : faults) {
    if (crowd.kind != kCrowd && crowd.kind != kDamagedCrowd) continue;
    Chance chance("faults around " + crowd.kind + std::to_string(crowd.at_s));
    for (int i = 0; i < 3; ++i) {
      const Kind* kind = find_kind(kAround[chance.below(std::size(kAround))]);
      const int64_t at = crowd.at_s + between(chance, -kAroundBefore, kAroundAfter);
      added.push_back({at, kind->name, between(chance, kind->least, kind->most)});
    }
  }
  faults.insert(faults.end(), added.begin(), added.end());
}

Result<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return fail(ErrorCode::kInvalid, "not a number: " + std::string(text));
}

// "AT:KIND:AMOUNT"
Result<Fault> parse_fault(std::string_view text) {
  const size_t first = text.find(':');
  const size_t second = text.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) {
    return fail(ErrorCode::kInvalid, "a fault is SECONDS:KIND:AMOUNT, not " + std::string(text));
  }
  Fault fault;
  const auto at = number(text.substr(0, first));
  const auto amount = number(text.substr(second + 1));
  if (!at || !amount) return unexpected((at ? amount : at).error());
  fault.at_s = *at;
  fault.kind = std::string(text.substr(first + 1, second - first - 1));
  fault.amount = *amount;
  if (find_kind(fault.kind) != nullptr) return fault;
  return fail(ErrorCode::kInvalid, "no such kind of fault: " + fault.kind);
}

}  // namespace

std::vector<std::string> fault_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

std::vector<Fault> draw_faults(int64_t days) {
  std::vector<Fault> faults;
  for (const Kind& kind : kKinds) {
    Chance chance(std::string("fault ") + kind.name);
    for (int64_t day = 0; day < days; ++day) {
      const auto count = chance.below(static_cast<uint64_t>(2 * kind.per_day + 1));
      for (uint64_t i = 0; i < count; ++i) {
        const int64_t at = day * kDaySeconds + between(chance, 60, kStormSeconds);
        faults.push_back({at, kind.name, between(chance, kind.least, kind.most)});
      }
    }
  }
  add_around_crowds(faults);
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at_s < b.at_s; });
  return faults;
}

std::string to_text(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) {
    text += (text.empty() ? "" : ",") + std::to_string(fault.at_s) + ":" + fault.kind + ":" +
            std::to_string(fault.amount);
  }
  return text;
}

Result<std::vector<Fault>> parse_faults(std::string_view text) {
  std::vector<Fault> faults;
  if (text == "none") return faults;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    auto fault = parse_fault(text.substr(0, end));
    if (!fault) return unexpected(fault.error());
    faults.push_back(std::move(*fault));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return faults;
}

void start_faults(World& world, const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    const Kind* kind = find_kind(fault.kind);
    if (kind == nullptr || fault.at_s * kSecond < now_ns()) continue;
    start_thread(kWorld, fault.kind, [&world, kind, fault] {
      sleep_for_ns(fault.at_s * kSecond - now_ns());
      world.trouble(kind->name, kind->lasts ? fault.amount * kSecond : 0);
      kind->happen(world, fault.amount);
    });
  }
}

}  // namespace compilecache::simulation
