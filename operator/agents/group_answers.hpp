#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "operator/cluster/cluster_view.hpp"

// The archive that the first member of a group got, so that all members of one start get the same.
// Members with different caches may call different collectives, and then the group hangs
// (docs/how-to/ranks.md).
//
//   GroupAnswers answers(clock);
//   if (const auto given = answers.given(archive, pod)) ...      // decide by that
//   const auto now_given = answers.give(archive, pod, {name, manifest});   // what counts
//
// `archive` is the one of the pod's exact key; pods without a group get nothing. A start is over
// when another pod takes a place, or some minutes after its first answer. It is in the leader's
// memory: after a change of leader members may get different answers. Thread-safe.

namespace compilecache::controller {

struct GroupAnswer {
  std::string archive, manifest;  // no manifest: it starts cold

  bool operator==(const GroupAnswer&) const = default;
};

class GroupAnswers {
 public:
  explicit GroupAnswers(const Clock& clock) : clock_(clock) {}

  std::optional<GroupAnswer> given(const std::string& archive, const PodView& pod);
  // Notes it where it is the first of this start; what counts from then on.
  GroupAnswer give(const std::string& archive, const PodView& pod, const GroupAnswer& answer);

 private:
  struct Start {
    GroupAnswer answer;
    Monotonic since;
    std::map<std::string, std::string> places;  // to uids
  };
  static bool is_of(const Start& start, const PodView& pod, Monotonic now);

  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, Start> starts_ GUARDED_BY(mutex_);  // by archive and group
};

}  // namespace compilecache::controller
