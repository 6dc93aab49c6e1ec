#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/compile_cache.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/selection.hpp"

// The users and security contexts of the loader and the saver. Pure.

namespace compilecache::webhook {

// Whether the pod has a user namespace of its own (hostUsers: false). The kubelet then mounts its
// volumes with mapped IDs, which not all file systems support. It does not start a container whose
// volume is on another.
bool has_user_namespace(const Json& pod);

// The securityContext as JSON. It has user, group, SELinux label and runAsNonRoot of the chosen
// container, so that both can work on the same files. Where that leaves them to the pod, so do we;
// a user that nobody names is our image's. All else is what the "restricted" Pod Security level
// demands, which fits every other level too. `user` replaces the chosen container's.
std::string agent_security_context(const Json& chosen_container, const Json& pod,
                                   std::optional<int64_t> user = std::nullopt);

// The saver may need another user than the loader: some applications leave files that only their
// owner can read. That is spec.save.runAsUser; else, where the pod and its chosen containers name
// no user, the owner of the files of an earlier pod of the image (status.fileOwners). It has no
// capabilities, like all our containers.
//
// Never root where the pod demands another user: the kubelet would not start it. That also keeps
// the pod's Pod Security level: the level "restricted" admits no pod that does not demand it.
struct SaverUser {
  std::optional<int64_t> user;  // nothing: the loader's
  std::string warning;          // why spec.save.runAsUser does not count; empty: it does
};
SaverUser saver_user(const Json& pod, const Selection& selection, const api::CompileCache& cache);

}  // namespace compilecache::webhook
