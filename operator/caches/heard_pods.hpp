#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/settings/settings.hpp"

// Knows which injected pods have called the operator. A pod whose loader has ended without a call
// since cannot reach us, mostly because a NetworkPolicy denies egress. Such pods never save
// anything, and each waits without success for an answer before it starts.
//
//   HeardPods heard(settings.agent);
//   heard.begin();                       // this replica answers agents from now on
//   heard.seen(pod, now);                // whenever a pod of ours changes
//   heard.spoke(pod);                    // at each call of the agent API
//   heard.moved(false, now);             // nobody reaches us any more: our Service is gone
//   const Silence silence = heard.silence("ml", "transformer", now);
//   if (silence.turned) heard.announce("ml");
//
// Only pods that appeared while we led are judged: others may have called the previous leader. So
// are only pods with a saver: the load of another may be answered by a replica that does not lead.
// After some unheard pods of a namespace in a row (Settings::Agent::unheard_pods) its new pods are
// injected so that they do not ask; the first of its pods that calls ends that. Pods that were
// given an address where nobody answers are astray: they are listed separately and do not count for
// that. Thread-safe; no clock and no I/O.

namespace compilecache::controller {

// How many pods of one CompileCache have called the operator, and which have not.
struct Silence {
  std::vector<std::string> unheard;  // names of its pods that are there, sorted
  std::vector<std::string> astray;   // those that have another address than the present one
  size_t heard = 0;                  // how many of its present pods have called since their load
  bool not_asked = false;            // new pods of the namespace do not ask
  // It became so with exactly this call of silence(): the caller has to announce() it.
  bool turned = false;
  Duration again{0};  // when another pod may count; 0: when something changes
};

class HeardPods {
 public:
  explicit HeardPods(const Settings::Agent& rules) : rules_(rules) {}

  // spoke() and announce() call `handler`, without our lock, with a namespace whose new pods ask
  // again, or no longer. Set it once.
  void on_change(std::function<void(const std::string& ns)> handler);
  void begin();
  // The previous leader found that pods of this namespace cannot reach the operator.
  void take_over(const std::string& ns);

  void seen(const PodView& pod, Monotonic now);
  // It has ended; see PodLedger::on_end.
  void gone(const std::string& ns, const std::string& uid);
  void spoke(const PodView& pod);
  // The address that pods are given leads to us from now on, or no longer (`reachable`); what pods
  // got before is another one. Replicas notice that a few seconds apart.
  void moved(bool reachable, Monotonic now);

  Silence silence(const std::string& ns, const std::string& cache, Monotonic now);
  // New pods of the namespace no longer ask.
  void announce(const std::string& ns) const;

 private:
  struct Pod {
    std::string cache, name;
    bool judged = true;  // false: it was there before we led, or has no saver
    bool spoke = false;
    bool counted = false;
    bool astray = false;              // it may have an address that does not lead to us
    std::optional<Monotonic> loaded;  // since when its loader is known to have ended
  };
  struct Namespace {
    std::map<std::string, Pod> pods;  // by uid
    int in_a_row = 0;                 // unheard ones since the last that spoke
  };

  // Counts the pods that have been silent for long enough; returns whether new pods stop asking
  // now.
  bool count(Namespace& where, Monotonic now) const;
  [[nodiscard]] bool is_unheard(const Pod& pod, Monotonic now) const;

  const Settings::Agent rules_;
  std::function<void(const std::string&)> on_change_;
  Mutex mutex_;
  bool begun_ GUARDED_BY(mutex_) = false;
  bool reachable_ GUARDED_BY(mutex_) = true;
  std::optional<Monotonic> moved_ GUARDED_BY(mutex_);
  std::map<std::string, Namespace> namespaces_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
