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

// The store's volumes, and a token for the agent API. A volume has its claim. A user's registry has
// the Secret and the ConfigMap that the CompileCache names; the pod starts even without them.
// The installation's own registry needs nothing, since it takes the token. A sweep
// Job's pod has these volumes and no others.
std::vector<Volume> agent_volumes(const api::StoreRef& store, SecretKeys keys);

// The volumes of a store from which a sweep Job copies archives, besides its own agent_volumes(),
// and their mount points. All are read-only.
std::vector<Volume> source_volumes(const api::StoreRef& source);
std::vector<Mount> source_mounts(const api::StoreRef& source);

// Where our containers have them: never the application's.
std::vector<Mount> agent_mounts(const api::StoreRef& store, bool store_read_only);

}  // namespace compilecache::podspec
