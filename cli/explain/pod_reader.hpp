#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/explain/pod_story.hpp"
#include "kube/client.hpp"

// Reads from the API server what there is to tell of pods of one namespace (pod_story.hpp).
//
//   PodReader reader(client, "ml");
//   auto facts = reader.read("web-1");
//   if (!facts) return unexpected(facts.error());
//
// What pods have in common (nodes, CompileCaches, Events of an owner) is read once. Objects that
// may not be read are named in `unread` of the facts. Each call blocks; each object is for one
// thread.

namespace compilecache::cli {

class PodReader {
 public:
  PodReader(kube::Client client, std::string ns);

  // The pod of that name, and all that belongs to it.
  Result<PodFacts> read(const std::string& name);

  // What belongs to a pod that was read already. `kWhy` leaves out what tells nothing but where the
  // time of its start went: its own Events and its application's log.
  enum class Depth { kWhy, kAll };
  PodFacts facts_of(nlohmann::json pod, Depth depth);

 private:
  struct Cache {
    std::optional<api::CompileCache> cache;
    std::vector<api::CompileCacheArchive> archives;
    bool unread = false;
    std::vector<std::string> why;
  };
  Result<nlohmann::json> find(const kube::Resource& resource, const std::string& ns,
                              const std::string& name, bool metadata_only) const;
  const Result<nlohmann::json>& node(const std::string& name);
  const Cache& cache(const std::string& name);
  Cache read_cache(const std::string& name) const;
  const Result<nlohmann::json>& events(const std::string& name);
  void add_node(PodFacts& facts);
  void add_cache(PodFacts& facts);
  void add_events(PodFacts& facts, Depth depth);
  void add_log(PodFacts& facts);

  const kube::Client client_;
  const std::string ns_;
  int unread_logs_ = 0;
  std::map<std::string, Result<nlohmann::json>> nodes_, events_;  // by name; of what they are about
  std::map<std::string, Cache> caches_;
};

}  // namespace compilecache::cli
