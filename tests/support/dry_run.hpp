#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kube/client.hpp"

// A real API server's verdict on a pod, without creating it (server-side dry run), in namespaces of
// the three levels of Pod Security that are made for it and removed again.
//
//   const DryRun dry_run(client);
//   const Verdict before = dry_run.strictest(pod);   // before.level: "restricted", ...
//   if (!before.accepted()) std::cerr << before.message;
//
// Safe from any thread, but for make_namespace().

namespace compilecache::testing {

struct Verdict {
  std::string level;    // the strictest of "restricted", "baseline", "privileged" that took it
  std::string ns;       // where it was asked for last
  std::string message;  // why it was refused; "" when it was not
  nlohmann::json pod;   // as it would be stored, with defaults and its QoS class

  [[nodiscard]] bool accepted() const { return message.empty(); }
  [[nodiscard]] std::string qos_class() const;
};

class DryRun {
 public:
  explicit DryRun(kube::Client client);
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  [[nodiscard]] Verdict strictest(const nlohmann::json& pod) const;
  // The verdict on a changed pod that was judged `before`, at that level or in that namespace. More
  // containers never make the level stricter.
  [[nodiscard]] Verdict again(const nlohmann::json& pod, const Verdict& before) const;
  // In a namespace of the caller's; the level is "".
  [[nodiscard]] Verdict in_namespace(nlohmann::json pod, const std::string& ns) const;

  // A namespace that is removed together with this.
  std::string make_namespace(const std::string& purpose,
                             const nlohmann::json& labels = nlohmann::json::object());

 private:
  kube::Client client_;
  std::map<std::string, std::string> levels_;  // to namespaces
  std::vector<std::string> namespaces_;
};

// A difference between an accepted pod and the injected one that a user would notice. It is
// refused, or its QoS class or anything but containers and volumes has changed. Empty:
// none.
std::string worsened(const Verdict& before, const Verdict& after);

}  // namespace compilecache::testing
