#include "cli/explain/pod_reader.hpp"

#include <algorithm>
#include <utility>

#include "api/names.hpp"
#include "cli/cluster/plain_error.hpp"
#include "cli/text/json_at.hpp"
#include "kube/json.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// The log's beginning, which has the start: an engine writes a tenth of that.
constexpr int kLogBytes = 1 << 20;
// A node that is down does not answer, and a user who may not read one log may read none.
constexpr std::chrono::seconds kLogTimeout{5};
constexpr int kUnreadLogs = 2;

void unread(PodFacts& facts, const std::string& what, const Error& error) {
  facts.unread.push_back(what + ": " + plain_error(error).message);
}

std::string cache_name(const json& pod) {
  return kube::string_at(pod, {"metadata", "annotations", api::kCacheAnnotation});
}

}  // namespace

PodReader::PodReader(kube::Client client, std::string ns)
    : client_(std::move(client)), ns_(std::move(ns)) {}

Result<PodFacts> PodReader::read(const std::string& name) {
  auto pod = client_.get(kube::resources::kPods, ns_, name);
  if (!pod) return unexpected(not_read(pod.error(), "pod", ns_, name));
  return facts_of(std::move(*pod), Depth::kAll);
}

PodFacts PodReader::facts_of(json pod, Depth depth) {
  PodFacts facts;
  facts.pod = std::move(pod);
  add_node(facts);
  add_cache(facts);
  add_events(facts, depth);
  if (depth == Depth::kAll) add_log(facts);
  return facts;
}

// An account that may list but not get, as the operator's own, finds it all the same.
Result<json> PodReader::find(const kube::Resource& resource, const std::string& ns,
                             const std::string& name, bool metadata_only) const {
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

const Result<json>& PodReader::node(const std::string& name) {
  auto known = nodes_.find(name);
  if (known == nodes_.end()) {
    known = nodes_.emplace(name, find(kube::resources::kNodes, "", name, true)).first;
  }
  return known->second;
}

void PodReader::add_node(PodFacts& facts) {
  const std::string name = kube::string_at(facts.pod, {"spec", "nodeName"});
  if (name.empty()) return;
  const auto& found = node(name);
  if (found) {
    facts.node = *found;
  } else {
    unread(facts, "node " + name + ", whose labels are part of the key", found.error());
  }
}

const PodReader::Cache& PodReader::cache(const std::string& name) {
  auto known = caches_.find(name);
  if (known == caches_.end()) known = caches_.emplace(name, read_cache(name)).first;
  return known->second;
}

PodReader::Cache PodReader::read_cache(const std::string& name) const {
  Cache read;
  const auto unreadable = [&](const std::string& what, const Error& error) {
    read.why.push_back(what + ": " + plain_error(error).message);
    return read;
  };
  const auto object = find(controller::resources::kCompileCaches, ns_, name, false);
  if (!object && object.error().code == ErrorCode::kNotFound) return read;
  read.unread = true;
  if (!object) return unreadable("CompileCache " + name, object.error());
  auto cache = api::parse_compile_cache(*object);
  if (!cache) return unreadable("CompileCache " + name, cache.error());
  read.unread = false;
  read.cache = std::move(*cache);
  // Whose an archive is its spec says; anybody may change labels.
  const auto archives = client_.list_all(controller::resources::kCompileCacheArchives, {.ns = ns_});
  if (!archives) return unreadable("the archives of CompileCache " + name, archives.error());
  for (const json& item : archives->at("items")) {
    auto archive = api::parse_archive(item);
    if (archive && archive->cache == name) read.archives.push_back(std::move(*archive));
  }
  return read;
}

void PodReader::add_cache(PodFacts& facts) {
  const std::string name = cache_name(facts.pod);
  if (name.empty()) return;
  const Cache& found = cache(name);
  facts.cache = found.cache;
  facts.archives = found.archives;
  facts.cache_unread = found.unread;
  facts.unread.insert(facts.unread.end(), found.why.begin(), found.why.end());
}

const Result<json>& PodReader::events(const std::string& name) {
  auto known = events_.find(name);
  if (known == events_.end()) {
    const kube::ListOptions about{.ns = ns_, .field_selector = "involvedObject.name=" + name};
    known = events_.emplace(name, client_.list_all(kube::resources::kEvents, about)).first;
  }
  return known->second;
}

// The webhook's word is about the owner, or about the CompileCache where there is no owner.
void PodReader::add_events(PodFacts& facts, Depth depth) {
  std::set<std::string> uids{kube::string_at(facts.pod, {"metadata", "uid"})};
  if (facts.cache) uids.insert(facts.cache->metadata.uid);
  std::set<std::string> names;
  const json& owners = at(facts.pod, "/metadata/ownerReferences");
  for (const json& owner : owners.is_array() ? owners : json::array()) {
    uids.insert(text_in(owner, "/uid"));
    names.insert(text_in(owner, "/name"));
  }
  if (depth == Depth::kAll || names.empty()) {
    names.insert(kube::string_at(facts.pod, {"metadata", "name"}));
  }
  names.insert(cache_name(facts.pod));
  names.erase("");
  for (const std::string& name : names) {
    const auto& found = events(name);
    if (!found) {
      facts.events_unread = true;
      return unread(facts, "Events, which say why a pod was not injected", found.error());
    }
    for (const json& event : found->at("items")) {
      if (uids.contains(kube::string_at(event, {"involvedObject", "uid"}))) {
        facts.events.push_back(event);
      }
    }
  }
}

void PodReader::add_log(PodFacts& facts) {
  const auto injection = api::parse_injection_status(
      kube::string_at(facts.pod, {"metadata", "annotations", api::kStatusAnnotation}));
  const std::string container =
      application_container(facts.pod, injection ? std::optional(*injection) : std::nullopt);
  if (!first_start(facts.pod, container) || unread_logs_ == kUnreadLogs) return;
  const std::string name = kube::string_at(facts.pod, {"metadata", "name"});
  auto log = client_.with_timeout(kLogTimeout, 0)
                 .raw("GET", kube::resources::kPods.path(ns_, name, "log") +
                                 "?container=" + kube::percent_encode(container) +
                                 "&timestamps=true&limitBytes=" + std::to_string(kLogBytes));
  if (log) {
    facts.log = std::move(*log);
  } else {
    ++unread_logs_;
    unread(facts, "the log of container " + container + ", which tells of an engine's start",
           log.error());
  }
}

}  // namespace compilecache::cli
