#include "operator/versions.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

namespace compilecache::controller {
namespace {

using nlohmann::json;

constexpr int kNodesAtOnce = 100;  // a node's object has 10 kB and more

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
  std::vector<NodeVersion> nodes;
  kube::ListOptions options{.limit = kNodesAtOnce};
  do {
    auto page = client.list(kube::resources::kNodes, options);
    if (!page) return unexpected(page.error().with("reading the kubelets' versions"));
    for (const json& node : page->value("items", json::array())) {
      const json info = node.value("status", json::object()).value("nodeInfo", json::object());
      nodes.push_back({node.value("metadata", json::object()).value("name", ""),
                       info.value("kubeletVersion", "")});
    }
    options.continue_token = page->value("metadata", json::object()).value("continue", "");
  } while (!options.continue_token.empty());
  return nodes;
}

}  // namespace compilecache::controller
