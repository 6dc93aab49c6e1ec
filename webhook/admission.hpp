#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/compile_cache.hpp"
#include "webhook/injection.hpp"
#include "webhook/namespace_facts.hpp"
#include "webhook/settings.hpp"

// Answers an AdmissionReview: bytes in, bytes out, without HTTP.
//
//   AdmissionAnswer answer = admit(request.body, cluster);
//   respond({.status = 200, .body = answer.body});
//   if (!answer.dry_run) ...      // an Event about answer.owner, by answer.report
//
// A total function, linear in its input: any input gets an answer, and never one that blocks a pod.
// So `allowed` is always true, and a patch is sent only after it was applied to the received
// object. Where anything is in doubt the answer has a warning instead of a patch.

namespace compilecache::webhook {

// The webhook's knowledge of the cluster. Thread-safe; it must answer at once, so from memory.
class AdmissionCluster {
 public:
  virtual ~AdmissionCluster() = default;
  // Returns nullptr when there is none, or it has not been seen yet.
  [[nodiscard]] virtual std::shared_ptr<const api::CompileCache> cache(
      const std::string& ns, const std::string& name) const = 0;
  [[nodiscard]] virtual NamespaceFacts namespace_facts(const std::string& ns) const = 0;
  [[nodiscard]] virtual std::shared_ptr<const InjectionSettings> settings() const = 0;
};

// The object that an Event is about: the pod's controller, since the pod does not exist yet.
struct EventTarget {
  std::string api_version, kind, name, uid;  // kind empty: a bare pod, so no Event
};

struct AdmissionAnswer {
  std::string body;  // an AdmissionReview, always
  InjectionReport report;
  std::string ns;
  std::string pod;    // its name, or generateName; may be empty
  std::string cache;  // the CompileCache that it asks for; empty: none
  EventTarget owner;
  bool dry_run = false;  // no Event and no metric: the pod is not created
};

// Whether the caller is about to give up waiting. Called between the steps of a review.
using TimeIsUp = std::function<bool()>;

// When the time is up the pod is left alone, with a warning (kTookTooLong).
AdmissionAnswer admit(const std::string& body, const AdmissionCluster& cluster,
                      const TimeIsUp& time_is_up = {}) noexcept;

}  // namespace compilecache::webhook
