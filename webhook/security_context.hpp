#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/compile_cache.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/selection.hpp"

// Under whom the loader and the saver run. Pure.

namespace compilecache::webhook {

// JSON of the securityContext. User, group, SELinux label and non-root demand of the chosen
// container, so that both sides can work on the same files; what it leaves to the pod we leave to
// the pod, and the user to our image. Otherwise as little as the "restricted" Pod Security level
// asks for, which fits every other level too. `user`: instead of the chosen container's.
std::string agent_security_context(const Json& chosen_container, const Json& pod,
                                   std::optional<int64_t> user = std::nullopt);

// A user for the saver other than the one that follows from the pod: some applications leave files
// that only their owner can read. By spec.save.runAsUser; else, where the pod and its chosen
// containers name no user, the one who owned the files of an earlier pod of the image
// (status.fileOwners). It comes without capabilities, like every user of ours.
//
// Never root where the pod demands another user: the kubelet would not start it. That also keeps
// the pod's Pod Security level: the level "restricted" admits no pod that does not demand it.
struct SaverUser {
  std::optional<int64_t> user;  // nothing: as the loader
  std::string warning;          // why spec.save.runAsUser does not count; empty: it does
};
SaverUser saver_user(const Json& pod, const Selection& selection, const api::CompileCache& cache);

}  // namespace compilecache::webhook
