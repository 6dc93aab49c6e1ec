#include "operator/agents/group_answers.hpp"

#include <chrono>

namespace compilecache::controller {
namespace {

using std::chrono::minutes;

// How long after the first member others may ask, which pull large images; and where no places tell
// one start from the next.
constexpr minutes kStart{10}, kStartWithoutPlaces{2};

std::string key_of(const std::string& archive, const PodView& pod) {
  return archive + " " + pod.group.id;
}

}  // namespace

bool GroupAnswers::is_of(const Start& start, const PodView& pod, Monotonic now) {
  const std::string& place = pod.group.member;
  if (now - start.since >= (place.empty() ? kStartWithoutPlaces : kStart)) return false;
  const auto taken = start.places.find(place);
  return place.empty() || taken == start.places.end() || taken->second == pod.uid;
}

std::optional<GroupAnswer> GroupAnswers::given(const std::string& archive, const PodView& pod) {
  if (pod.group.id.empty()) return std::nullopt;
  const MutexLock lock(mutex_);
  const auto found = starts_.find(key_of(archive, pod));
  if (found == starts_.end() || !is_of(found->second, pod, clock_.monotonic())) return std::nullopt;
  return found->second.answer;
}

GroupAnswer GroupAnswers::give(const std::string& archive, const PodView& pod,
                               const GroupAnswer& answer) {
  if (pod.group.id.empty()) return answer;
  const Monotonic now = clock_.monotonic();
  const MutexLock lock(mutex_);
  std::erase_if(starts_, [&](const auto& one) { return now - one.second.since >= kStart; });
  const auto [found, is_new] = starts_.try_emplace(key_of(archive, pod), Start{answer, now, {}});
  Start& start = found->second;
  if (!is_new && !is_of(start, pod, now)) start = {answer, now, {}};
  start.places[pod.group.member] = pod.uid;
  return start.answer;
}

}  // namespace compilecache::controller
