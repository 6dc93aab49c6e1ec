#include "operator/cluster/pod_events.hpp"

namespace compilecache::controller {
namespace {

std::string additions(const api::InjectionStatus& injection) {
  if (injection.one_container()) return "the sidecar that loads and saves";
  return injection.init_containers.empty() ? "the variables of its Redis server"
                                           : "the loader and the saver";
}

}  // namespace

kube::ObjectReference pod_reference(const PodView& pod) {
  return {"v1", "Pod", pod.ns, pod.name, pod.uid};
}

kube::EventRecord injected_event(const PodView& pod) {
  return {pod_reference(pod), kube::EventType::kNormal, "Injected",
          "CompileCache " + pod.cache + ": added " + additions(*pod.injection)};
}

}  // namespace compilecache::controller
