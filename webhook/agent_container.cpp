#include "webhook/agent_container.hpp"

#include "base/json_writer.hpp"
#include "base/strings.hpp"
#include "webhook/pod_resources.hpp"

namespace compilecache::webhook {

namespace {

void write_amounts(JsonWriter& out, const char* list, const Amounts& amounts) {
  if (amounts.empty()) return;
  out.key(list);
  out.begin_object();
  for (const auto& [resource, amount] : amounts) out.field(resource, format_amount(amount));
  out.end_object();
}

void write_resources(JsonWriter& out, const ContainerAmounts& resources) {
  if (resources.requests.empty() && resources.limits.empty()) return;
  out.key("resources");
  out.begin_object();
  write_amounts(out, "requests", resources.requests);
  write_amounts(out, "limits", resources.limits);
  out.end_object();
}

void write_post_start(JsonWriter& out, const std::vector<std::string>& command) {
  out.key("lifecycle");
  out.begin_object();
  out.key("postStart");
  out.begin_object();
  out.key("exec");
  out.begin_object();
  out.field("command", command);
  out.end_object();
  out.end_object();
  out.end_object();
}

}  // namespace

std::string agent_container(const AgentContainerInput& input, const AgentContainer& container) {
  const auto mounts =
      agent_mounts(input.directories, input.store, container.store_read_only, container.own);
  JsonWriter out(input.environment.size() + 2048);
  out.begin_object();
  out.field("name", container.name);
  out.field("image", input.settings.image);
  out.field("command", container.program);
  out.field("args", std::vector<std::string>{container.command});
  out.raw_field("env", input.environment);
  write_resources(out, container.resources);
  if (container.is_sidecar) out.field("restartPolicy", "Always");
  if (!container.post_start.empty()) write_post_start(out, container.post_start);
  out.raw_field("securityContext", container.security_context);
  out.field("terminationMessagePolicy", "FallbackToLogsOnError");
  out.raw_field("volumeMounts", "[" + join(to_json(mounts), ",") + "]");
  out.end_object();
  return out.text();
}

}  // namespace compilecache::webhook
