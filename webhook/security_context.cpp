#include "webhook/security_context.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/json_writer.hpp"

namespace compilecache::webhook {
namespace {

// How many users there are in a pod with a user namespace of its own: the kubelet maps that many.
constexpr int64_t kUsersOfANamespace = 65536;

// A container's own word counts before the pod's.
const Json& setting_of(const Json& pod, const Json& container, const char* name) {
  const Json& own = member(object_member(container, "securityContext"), name);
  return own.IsNull() ? member(object_member(spec_of(pod), "securityContext"), name) : own;
}

}  // namespace

bool has_user_namespace(const Json& pod) {
  const Json& host_users = member(spec_of(pod), "hostUsers");
  return host_users.IsBool() && !host_users.GetBool();
}

namespace {

// Why the kubelet would not start our container as that user; empty: it would.
std::string hindrance(const Json& pod, const Json& container, int64_t user) {
  const Json& non_root = setting_of(pod, container, "runAsNonRoot");
  if (user == 0 && non_root.IsBool() && non_root.GetBool()) return "the pod demands runAsNonRoot";
  if (user >= kUsersOfANamespace && has_user_namespace(pod)) {
    return "a pod with hostUsers: false has users up to " + std::to_string(kUsersOfANamespace - 1);
  }
  return {};
}

const api::FileOwner* owner_of(const std::vector<api::FileOwner>& owners, std::string_view image) {
  const auto found = std::find_if(owners.begin(), owners.end(), [&](const api::FileOwner& owner) {
    return owner.image == image;
  });
  return found == owners.end() ? nullptr : &*found;
}

}  // namespace

SaverUser saver_user(const Json& pod, const Selection& selection, const api::CompileCache& cache) {
  const Json& first = container_at(pod, selection.containers.front());
  if (const auto& said = cache.spec.save.run_as_user) {
    const std::string why_not = hindrance(pod, first, *said);
    if (why_not.empty()) return {said, {}};
    return {std::nullopt, "compilecache.dev: spec.save.runAsUser: " + std::to_string(*said) +
                              " of CompileCache \"" + cache.metadata.name +
                              "\" has no effect, as " + why_not};
  }
  for (const size_t index : selection.containers) {
    if (!setting_of(pod, container_at(pod, index), "runAsUser").IsNull()) return {};
  }
  const auto* owner = owner_of(cache.status.file_owners, text_member(first, "image"));
  if (owner == nullptr || owner->refused || !hindrance(pod, first, owner->user).empty()) return {};
  return {owner->user, {}};
}

std::string agent_security_context(const Json& chosen_container, const Json& pod,
                                   std::optional<int64_t> user) {
  JsonWriter out;
  out.begin_object();
  out.field("allowPrivilegeEscalation", false);
  out.field("readOnlyRootFilesystem", true);
  out.key("capabilities");
  out.begin_object();
  out.field("drop", std::vector<std::string>{"ALL"});
  out.end_object();
  const Json& theirs = object_member(chosen_container, "securityContext");
  if (user) out.field("runAsUser", *user);
  for (const char* field : {"runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions"}) {
    if (user && std::string_view(field) == "runAsUser") continue;
    if (const Json& value = member(theirs, field); !value.IsNull()) {
      out.raw_field(field, to_text(value));
    }
  }
  // Set only where each of the user's containers has one: otherwise the pod's applies, or none is
  // demanded, and some clusters refuse one that they do not expect.
  const Json& of_pod = object_member(spec_of(pod), "securityContext");
  if (has_member(theirs, "seccompProfile") && !has_member(of_pod, "seccompProfile")) {
    out.key("seccompProfile");
    out.begin_object();
    out.field("type", "RuntimeDefault");
    out.end_object();
  }
  out.end_object();
  return out.text();
}

}  // namespace compilecache::webhook
