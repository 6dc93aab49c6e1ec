#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/compile_cache.hpp"
#include "webhook/injection.hpp"
#include "webhook/namespace_facts.hpp"
#include "webhook/settings.hpp"

// From the bytes of an AdmissionReview to the bytes of its answer, without HTTP.
//
//   AdmissionAnswer answer = admit(request.body, cluster);
//   respond({.status = 200, .body = answer.body});
//   if (!answer.dry_run) events.record(answer.owner, answer.report);
//
// A total function, linear in its input: any input whatever gets an answer, and never one that
// blocks a pod. That means: `allowed` is always true, and the patch has been applied to the
// received object before it is sent. Where anything is in doubt there is no patch, but a warning.

namespace compilecache::webhook {

// What the webhook knows of the cluster, from caches: it must answer at once. Thread-safe.
class AdmissionCluster {
 public:
  virtual ~AdmissionCluster() = default;
  // nullptr: there is none (or it has not been seen yet).
  [[nodiscard]] virtual std::shared_ptr<const api::CompileCache> cache(
      const std::string& ns, const std::string& name) const = 0;
  [[nodiscard]] virtual NamespaceFacts namespace_facts(const std::string& ns) const = 0;
  [[nodiscard]] virtual std::shared_ptr<const InjectionSettings> settings() const = 0;
};

// Whom an Event is about: the pod's controller, since the pod does not exist yet.
struct EventTarget {
  std::string api_version, kind, name, uid;  // kind empty: a bare pod, nobody to tell
};

struct AdmissionAnswer {
  std::string body;  // an AdmissionReview, always
  Report report;
  std::string ns;
  std::string pod;    // its name, or generateName; may be empty
  std::string cache;  // that it wants; empty: none
  EventTarget owner;
  bool dry_run = false;  // tell nobody: nothing happened
};

// Whether whoever waits for the answer is about to give up. Asked between the steps of a review.
using TimeIsUp = std::function<bool()>;

// When the time is up the pod is left alone, with a warning that says so: kTookTooLong.
AdmissionAnswer admit(const std::string& body, const AdmissionCluster& cluster,
                      const TimeIsUp& time_is_up = {}) noexcept;

}  // namespace compilecache::webhook
