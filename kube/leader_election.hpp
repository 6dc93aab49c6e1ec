#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "kube/client.hpp"
#include "kube/lease_machine.hpp"

// Leader election on a Lease.
//
//   LeaderElector elector(client, {.ns = ns, .name = "compilecache-operator",
//                                  .lease = {.identity = pod + "_" + random_id(random)}},
//                         {.on_started = [&] { controllers.start(); },
//                          .on_lost = [] { std::_Exit(1); }});
//   elector.start();
//   ...
//   controllers.stop();
//   elector.stop();          // releases the Lease, so that another takes over at once
//
// When the lease is lost another replica may already lead: on_lost must end the process without any
// more work. The election has a thread of its own, and its requests a timeout of half the renew
// deadline, so that nothing else can cost the lease.

namespace compilecache::kube {

struct LeaderElectionOptions {
  std::string ns;
  std::string name;
  lease::Config lease;
};

// Called in the elector's thread.
struct LeaderCallbacks {
  std::function<void()> on_started;  // we lead; must return soon
  std::function<void()> on_lost;     // we do not lead any more, without having called stop()
  std::function<void(const std::string& identity)> on_new_leader;  // optional; may be us
};

class LeaderElector {
 public:
  LeaderElector(const Client& client, LeaderElectionOptions options, LeaderCallbacks callbacks,
                const Clock& clock = SystemClock::instance(), Random random = system_random());
  ~LeaderElector();  // stops without releasing the Lease, like a crash

  // kInvalid when the numbers do not fit together.
  Status start();
  // Ends the election; releases a Lease that it has. Call it after the work has stopped.
  void stop();

  // True only while this replica surely leads: by its own clock the last write is younger than the
  // renew deadline. Thread-safe; call it before every action that only a leader may take.
  [[nodiscard]] bool is_leader() const;
  // The Lease's transitions under which we lead or led last; grows with each change of leader.
  [[nodiscard]] int transitions() const;
  // Who leads, as last seen; empty when nobody does.
  [[nodiscard]] std::string leader() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::kube
