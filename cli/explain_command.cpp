#include "cli/explain_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "api/names.hpp"
#include "cli/pod_story.hpp"
#include "kube/client.hpp"
#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "kube/json.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// Somebody is waiting for the answer.
constexpr std::chrono::seconds kTimeout{10};
constexpr int kRetries = 2;

class Reader {
 public:
  Reader(const kube::Client& client, const std::string& ns) : client_(client), ns_(ns) {}

  Result<PodFacts> read(const std::string& name) {
    auto pod = client_.get(kube::resources::kPods, ns_, name);
    if (!pod) return unexpected(pod.error().with("reading pod " + ns_ + "/" + name));
    facts_.pod = std::move(*pod);
    read_node();
    read_cache();
    read_events();
    return std::move(facts_);
  }

 private:
  void unread(const std::string& what, const Error& error) {
    facts_.unread.push_back(what + ": " + error.message);
  }

  // Who may list but not get, as the operator's own account, finds it all the same.
  Result<json> find(const kube::Resource& resource, const std::string& ns, const std::string& name,
                    bool metadata_only) const {
    auto object = client_.get(resource, ns, name, {.metadata_only = metadata_only});
    if (object || object.error().code != ErrorCode::kForbidden) return object;
    auto listed = client_.list_all(
        resource,
        {.ns = ns, .field_selector = "metadata.name=" + name, .metadata_only = metadata_only});
    if (!listed) return object;
    json& items = listed->at("items");
    if (items.empty()) return fail(ErrorCode::kNotFound, name + " does not exist");
    return std::move(items.front());
  }

  void read_node() {
    const std::string name = kube::string_at(facts_.pod, {"spec", "nodeName"});
    if (name.empty()) return;
    auto node = find(kube::resources::kNodes, "", name, true);
    if (!node) return unread("node " + name + ", whose labels are part of the key", node.error());
    facts_.node = std::move(*node);
  }

  void read_cache() {
    const std::string name =
        kube::string_at(facts_.pod, {"metadata", "annotations", api::kCacheAnnotation});
    if (name.empty()) return;
    cache_name_ = name;
    const auto object = find(controller::resources::kCompileCaches, ns_, name, false);
    if (!object && object.error().code == ErrorCode::kNotFound) return;
    facts_.cache_unread = true;
    if (!object) return unread("CompileCache " + name, object.error());
    auto cache = api::parse_compile_cache(*object);
    if (!cache) return unread("CompileCache " + name, cache.error());
    facts_.cache_unread = false;
    facts_.cache = std::move(*cache);
    // Whose an archive is its spec says; anybody may change labels.
    const auto archives =
        client_.list_all(controller::resources::kCompileCacheArchives, {.ns = ns_});
    if (!archives) return unread("the archives of CompileCache " + name, archives.error());
    for (const json& item : archives->at("items")) {
      auto archive = api::parse_archive(item);
      if (archive && archive->cache == name) facts_.archives.push_back(std::move(*archive));
    }
  }

  // The webhook's word is about the owner, or about the CompileCache where there is no owner.
  void read_events() {
    std::set<std::string> uids{kube::string_at(facts_.pod, {"metadata", "uid"})};
    if (facts_.cache) uids.insert(facts_.cache->metadata.uid);
    std::set<std::string> names{kube::string_at(facts_.pod, {"metadata", "name"})};
    if (!cache_name_.empty()) names.insert(cache_name_);
    for (const json& owner : facts_.pod.at("metadata").value("ownerReferences", json::array())) {
      uids.insert(owner.value("uid", ""));
      names.insert(owner.value("name", ""));
    }
    for (const std::string& name : names) {
      const auto events = client_.list_all(
          kube::resources::kEvents, {.ns = ns_, .field_selector = "involvedObject.name=" + name});
      facts_.events_unread = !events.has_value();
      if (!events) return unread("Events, which say why a pod was not injected", events.error());
      for (const json& event : events->at("items")) {
        if (uids.contains(kube::string_at(event, {"involvedObject", "uid"}))) {
          facts_.events.push_back(event);
        }
      }
    }
  }

  const kube::Client& client_;
  const std::string& ns_;
  std::string cache_name_;
  PodFacts facts_;
};

}  // namespace

int run_explain(const ExplainOptions& options, std::ostream& out, std::ostream& errors) {
  const auto refuse = [&](const Error& error) {
    errors << "kubectl compilecache explain: " << error.message << "\n";
    return 1;
  };
  const auto config = kube::load_config({options.kubeconfig, options.context});
  if (!config) return refuse(config.error());
  const auto transport = kube::make_transport(*config);
  if (!transport) return refuse(transport.error());
  const kube::Client client = kube::Client(*transport).with_timeout(kTimeout, kRetries);
  const std::string& ns = options.ns.empty() ? config->default_namespace : options.ns;
  const auto facts = Reader(client, ns).read(options.pod);
  if (!facts) return refuse(facts.error());
  const PodStory story = tell_story(*facts);
  if (options.output == "json") {
    out << json_of(story).dump(2, ' ', false, json::error_handler_t::replace) << "\n";
  } else {
    out << text_of(story);
  }
  return 0;
}

}  // namespace compilecache::cli
