#pragma once

#include <string>
#include <vector>

#include "api/store_ref.hpp"
#include "podspec/pod_fragments.hpp"

// The volumes that our containers need, in an application's pod and in a Job's. Pure.

namespace compilecache::podspec {

Volume empty_dir(const std::string& name);

// The store, and a token for the agent API. A sweep Job's pod has these two and no others.
std::vector<Volume> agent_volumes(const api::StoreRef& store);

}  // namespace compilecache::podspec
