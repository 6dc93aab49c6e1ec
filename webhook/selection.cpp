#include "webhook/selection.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "api/device_facts.hpp"
#include "api/names.hpp"
#include "base/quantity.hpp"
#include "base/strings.hpp"
#include "frameworks/glob.hpp"
#include "webhook/pod_bounds.hpp"

namespace compilecache::webhook {

namespace {

using api::InjectionReason;

constexpr char kDefaultContainerAnnotation[] = "kubectl.kubernetes.io/default-container";
constexpr char kClaimsUnreadable[] =
    "the pod gets devices by resourceClaims, which this API server does not tell us of "
    "(resource.k8s.io/v1, v1beta2 or v1beta1, as of Kubernetes 1.32)";
constexpr char kClaimsOfOthers[] =
    "the pod gets devices by resourceClaims, and none of the chosen containers uses them; name "
    "those "
    "that do in compilecache.dev/containers";
// A container that uses more of them computes on nothing that we know.
constexpr size_t kMostClaims = 16;
constexpr char kTooManyClaims[] = "its containers use more than 16 resourceClaims";

bool matches_any(const std::vector<std::string>& patterns, const std::string& resource) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return frameworks::name_matches(pattern, resource);
  });
}

// Extended resources have a domain of their own; Kubernetes' are kubernetes.io's or have none.
bool is_extended(std::string_view resource) {
  const size_t slash = resource.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view domain = resource.substr(0, slash);
  return domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io");
}

// Reads limits and requests, which are equal for extended resources; zero counts as none.
std::map<std::string, int> extended_resources(const Json& container) {
  std::map<std::string, int> found;
  const Json& resources = object_member(container, "resources");
  for (const char* list : {"limits", "requests"}) {
    for (const auto& [name, quantity] : members(member(resources, list))) {
      if (!is_extended(text_of(name))) continue;
      const auto amount = parse_bytes(quantity_text(quantity));
      if (!amount || *amount == 0) continue;
      found[std::string(text_of(name))] = static_cast<int>(std::min<uint64_t>(*amount, 65536));
    }
  }
  return found;
}

bool requests_gpu(const Json& container, const InjectionSettings& settings) {
  const auto resources = extended_resources(container);
  return std::any_of(resources.begin(), resources.end(), [&](const auto& resource) {
    return matches_any(settings.gpu_resources, resource.first);
  });
}

// The container's part of the pod's resourceClaims.
std::vector<std::string> claims_of(const Json& container) {
  std::vector<std::string> claims;
  for (const Json& claim : array_member(object_member(container, "resources"), "claims")) {
    const std::string name(text_member(claim, "name"));
    const std::string_view request = text_member(claim, "request");
    if (name.empty()) continue;
    claims.push_back(request.empty() ? name : name + "/" + std::string(request));
  }
  return claims;
}

// The same of all chosen containers, each once.
std::vector<std::string> claims_of(const Json& pod, const std::vector<size_t>& chosen) {
  std::set<std::string> all;
  for (const size_t index : chosen) {
    for (std::string& claim : claims_of(container_at(pod, index))) all.insert(std::move(claim));
  }
  return {all.begin(), all.end()};
}

// In the order of container_at().
std::vector<std::string> names_of(const Json& pod) {
  std::vector<std::string> names;
  for (const Json::ConstArray& list : {containers_of(pod), init_containers_of(pod)}) {
    for (const Json& container : list) names.emplace_back(text_member(container, "name"));
  }
  return names;
}

Decided<std::vector<size_t>> named_containers(const Json& pod, const PodAnnotations& annotations) {
  const std::vector<std::string> names = names_of(pod);
  const auto first_init = names.begin() + containers_of(pod).Size();
  // Our containers come after it, and those up to it get nothing.
  const auto before_us = annotations.after.empty()
                             ? names.end()
                             : std::find(first_init, names.end(), annotations.after);
  std::vector<size_t> chosen;
  for (const std::string& name : annotations.containers) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      return skip(InjectionReason::kContainerNotFound, std::string(api::kContainersAnnotation) +
                                                           ": the pod has no container \"" + name +
                                                           "\"; it has " + join(names, ", "));
    }
    if (before_us != names.end() && found >= first_init && found <= before_us) {
      return skip(InjectionReason::kAnnotationInvalid,
                  std::string(api::kContainersAnnotation) + ": init container \"" + name +
                      "\" runs before the cache is loaded, since " + api::kAfterAnnotation +
                      " puts ours after \"" + annotations.after + "\"; leave out one of the two");
    }
    chosen.push_back(static_cast<size_t>(found - names.begin()));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

