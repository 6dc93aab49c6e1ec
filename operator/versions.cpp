#include "operator/versions.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "kube/json.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

constexpr int kNodesAtOnce = 500;  // as client-go

std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

}  // namespace

std::string to_string(const KubernetesVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

std::optional<KubernetesVersion> parse_version(std::string_view text) {
  if (!text.empty() && text.front() == 'v') text.remove_prefix(1);
  const auto major = take_number(text);
  if (!major || text.empty() || text.front() != '.') return std::nullopt;
  text.remove_prefix(1);
  const auto minor = take_number(text);
  if (!minor) return std::nullopt;
  return KubernetesVersion{*major, *minor};
}

std::vector<NodeVersion> too_old(const std::vector<NodeVersion>& nodes) {
  std::vector<NodeVersion> old;
  for (const NodeVersion& node : nodes) {
    const auto version = parse_version(node.kubelet);
    if (version && *version < kOldestVersion) old.push_back(node);
  }
  return old;
}

Status check_api_server(const kube::Client& client) {
  auto text = client.raw("GET", "/version");
  if (!text) return unexpected(text.error().with("asking the API server for its version"));
  const json answer = json::parse(*text, nullptr, false);
  const std::string name = answer.is_object() ? answer.value("gitVersion", "") : "";
  const auto version = parse_version(name);
  if (!version || *version >= kOldestVersion) return {};
  return fail(ErrorCode::kInvalid,
              "this API server is Kubernetes " + name +
                  "; the operator needs native sidecars and match conditions, " +
                  "which come with " + to_string(kOldestVersion) + ": upgrade the cluster");
}

Result<std::vector<NodeVersion>> read_kubelets(const kube::Client& client) {
  std::vector<NodeVersion> nodes, page;
  const kube::Client::PageHandler handler{
      [&] { page.clear(); },
      [&](const json& node) {
        page.push_back({kube::string_at(node, {"metadata", "name"}),
                        kube::string_at(node, {"status", "nodeInfo", "kubeletVersion"})});
      }};
  kube::ListOptions options{.limit = kNodesAtOnce};
  do {
    const auto read =
        client.list(kube::resources::kNodes, options, {"/status/nodeInfo/kubeletVersion"}, handler);
    if (!read) return unexpected(read.error().with("reading the kubelets' versions"));
    nodes.insert(nodes.end(), page.begin(), page.end());
    options.continue_token = read->continue_token;
  } while (!options.continue_token.empty());
  return nodes;
}

}  // namespace compilecache::controller
