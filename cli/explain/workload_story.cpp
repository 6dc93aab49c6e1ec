#include "cli/explain/workload_story.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "api/outcomes.hpp"

namespace compilecache::cli {
namespace {

StartOutcome outcome_of(const PodStory& story) {
  if (!story.injected) return StartOutcome::kNotInjected;
  const auto load = api::parse_word<api::LoadOutcome>(story.load);
  if (!load) return StartOutcome::kUnknown;
  const auto effect = api::parse_word<api::Effect>(story.effect);
  if (!api::is_warm(*load) || effect == api::Effect::kNone) return StartOutcome::kCold;
  return effect == api::Effect::kPartial ? StartOutcome::kPartial : StartOutcome::kWarm;
}

struct Reason {
  std::string word, why;
};

Reason reason_of(const PodStory& story, StartOutcome outcome) {
  if (outcome == StartOutcome::kNotInjected) return {story.injection, story.injection_why};
  const auto load = api::parse_word<api::LoadOutcome>(story.load);
  if (!load) return {"", story.load_why};
  if (!api::is_warm(*load)) {
    return {story.load_reason.empty() ? story.load : story.load_reason, story.load_why};
  }
  const bool by_effect = outcome == StartOutcome::kCold || outcome == StartOutcome::kPartial;
  return by_effect ? Reason{story.effect, story.effect_why} : Reason{story.load, story.load_why};
}

template <typename T>
void most_pods_first(std::vector<T>& all) {
  std::stable_sort(all.begin(), all.end(), [](const T& a, const T& b) { return a.pods > b.pods; });
}

// The one with that property, added where there is none.
template <typename T, typename Is>
T& one_of(std::vector<T>& all, T made, const Is& is) {
  const auto found = std::find_if(all.begin(), all.end(), is);
  return found != all.end() ? *found : all.emplace_back(std::move(made));
}

int64_t median_of(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

bool same_phase(const StartPhase& a, const StartPhase& b) {
  return a.name == b.name && a.within == b.within;
}

// Phases that a pod has several times, such as pulls, as one.
std::vector<StartPhase> summed(const std::vector<StartPhase>& phases) {
  std::vector<StartPhase> sums;
  for (const StartPhase& phase : phases) {
    const auto found = std::find_if(sums.begin(), sums.end(),
                                    [&](const StartPhase& one) { return same_phase(one, phase); });
    if (found == sums.end()) {
      sums.push_back(phase);
    } else {
      found->milliseconds += phase.milliseconds;
    }
  }
  return sums;
}

// Phases by name, in the order in which pods have them.
class Medians {
 public:
  void add(const std::vector<StartPhase>& phases) {
    size_t place = 0;
    for (const StartPhase& phase : summed(phases)) {
      place = place_of(phase, place);
      all_[place].times.push_back(phase.milliseconds);
      ++place;
    }
  }

  [[nodiscard]] std::vector<MedianPhase> take() const {
    std::vector<MedianPhase> medians;
    for (const auto& [phase, times] : all_) {
      medians.push_back({phase, static_cast<int64_t>(times.size())});
      medians.back().phase.milliseconds = median_of(times);
    }
    return medians;
  }

 private:
  struct Times {
    StartPhase phase;
    std::vector<int64_t> times;
  };

  size_t place_of(const StartPhase& phase, size_t place) {
    const auto known = std::find_if(all_.begin(), all_.end(),
                                    [&](const Times& one) { return same_phase(one.phase, phase); });
    if (known != all_.end()) return static_cast<size_t>(known - all_.begin());
    all_.insert(all_.begin() + static_cast<std::ptrdiff_t>(place), {phase, {}});
    return place;
  }

  std::vector<Times> all_;
};

class WorkloadTeller {
 public:
  explicit WorkloadTeller(const WorkloadFacts& facts) : facts_(facts) {
    story_.ns = facts.ns;
    story_.workload = facts.workload;
    story_.pods_in_all = facts.pods_in_all;
    story_.pods = static_cast<int64_t>(facts.pods.size());
  }

  WorkloadStory tell() {
    for (const WorkloadPod& pod : facts_.pods) {
      add_outcome(pod.story);
      add_once(story_.caches, pod.story.cache);
      if (pod.story.injected) add_key(pod.story);
      if (!pod.story.archive.empty()) add_archive(pod.story);
      if (pod.timed) add_start(pod.story);
      for (const std::string& what : pod.story.unread) add_once(story_.unread, what);
    }
    most_pods_first(story_.outcomes);
    most_pods_first(story_.keys);
    most_pods_first(story_.archives);
    find_differing();
    find_fault();
    story_.phases = medians_.take();
    if (!ready_.empty()) story_.median = median_of(ready_);
    return std::move(story_);
  }

 private:
  static void add_once(std::vector<std::string>& all, const std::string& what) {
    if (!what.empty() && std::find(all.begin(), all.end(), what) == all.end()) all.push_back(what);
  }

  void add_outcome(const PodStory& pod) {
    const StartOutcome outcome = outcome_of(pod);
    const Reason reason = reason_of(pod, outcome);
    ++one_of(
          story_.outcomes, PodsAlike{outcome, reason.word, reason.why, 0, pod.pod, pod.change},
          [&](const PodsAlike& one) { return one.outcome == outcome && one.reason == reason.word; })
          .pods;
  }

  void add_key(const PodStory& pod) {
    CommonKey key{.archive = pod.key_archive};
    for (const KeyPart& part : pod.key) key.parts[part.name] = part.value;
    const auto same = [parts = key.parts, archive = key.archive](const CommonKey& one) {
      return one.archive == archive && one.parts == parts;
    };
    ++one_of(story_.keys, std::move(key), same).pods;
  }

  void add_archive(const PodStory& pod) {
    ++one_of(story_.archives, LoadedArchive{pod.archive, pod.generation, 0},
             [&](const LoadedArchive& one) {
               return one.archive == pod.archive && one.generation == pod.generation;
             })
          .pods;
  }

  void add_start(const PodStory& pod) {
    const StartOutcome outcome = outcome_of(pod);
    story_.newest.push_back({pod.pod, pod.created, pod.start.milliseconds, outcome,
                             reason_of(pod, outcome).word, pod.start.kv_cache_tokens});
    if (pod.start.milliseconds) ready_.push_back(*pod.start.milliseconds);
    medians_.add(pod.start.phases);
    for (const std::string& what : pod.start.untold) ++story_.untold[what];
  }

  // Pods of which the key is not known do not differ by that.
  void find_differing() {
    std::map<std::string, std::set<std::string>> values;
    int64_t known = 0;
    for (const CommonKey& key : story_.keys) {
      if (key.parts.empty()) continue;
      ++known;
      for (const auto& [name, value] : key.parts) values[name].insert(value);
    }
    for (const auto& part : values) {
      const bool everywhere =
          std::all_of(story_.keys.begin(), story_.keys.end(), [&](const CommonKey& key) {
            return key.parts.empty() || key.parts.contains(part.first);
          });
      if (part.second.size() > 1 || (known > 1 && !everywhere)) {
        story_.differing.push_back(part.first);
      }
    }
  }

  // What warm pods could do better counts where nothing else is to be done.
  void find_fault() {
    for (const bool warm : {false, true}) {
      for (const PodsAlike& pods : story_.outcomes) {
        if ((pods.outcome == StartOutcome::kWarm) != warm || pods.change.empty()) continue;
        story_.fault = pods;
        return;
      }
    }
  }

  const WorkloadFacts& facts_;
  Medians medians_;
  std::vector<int64_t> ready_;
  WorkloadStory story_;
};

}  // namespace

int64_t WorkloadStory::count(StartOutcome outcome) const {
  int64_t counted = 0;
  for (const PodsAlike& one : outcomes) counted += one.outcome == outcome ? one.pods : 0;
  return counted;
}

WorkloadStory tell_workload(const WorkloadFacts& facts) { return WorkloadTeller(facts).tell(); }

}  // namespace compilecache::cli
