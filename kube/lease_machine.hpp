#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"

// Decides who leads, from what a Lease says and when we saw it change. No I/O, no clock.
//
// Source: client-go's tools/leaderelection/leaderelection.go. A lease is expired when its record
// has not changed for its duration. The monotonic clock counts from when we first saw the record;
// its times are never compared with the local clock.

namespace compilecache::kube::lease {

struct Config {
  std::string identity;  // unique for each process: pod name and a nonce
  std::chrono::seconds lease_duration{15};
  std::chrono::seconds renew_deadline{10};
  std::chrono::seconds retry_period{2};
  double jitter = 1.2;
  // A replica that does not lead reads the Lease this often, and when it expires, so a clean change
  // of leader takes this long. client-go waits up to retry_period * (1 + jitter) here, 4.4 s.
  std::chrono::milliseconds follow_period{1000};
};

// kInvalid unless lease duration > renew deadline > retry period * jitter, and there is an
// identity.
Status validate(const Config& config);

struct Record {
  std::string holder;  // empty: released
  int duration_seconds = 0;
  int transitions = 0;
  std::string acquire_time;  // as in the Lease; only copied and compared for equality
  std::string renew_time;
  std::string resource_version;
  bool operator==(const Record&) const = default;
};

// The Lease as last read, and when by our clock its record changed.
struct Observation {
  std::optional<Record> record;  // nothing: there is no Lease
  Monotonic changed_at{};
};

// Takes what was read into account; only a record that differs moves the time.
Observation observe(Observation before, std::optional<Record> seen, Monotonic now);

enum class Decision {
  kCreate,    // there is no Lease: create it
  kRenew,     // this replica has it: write it again
  kTakeOver,  // free or expired: write it with us as holder
  kWait,      // somebody else leads
};
Decision decide(const Observation& observation, const Config& config, Monotonic now);

// How long to wait before reading somebody else's lease again. `fraction`, in [0, 1), spreads the
// reads of several replicas.
Duration next_look(const Observation& observation, const Config& config, Monotonic now,
                   double fraction);

// The record to write. `wall` is for people who read the Lease.
Record next_record(const Observation& observation, const Config& config, WallTime wall);
// The record that releases the lease: no holder, a duration of one second.
Record released_record(const Record& current, WallTime wall);

// Whether we must stop leading: no successful write for the renew deadline.
bool lost(Monotonic last_renewed, const Config& config, Monotonic now);

}  // namespace compilecache::kube::lease
