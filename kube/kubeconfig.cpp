#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <string>

#include "base/base64.hpp"
#include "kube/config.hpp"

namespace compilecache::kube {
namespace {

// A fault in a kubeconfig; caught in load_kubeconfig, as yaml-cpp's own exceptions are.
struct Invalid {
  std::string what;
};

// A mapping of the file with its place in it, so that every complaint can name its key.
class Section {
 public:
  Section(const YAML::Node& node, std::string place) : node_(node), place_(std::move(place)) {}

  [[nodiscard]] bool has(const std::string& key) const {
    const YAML::Node value = node_[key];
    return value.IsDefined() && !value.IsNull();
  }

  [[nodiscard]] std::string text(const std::string& key) const {
    if (!has(key)) return "";
    const YAML::Node value = node_[key];
    if (!value.IsScalar()) throw Invalid{key_place(key) + " must be a string"};
    return value.as<std::string>();
  }

  [[nodiscard]] bool flag(const std::string& key) const {
    if (!has(key)) return false;
    bool value = false;
    if (!YAML::convert<bool>::decode(node_[key], value)) {
      throw Invalid{key_place(key) + " must be true or false"};
    }
    return value;
  }

  [[nodiscard]] Section section(const std::string& key) const {
    if (!has(key)) return {YAML::Node(YAML::NodeType::Map), key_place(key)};
    if (!node_[key].IsMap()) throw Invalid{key_place(key) + " must be a mapping"};
    return {node_[key], key_place(key)};
  }

  // Elements of a sequence.
  [[nodiscard]] std::vector<YAML::Node> elements(const std::string& key) const {
    if (!has(key)) return {};
    if (!node_[key].IsSequence()) throw Invalid{key_place(key) + " must be a list"};
    return {node_[key].begin(), node_[key].end()};
  }

  // The `inner` mapping of the entry called `name` in the list `key`.
  [[nodiscard]] Section named(const std::string& key, const std::string& name,
                              const std::string& inner) const {
    for (const YAML::Node& entry : elements(key)) {
      if (!entry.IsMap()) throw Invalid{key_place(key) + " must be a list of mappings"};
      if (entry["name"].IsDefined() && entry["name"].as<std::string>("") == name) {
        return Section(entry, key_place(key) + "[" + name + "]").section(inner);
      }
    }
    throw Invalid{key_place(key) + " has no entry named \"" + name + "\""};
  }

  [[nodiscard]] std::string key_place(const std::string& key) const {
    return place_.empty() ? key : place_ + "." + key;
  }

