#include "operator/registry/registry_audit.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/names.hpp"
#include "base/checked_json.hpp"
#include "base/log.hpp"
#include "base/quantity.hpp"
#include "kube/json.hpp"
#include "operator/registry/registry_tokens.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

// What was read of a repository stands as long as its tags do, since saves never move one. Others
// can, so all are read anew at times.
constexpr int kReadAnew = 24;
constexpr size_t kMostNames = 20;
constexpr char kCollectContainer[] = "collect";

}  // namespace

RepositoryCare care_for(const RepositoryFacts& facts, Duration keep) {
  if (facts.needed) {
    return facts.unneeded_since ? RepositoryCare::kUnmark : RepositoryCare::kNothing;
  }
  if (!facts.unneeded_since) {
    return facts.tags == 0 ? RepositoryCare::kNothing : RepositoryCare::kMark;
  }
  // Whoever may push there can write a mark.
  if (*facts.unneeded_since > facts.now) return RepositoryCare::kMark;
  return facts.now - *facts.unneeded_since >= keep ? RepositoryCare::kEmpty
                                                   : RepositoryCare::kNothing;
}

std::optional<CollectionReport> collection_report(const json& pod) {
  const auto containers =
      pod.value("status", json::object()).value("initContainerStatuses", json::array());
  for (const json& container : containers) {
    if (container.value("name", "") != kCollectContainer) continue;
    const std::string message = kube::string_at(container, {"state", "terminated", "message"});
    const auto report = parse_json(message, "the report of the registry's collection");
    if (!report || !report->is_object()) return std::nullopt;
    CollectionReport read;
    read.collected = report->value("collected", json(false)) == json(true);
    read.set_aside = number_member(*report, "setAside").value_or(0);
    return read;
  }
  return std::nullopt;
}

RegistryHealth RegistryAudit::health() const {
  const MutexLock lock(mutex_);
  return health_;
}

Status RegistryAudit::round() {
  RegistryHealth health;
  Status done = look_at_all(health);
  auto collection = read_collection();
  const MutexLock lock(mutex_);
  if (collection) health_.collection = *collection;
  if (!collection && done) done = unexpected(collection.error());
  if (!done) {
    health_.trouble = done.error().message;
    return done;
  }
  health.audited = clock_.wall();
  health.collection = health_.collection;
  health_ = std::move(health);
  return {};
}

Status RegistryAudit::look_at_all(RegistryHealth& health) {
  const auto names = parts_.repositories.list();
  if (!names) return unexpected(names.error());
  if (round_++ % kReadAnew == 0) known_.clear();
  const std::set<std::string> there(names->begin(), names->end());
  std::erase_if(known_, [&](const auto& item) { return !there.contains(item.first); });
  Status all;
  size_t unread = 0;
  for (const std::string& name : *names) {
    if (parts_.stopped && parts_.stopped()) {
      return fail(ErrorCode::kCancelled, "looking at the registry: the operator ends");
    }
    const auto use = look_at(name, health);
    Status done = use ? care(name, *use, health) : unexpected(use.error());
    if (!use) ++unread;
    if (!done)
      log_warn("looking at a repository of the registry",
               {{"repository", name}, {"error", done.error().message}});
    // One that cannot be read hides no other.
    if (!use && unread < names->size()) continue;
    if (!done && all)
      all = unexpected(done.error().with("looking at " + name + " of the registry"));
  }
  if (unread < names->size() || names->empty()) {
    parts_.usage.audited(*names);
    health.repositories = names->size();
    health.bytes = parts_.usage.total();
  }
  return all;
}

// Where it cannot be read, what was known of it stands.
Result<store::RepositoryUse> RegistryAudit::look_at(const std::string& repository,
                                                    RegistryHealth& health) {
  const auto before = known_.find(repository);
  auto use =
      parts_.repositories.use(repository, before == known_.end() ? nullptr : &before->second);
  const size_t unreadable = use ? use->unreadable.size() : 1;
  health.unreadable += unreadable;
  if (unreadable > 0 && health.damaged.size() < kMostNames) health.damaged.push_back(repository);
  if (!use) return use;
  parts_.usage.found(repository, use->bytes);
  if (use->tags == 0) health.leftovers = true;
  known_[repository] = *use;
  return use;
}

