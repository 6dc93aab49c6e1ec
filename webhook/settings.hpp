#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "api/store_ref.hpp"
#include "frameworks/framework.hpp"
#include "frameworks/trap.hpp"

// The injection's inputs besides the pod, its CompileCache and its namespace. The
// operator fills it from its settings file and from the cluster (its Service's
// address, its CA); tests fill it by hand.

namespace compilecache::webhook {

// Resource name to quantity, as in a container's requests: {{"cpu", "100m"}}.
using ResourceList = std::map<std::string, std::string>;

struct InjectionSettings {
  std::string version;  // of the operator; an injection by another one is redone
  std::string image;    // of the loader and the saver
  std::vector<std::string> excluded_namespaces{"kube-system"};  // and the operator's own
  // Whether the cluster shows the devices of a ResourceClaim, so that pods which get their
  // GPUs by one have a key.
  bool resource_claims = true;
  bool native_sidecars = true;  // whether every kubelet knows them (1.29 or newer)

  // The agent API as pods see it, see api::AgentConfig. Empty address: agents use a volume's index
  // only.
  std::string agent_address;
  std::string load_address;
  int agent_port = 443;
  std::string agent_name;
  std::string agent_ca;
  bool index_fallback = true;
  api::OwnRegistry own_registry;  // of this installation
  // The quiet period before the first save of pods that end by themselves.
  std::chrono::milliseconds first_quiet_period{3000};

  // Extended resources that are GPUs, and those that do not influence compiled code; `*` stands for
  // anything ("nvidia.com/mig-*").
  std::vector<std::string> gpu_resources{"nvidia.com/gpu", "nvidia.com/mig-*"};
  std::vector<std::string> harmless_resources;

  // The resources of our containers, where the pod's own containers call for any
  // (webhook/resources.hpp).
  ResourceList loader_requests{{"cpu", "100m"}, {"memory", "128Mi"}};
  ResourceList loader_limits{{"cpu", "2"}, {"memory", "512Mi"}};
  ResourceList saver_requests{{"cpu", "10m"}, {"memory", "64Mi"}};
  ResourceList saver_limits{{"cpu", "1"}, {"memory", "256Mi"}};
  // The saver's requests and limits in a Guaranteed pod: enough CPU to pack an archive in
  // reasonable time, little enough to fit beside an application that fills its node.
  ResourceList saver_guaranteed{{"cpu", "100m"}, {"memory", "256Mi"}};

  std::map<std::string, frameworks::Framework> frameworks;
  std::vector<frameworks::Trap> traps;
};

}  // namespace compilecache::webhook
