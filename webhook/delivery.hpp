#pragma once

#include <string>

#include "api/choices.hpp"
#include "webhook/directories.hpp"
#include "webhook/pod_json.hpp"

// Whether a pod gets two containers or one that does the work of both
// (webhook/agent_containers.hpp). Pure.

namespace compilecache::webhook {

struct DeliveryChoice {
  api::Delivery delivery = api::Delivery::kInitAndSidecar;
  std::string warning;  // why it is not what was wanted; "" where it is
};

// One container cannot do for two where the first process that it sees is not its own: the hook's
// loader writes to that one's log. Nor where files in memory would count as the sidecar's own.
DeliveryChoice choose_delivery(api::Delivery wanted, const Json& pod,
                               const DirectoryPlan& directories);

}  // namespace compilecache::webhook
