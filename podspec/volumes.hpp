#pragma once

#include <string>
#include <vector>

#include "podspec/pod_fragments.hpp"

// The volumes that our containers need, in an application's pod and in a Job's. Pure.

namespace compilecache::podspec {

Volume empty_dir(const std::string& name);

// Volumes for the claim and for a token of the agent API. A sweep Job's pod has these two and no
// others.
std::vector<Volume> agent_volumes(const std::string& claim_name);

}  // namespace compilecache::podspec
