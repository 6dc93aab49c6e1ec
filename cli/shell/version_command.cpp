#include "cli/shell/version_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/printable.hpp"
#include "base/release.hpp"
#include "cli/text/json_at.hpp"
#include "cli/text/structured_output.hpp"
#include "kube/resource.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// Somebody waits, and the client's version is worth something without the rest.
constexpr std::chrono::seconds kVersionPatience{5};
constexpr char kOperatorLabel[] = "app.kubernetes.io/name=compilecache-operator";

Result<json> read_api_versions(const kube::Client& client) {
  const auto text = client.raw("GET", "/apis/compilecache.dev");
  if (!text) return unexpected(text.error());
  const json group = json::parse(*text, nullptr, false);
  json versions = json::array();
  for (const json& version : at(group, "/versions")) {
    versions.push_back(text_in(version, "/version"));
  }
  return versions;
}

Result<json> read_operators(const kube::Client& client) {
  const auto listed =
      client.list_all(kube::resources::kDeployments, {.label_selector = kOperatorLabel});
  if (!listed) return unexpected(listed.error());
  json operators = json::array();
  for (const json& one : listed->at("items")) {
    const std::string image = text_in(one, "/spec/template/spec/containers/0/image");
    operators.push_back({{"namespace", text_in(one, "/metadata/namespace")},
                         {"name", text_in(one, "/metadata/name")},
                         {"version", tag_of_image(image)},
                         {"image", image}});
  }
  return operators;
}

// The installed versions; unreadable ones are mentioned.
json read_installed(const kube::Client& client, std::ostream& errors) {
  json installed = json::object();
  const auto versions = read_api_versions(client);
  if (versions) {
    installed["apiVersions"] = *versions;
  } else if (versions.error().code == ErrorCode::kNotFound) {
    installed["apiVersions"] = json::array();
  } else {
    errors << "The API server gave no answer: " << printable(versions.error().message) << "\n";
    return installed;
  }
  const auto operators = read_operators(client);
  if (operators) {
    installed["operators"] = *operators;
  } else {
    errors << "The operator's version is unknown: " << printable(operators.error().message) << "\n";
  }
  return installed;
}

std::string text_of(const json& versions) {
  std::string text = "Client Version: " + text_in(versions, "/client/version") + " (commit " +
                     text_in(versions, "/client/commit") + ")\n";
  if (versions.contains("operators")) {
    if (versions["operators"].empty()) text += "Operator Version: not installed\n";
    for (const json& one : versions["operators"]) {
      const std::string version = text_in(one, "/version");
      text +=
          printable("Operator Version: " + (version.empty() ? "unknown" : version) + " (" +
                    text_in(one, "/image") + " in namespace " + text_in(one, "/namespace") + ")") +
          "\n";
    }
  }
  if (versions.contains("apiVersions")) {
    std::string all;
    for (const json& version : versions["apiVersions"]) {
      all += (all.empty() ? "compilecache.dev/" : ", compilecache.dev/") +
             printable(version.get<std::string>());
    }
    text += "API Version: " + (all.empty() ? "not installed" : all) + "\n";
  }
  return text;
}

}  // namespace

std::string tag_of_image(const std::string& image) {
  const std::string name = image.substr(0, image.find('@'));
  const size_t colon = name.rfind(':'), slash = name.rfind('/');
  const bool is_port = colon != std::string::npos && slash != std::string::npos && colon < slash;
  return colon == std::string::npos || is_port ? "" : name.substr(colon + 1);
}

int run_version(const VersionOptions& options, std::ostream& out, std::ostream& errors) {
  json versions = {{"client", {{"version", release()}, {"commit", options.commit}}}};
  if (!options.client_only) {
    if (const auto cluster = connect(options.cluster)) {
      versions.update(read_installed(cluster->client.with_timeout(kVersionPatience, 0), errors));
    } else {
      errors << "No cluster is known: " << printable(cluster.error().message) << "\n";
    }
  }
  out << (options.output.empty() ? text_of(versions) : structured(versions, options.output));
  return 0;
}

}  // namespace compilecache::cli
