#include "webhook/pod_bounds.hpp"

#include <string>

namespace compilecache::webhook {

namespace {

using api::InjectionReason;

// etcd takes 1.5 MiB, to which the API server adds a list of all fields and their owners.
constexpr size_t kLargestPod = size_t{1} << 20U;
// The approximate cost of a value there beside its text.
constexpr size_t kCostOfValue = 16;
// The longest patch, which is the sum of all that is added; 15 kB are usual.
constexpr size_t kLargestPatch = 256U << 10;
// apimachinery's TotalAnnotationSizeLimitB, less what others (networks, say) write later.
constexpr size_t kAnnotations = 256U << 10;
constexpr size_t kAnnotationsOfOthers = 16U << 10;

// Near what a pod takes as a whole; ends as soon as it is too much.
class Weight {
 public:
  bool add(const Json& value) {
    total_ += kCostOfValue + text_of(value).size();
    for (const auto& [name, item] : members(value)) {
      total_ += text_of(name).size();
      if (!add(item)) return false;
    }
    if (value.IsArray()) {
      for (const Json& item : value.GetArray()) {
        if (!add(item)) return false;
      }
    }
    return total_ <= kLargestPod;
  }

 private:
  size_t total_ = 0;
};

tl::unexpected<Skip> too_many(const std::string& what, size_t count, size_t most) {
  return skip(InjectionReason::kPodTooLarge, "the pod has " + std::to_string(count) + " " + what +
                                                 "; at most " + std::to_string(most) +
                                                 " are looked at");
}

Decided<void> check_container(const Json& container) {
  const Json& resources = object_member(container, "resources");
  for (const char* list : {"requests", "limits"}) {
    const size_t count = members(member(resources, list)).MemberCount();
    if (count > kMostResources) {
      return too_many("resources in the " + std::string(list) + " of one container", count,
                      kMostResources);
    }
  }
  return {};
}

size_t size_of_annotations(const Json& pod) {
  size_t size = 0;
  for (const auto& [name, value] : members(member(member(pod, "metadata"), "annotations"))) {
    size += text_of(name).size() + text_of(value).size();
  }
  return size;
}

}  // namespace

Decided<void> check_bounds(const Json& pod) {
  if (!Weight().add(pod)) return skip(InjectionReason::kPodTooLarge);
  const Json& spec = spec_of(pod);
  for (const char* list : {"initContainers", "containers", "ephemeralContainers"}) {
    const auto containers = array_member(spec, list);
    if (containers.Size() > kMostContainers) {
      return too_many("entries in spec." + std::string(list), containers.Size(), kMostContainers);
    }
    for (const Json& container : containers) {
      const auto good = check_container(container);
      if (!good) return good;
    }
  }
  return check_container(spec);
}

Decided<void> check_growth(const Json& pod, const Patch& patch,
                           const api::InjectionStatus& status) {
  size_t added = 0;
  size_t annotations = size_of_annotations(pod);
  for (const Edit& edit : patch) {
    added += edit.path.size() + edit.value.size();
    if (edit.path.starts_with("/metadata/annotations/")) {
      annotations += edit.path.size() + edit.value.size();
    }
  }
  if (added > kLargestPatch) {
    return skip(InjectionReason::kPodTooLarge,
                "with the loader, the saver and their variables the pod would grow by " +
                    std::to_string(added) + " bytes; at most " + std::to_string(kLargestPatch) +
                    " are added: name fewer containers in compilecache.dev/containers");
  }
  if (annotations > kAnnotations - kAnnotationsOfOthers) {
    return skip(InjectionReason::kPodTooLarge,
                "the pod's annotations would have " + std::to_string(annotations) +
                    " bytes; Kubernetes takes " + std::to_string(kAnnotations) + ", of which " +
                    std::to_string(kAnnotationsOfOthers) + " are left to others: shorten them");
  }
  if (api::exceeds_bounds(status)) {
    return skip(InjectionReason::kPodTooLarge,
                "the names of its containers, its image and its cache directories together are "
                "longer than the operator keeps of a pod: shorten them");
  }
  return {};
}

}  // namespace compilecache::webhook
