#pragma once

#include <set>
#include <string>
#include <string_view>

// The place of the injected init containers in a pod, as text. The webhook writes it into the Event
// on a pod's owner, policies name it in their refusals, and the operator compares the two.
//
//   tell_injected(2)   // "…; the first of them is spec.initContainers[2]"
//   init_containers_named_in("spec.initContainers[3].image: not allowed")   // {3}
//
// Pure; safe from any thread.

namespace compilecache::api {

// The message of an injection whose containers begin at that index. At 0, as almost everywhere, it
// is not mentioned.
std::string tell_injected(size_t first);

// The indexes of init containers that a text names, as Kubernetes' own admission and security
// context constraints write them (`initContainers[1]`), and as Kyverno does (`initContainers/1/`).
std::set<size_t> init_containers_named_in(std::string_view text);

}  // namespace compilecache::api