Status RegistryAudit::care(const std::string& repository, const store::RepositoryUse& use,
                           RegistryHealth& health) {
  // Nobody is given a token for any other.
  const size_t slash = repository.find('/');
  if (slash == std::string::npos || repository.find('/', slash + 1) != std::string::npos) return {};
  const std::string ns = repository.substr(0, slash), cache = repository.substr(slash + 1);
  const RepositoryFacts facts{.needed = is_needed(ns, cache),
                              .tags = use.tags,
                              .unneeded_since = use.unneeded_since,
                              .now = clock_.wall()};
  if (!facts.needed && use.tags > 0) ++health.unneeded;
  switch (care_for(facts, parts_.keep_deleted)) {
    case RepositoryCare::kNothing:
      return {};
    case RepositoryCare::kMark:
      log_info("no CompileCache needs this repository of the registry",
               {{"repository", repository}, {"bytes", format_bytes(use.bytes)}});
      return parts_.repositories.mark_unneeded(repository, facts.now);
    case RepositoryCare::kUnmark:
      return parts_.repositories.mark_needed(repository);
    case RepositoryCare::kEmpty:
      break;
  }
  const auto there = exists(ns, cache);
  if (!there) return unexpected(there.error());
  return *there ? Status() : empty(repository, use);
}

Status RegistryAudit::empty(const std::string& repository, const store::RepositoryUse& use) {
  const auto emptied = parts_.repositories.empty(repository);
  if (!emptied) return unexpected(emptied.error());
  log_info("emptied a repository of the registry that no CompileCache needs",
           {{"reason", "unneeded"},
            {"repository", repository},
            {"tags", std::to_string(*emptied)},
            {"bytes", format_bytes(use.bytes)}});
  parts_.usage.found(repository, 0);
  if (parts_.deleted) parts_.deleted(use.bytes);
  return {};
}

// A CompileCache that keeps its archives there, or one of the namespace that copies them.
bool RegistryAudit::is_needed(const std::string& ns, const std::string& cache) const {
  const std::string repository = own_repository(ns, cache);
  const auto names_it = [&](const std::optional<api::StoreRef>& store) {
    const api::RegistryRef* registry = store ? store->registry() : nullptr;
    return registry != nullptr && registry->own && registry->repository == repository;
  };
  const auto caches = parts_.view.caches_of(ns);
  return std::any_of(caches.begin(), caches.end(), [&](const auto& one) {
    return names_it(parts_.view.store_of(*one)) || names_it(parts_.view.copy_source_of(*one));
  });
}

// Whatever our store has: one whose spec cannot be read is not in it, nor one of this very moment.
Result<bool> RegistryAudit::exists(const std::string& ns, const std::string& cache) const {
  if (parts_.view.cache(ns, cache) != nullptr) return false;  // it is elsewhere with its archives
  const auto found = parts_.client.list(resources::kCompileCaches,
                                        {.ns = ns, .field_selector = "metadata.name=" + cache});
  if (!found)
    return unexpected(found.error().with("asking whether " + ns + "/" + cache + " exists"));
  const json& items = found->at("items");
  return std::any_of(items.begin(), items.end(), [&](const json& item) {
    return kube::string_at(item, {"metadata", "name"}) == cache;
  });
}

Result<std::optional<CollectionReport>> RegistryAudit::read_collection() const {
  const auto pods = parts_.client.list(
      kube::resources::kPods,
      {.ns = parts_.ns,
       .label_selector = std::string("app.kubernetes.io/name=") + api::kRegistryService});
  if (!pods) return unexpected(pods.error().with("reading what the registry's pod says"));
  std::optional<CollectionReport> report;
  for (const json& pod : pods->at("items")) {
    if (auto said = collection_report(pod)) report = said;
  }
  return report;
}

}  // namespace compilecache::controller
