#include "kube/lease_machine.hpp"

#include <algorithm>
#include <utility>

#include "base/time_format.hpp"

namespace compilecache::kube::lease {

Status validate(const Config& config) {
  if (config.identity.empty()) {
    return fail(ErrorCode::kInvalid, "leader election: the identity is empty");
  }
  if (config.lease_duration <= config.renew_deadline) {
    return fail(ErrorCode::kInvalid,
                "leader election: the lease duration must be longer than the renew deadline, else "
                "another may lead before this one has stopped");
  }
  const std::chrono::duration<double> retry = config.retry_period * config.jitter;
  if (config.retry_period.count() < 1 || config.renew_deadline <= retry) {
    return fail(
        ErrorCode::kInvalid,
        "leader election: the retry period must be at least 1s, and with its jitter shorter "
        "than the renew deadline");
  }
  return {};
}

Observation observe(Observation before, std::optional<Record> seen, Monotonic now) {
  if (before.record == seen) return before;
  return {std::move(seen), now};
}

Decision decide(const Observation& observation, const Config& config, Monotonic now) {
  if (!observation.record) return Decision::kCreate;
  const Record& record = *observation.record;
  if (record.holder == config.identity) return Decision::kRenew;
  if (record.holder.empty()) return Decision::kTakeOver;
  const Monotonic expires = observation.changed_at + std::chrono::seconds(record.duration_seconds);
  return now >= expires ? Decision::kTakeOver : Decision::kWait;
}

Duration next_look(const Observation& observation, const Config& config, Monotonic now,
                   double fraction) {
  const auto period =
      std::chrono::duration_cast<Duration>(config.follow_period * (1 + 0.2 * fraction));
  if (!observation.record || observation.record->holder.empty()) return period;
  const Monotonic expires =
      observation.changed_at + std::chrono::seconds(observation.record->duration_seconds);
  // One that has expired could not be taken just now; trying again at once would not help.
  return expires > now ? std::min<Duration>(period, expires - now) : period;
}

Record next_record(const Observation& observation, const Config& config, WallTime wall) {
  Record next;
  next.holder = config.identity;
  next.duration_seconds = static_cast<int>(config.lease_duration.count());
  next.renew_time = format_micro_time(wall);
  next.acquire_time = next.renew_time;
  if (observation.record) {
    const Record& before = *observation.record;
    next.resource_version = before.resource_version;
    next.transitions = before.transitions;
    if (before.holder == config.identity) {
      next.acquire_time = before.acquire_time;
    } else {
      ++next.transitions;
    }
  }
  return next;
}

Record released_record(const Record& current, WallTime wall) {
  Record released = current;
  released.holder.clear();
  released.duration_seconds = 1;
  released.renew_time = format_micro_time(wall);
  return released;
}

bool lost(Monotonic last_renewed, const Config& config, Monotonic now) {
  return now - last_renewed >= config.renew_deadline;
}

}  // namespace compilecache::kube::lease
