#pragma once

#include <string>
#include <vector>

#include "api/store_ref.hpp"
#include "podspec/pod_fragments.hpp"

// The volumes that our containers need, in an application's pod and in a Job's. Pure.

namespace compilecache::podspec {

Volume empty_dir(const std::string& name);

// What of a user's Secret is mounted: an agent that finds no credentials in it can say what is
// there instead, and that is for Jobs alone.
enum class SecretKeys { kNeeded, kAll };

// What the store needs, and a token for the agent API: the claim of a volume; of a user's registry
// the Secret and the ConfigMap that the CompileCache names, which may be missing without holding
// the pod up; of the installation's own registry nothing, since the token is shown there. A sweep
// Job's pod has these volumes and no others.
std::vector<Volume> agent_volumes(const api::StoreRef& store, SecretKeys keys);

// What a sweep Job needs of a store from which it copies archives, besides agent_volumes() of its
// own; and where it has them, all read-only.
std::vector<Volume> source_volumes(const api::StoreRef& source);
std::vector<Mount> source_mounts(const api::StoreRef& source);

// Where our containers have them: never the application's.
std::vector<Mount> agent_mounts(const api::StoreRef& store, bool store_read_only);

}  // namespace compilecache::podspec