size_t default_container(const Json& pod, Json::ConstArray containers) {
  const auto name = annotation(pod, kDefaultContainerAnnotation);
  if (!name) return 0;
  const auto found = std::find_if(containers.begin(), containers.end(), [&](const Json& container) {
    return text_member(container, "name") == *name;
  });
  return found == containers.end() ? 0 : static_cast<size_t>(found - containers.begin());
}

std::vector<size_t> containers_by_request(const Json& pod, Json::ConstArray containers,
                                          const InjectionSettings& settings) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < containers.Size(); ++i) {
    if (requests_gpu(container_at(pod, i), settings)) chosen.push_back(i);
  }
  const bool any_gpu = !chosen.empty();
  for (size_t i = 0; !any_gpu && settings.resource_claims && i < containers.Size(); ++i) {
    if (!claims_of(container_at(pod, i)).empty()) chosen.push_back(i);
  }
  if (chosen.empty()) chosen.push_back(default_container(pod, containers));
  return chosen;
}

// A device of any container: one that is not chosen may be the one that computes.
std::string unknown_device(const Json& pod, const InjectionSettings& settings) {
  for (const Json::ConstArray& list : {containers_of(pod), init_containers_of(pod)}) {
    for (const Json& container : list) {
      for (const auto& [resource, count] : extended_resources(container)) {
        if (!matches_any(settings.gpu_resources, resource) &&
            !matches_any(settings.harmless_resources, resource)) {
          return resource;
        }
      }
    }
  }
  return {};
}

// An init container that ends before the others start has its GPUs beforehand.
void find_gpus(const Json& pod, const InjectionSettings& settings, Selection& selection) {
  int alone = 0;
  for (const size_t index : selection.containers) {
    const Json& container = container_at(pod, index);
    int its = 0;
    for (const auto& [resource, count] : extended_resources(container)) {
      if (!matches_any(settings.gpu_resources, resource)) continue;
      if (selection.gpu_resource.empty()) selection.gpu_resource = resource;
      its += count;
    }
    if (is_init_container(pod, index) && !is_native_sidecar(container)) {
      alone = std::max(alone, its);
    } else {
      selection.gpu_count += its;
    }
  }
  selection.gpu_count = std::max(selection.gpu_count, alone);
}

}  // namespace

Decided<std::vector<size_t>> choose_containers(const Json& pod, const PodAnnotations& annotations,
                                               const InjectionSettings& settings) {
  const auto containers = containers_of(pod);
  if (containers.Empty()) {
    return skip(InjectionReason::kRequestInvalid, "the pod has no containers");
  }
  auto chosen = annotations.containers.empty()
                    ? Decided<std::vector<size_t>>(containers_by_request(pod, containers, settings))
                    : named_containers(pod, annotations);
  if (chosen && chosen->size() > api::kMostInjectedContainers) {
    return skip(InjectionReason::kPodTooLarge,
                "the cache would go into " + std::to_string(chosen->size()) +
                    " containers of the pod; at most " +
                    std::to_string(api::kMostInjectedContainers) +
                    " get it: name those that need it in " + api::kContainersAnnotation);
  }
  return chosen;
}

Decided<Selection> select_containers(const Json& pod, const PodAnnotations& annotations,
                                     const InjectionSettings& settings) {
  auto chosen = choose_containers(pod, annotations, settings);
  if (!chosen) return tl::unexpected(chosen.error());
  Selection selection;
  selection.containers = std::move(*chosen);
  find_gpus(pod, settings, selection);
  if (!selection.gpu_resource.empty()) return selection;
  if (!array_member(spec_of(pod), "resourceClaims").Empty()) {
    if (!settings.resource_claims) return skip(InjectionReason::kResourceClaims, kClaimsUnreadable);
    selection.claims = claims_of(pod, selection.containers);
    if (selection.claims.empty()) return skip(InjectionReason::kResourceClaims, kClaimsOfOthers);
    if (selection.claims.size() > kMostClaims) {
      return skip(InjectionReason::kPodTooLarge, kTooManyClaims);
    }
    // Otherwise an operator of an older release would take the pod for one without a GPU.
    selection.gpu_resource = api::kClaimedDevices;
    return selection;
  }
  if (const std::string unknown = unknown_device(pod, settings); !unknown.empty()) {
    return skip(InjectionReason::kUnknownDevice,
                "the pod requests " + unknown +
                    ", which the operator's settings do not name; add it to gpuResources, or to "
                    "harmlessResources if it has no influence on compiled code");
  }
  return selection;
}

}  // namespace compilecache::webhook
