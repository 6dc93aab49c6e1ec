#include "api/names.hpp"
#include "webhook/agent_container.hpp"

namespace compilecache::webhook {

namespace {

constexpr char kSupervisor[] = "compilecache-supervise";
constexpr char kAgent[] = "compilecache-agent";
// Of the container's first process, whose output is the container's log.
constexpr char kLog[] = "/proc/1/fd/2";
// A loader's longest time besides waiting for its place or the first pod, and loading: for the
// operator's answers, the node's label, cleaning up and reporting (agent/load).
constexpr std::chrono::seconds kLoaderMargin{60};

}  // namespace

std::chrono::milliseconds load_limit(const api::CompileCacheSpec::Load& load) {
  return load.wait_for_first + 2 * load.timeout + kLoaderMargin;
}

std::string sidecar_container(const AgentContainerInput& input) {
  return agent_container(
      input, {.name = api::kSaverContainer,
              .program = {kSupervisor, "--after-load", api::kStatePath, kAgent},
              .command = "save",
              .store_read_only = input.saver_reads_only,
              .own = input.own,
              .is_sidecar = true,
              .resources = input.resources.saver,
              .security_context = input.saver_security_context,
              .post_start = {kSupervisor, "--load", api::kStatePath,
                             std::to_string(input.load_limit.count()), kLog, kAgent, "load"}});
}

}  // namespace compilecache::webhook