 private:
  YAML::Node node_;
  std::string place_;
};

std::string beside(const std::string& kubeconfig, const std::string& file) {
  if (file.empty()) return "";
  return (std::filesystem::absolute(kubeconfig).parent_path() / file).lexically_normal().string();
}

// `key` is a file's name and `key`-data its content in base64, which goes first.
PemSource pem(const Section& section, const std::string& key, const std::string& path) {
  PemSource source;
  const std::string data_key = key + "-data";
  const std::string encoded = section.text(data_key);
  if (!encoded.empty()) {
    auto decoded = base64_decode(encoded);
    if (!decoded) throw Invalid{section.key_place(data_key) + " is not base64"};
    source.data = std::move(*decoded);
    return source;
  }
  source.file = beside(path, section.text(key));
  return source;
}

ExecPlugin exec_plugin(const Section& exec, const std::string& path) {
  ExecPlugin plugin;
  plugin.command = exec.text("command");
  if (plugin.command.empty()) throw Invalid{exec.key_place("command") + " is missing"};
  if (plugin.command.find('/') != std::string::npos) plugin.command = beside(path, plugin.command);
  plugin.api_version = exec.text("apiVersion");
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    throw Invalid{exec.key_place("apiVersion") + " is \"" + plugin.api_version +
                  "\"; it must be client.authentication.k8s.io/v1 or /v1beta1"};
  }
  for (const YAML::Node& arg : exec.elements("args")) {
    if (!arg.IsScalar()) throw Invalid{exec.key_place("args") + " must be a list of strings"};
    plugin.args.push_back(arg.as<std::string>());
  }
  for (const YAML::Node& entry : exec.elements("env")) {
    if (!entry.IsMap()) throw Invalid{exec.key_place("env") + " must be a list of mappings"};
    const Section variable(entry, exec.key_place("env"));
    plugin.env.emplace_back(variable.text("name"), variable.text("value"));
  }
  plugin.provide_cluster_info = exec.flag("provideClusterInfo");
  plugin.install_hint = exec.text("installHint");
  return plugin;
}

void read_cluster(const Section& cluster, const std::string& path, Config& config) {
  config.server = cluster.text("server");
  const std::string& server = config.server;
  if (server.rfind("https://", 0) != 0 && server.rfind("http://", 0) != 0) {
    throw Invalid{cluster.key_place("server") + " is \"" + server +
                  "\"; it must be a URL such as https://10.0.0.1:6443"};
  }
  while (!config.server.empty() && config.server.back() == '/') config.server.pop_back();
  config.ca = pem(cluster, "certificate-authority", path);
  config.insecure_skip_tls_verify = cluster.flag("insecure-skip-tls-verify");
  if (config.insecure_skip_tls_verify && !config.ca.empty()) {
    throw Invalid{cluster.key_place("insecure-skip-tls-verify") +
                  " is true although a certificate-authority is given; remove one of them"};
  }
  config.tls_server_name = cluster.text("tls-server-name");
  if (cluster.has("proxy-url")) {
    throw Invalid{cluster.key_place("proxy-url") + " is not supported"};
  }
}

void read_user(const Section& user, const std::string& path, Config& config) {
  for (const char* key : {"auth-provider", "username", "password"}) {
    if (user.has(key)) {
      throw Invalid{user.key_place(key) +
                    " is not supported; use client-certificate, token, tokenFile or exec"};
    }
  }
  config.client_certificate = pem(user, "client-certificate", path);
  config.client_key = pem(user, "client-key", path);
  if (config.client_certificate.empty() != config.client_key.empty()) {
    const bool key_missing = config.client_key.empty();
    throw Invalid{user.key_place(key_missing ? "client-key" : "client-certificate") +
                  " is missing: a client certificate needs both"};
  }
  config.token = user.text("token");
  config.token_file = beside(path, user.text("tokenFile"));
  if (user.has("exec")) config.exec = exec_plugin(user.section("exec"), path);
}

Config read_config(const YAML::Node& root, const std::string& path, const std::string& context) {
  if (!root.IsMap()) throw Invalid{"it is no mapping; is this a kubeconfig?"};
  const Section file(root, "");
  std::string current = context.empty() ? file.text("current-context") : context;
  if (current.empty()) throw Invalid{"current-context is not set; name a context"};

  const Section chosen = file.named("contexts", current, "context");
  Config config;
  config.source = path;
  for (const char* key : {"cluster", "user"}) {
    if (chosen.text(key).empty()) throw Invalid{chosen.key_place(key) + " is missing"};
  }
  config.cluster_name = chosen.text("cluster");
  read_cluster(file.named("clusters", chosen.text("cluster"), "cluster"), path, config);
  read_user(file.named("users", chosen.text("user"), "user"), path, config);
  if (chosen.has("namespace")) config.default_namespace = chosen.text("namespace");
  return config;
}

}  // namespace

Result<Config> load_kubeconfig(const std::string& path, const std::string& context) {
  const std::string doing = "reading kubeconfig " + path + ": ";
  try {
    return read_config(YAML::LoadFile(path), path, context);
  } catch (const Invalid& invalid) {
    return fail(ErrorCode::kInvalid, doing + invalid.what);
  } catch (const YAML::BadFile&) {
    return fail(ErrorCode::kNotFound, doing + "cannot open the file");
  } catch (const YAML::Exception& error) {
    return fail(ErrorCode::kInvalid, doing + error.what());
  }
}

}  // namespace compilecache::kube
