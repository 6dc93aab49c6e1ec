#include "webhook/resources.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "api/names.hpp"
#include "base/quantity.hpp"

namespace compilecache::webhook {

namespace {

constexpr const char* kResources[] = {"cpu", "memory", "ephemeral-storage"};

using Amount = std::optional<int64_t>;

Amount find(const Amounts& amounts, const std::string& resource) {
  const auto found = amounts.find(resource);
  if (found == amounts.end()) return std::nullopt;
  return found->second;
}

// The least that keeps a quota or LimitRange content where the settings say nothing: our containers
// write logs and no more to their own file systems.
Amount fallback(const std::string& resource, bool limit) {
  constexpr int64_t kMebibyte = int64_t{1024} * 1024 * 1000;
  if (resource == "ephemeral-storage") return (limit ? 256 : 16) * kMebibyte;
  return std::nullopt;
}

Amount setting(const ResourceList& list, const std::string& resource, bool limit) {
  const auto found = list.find(resource);
  if (found == list.end()) return fallback(resource, limit);
  const auto amount = parse_quantity_milli(found->second);
  return amount ? Amount(*amount) : fallback(resource, limit);
}

struct Pair {
  Amount request, limit;
};

// The room that the namespace's LimitRanges leave for one container.
class Bounds {
 public:
  Bounds(const NamespaceFacts& facts, const std::string& resource) {
    for (const LimitRule& rule : facts.limits) {
      // What keeps to the ratio by itself does not raise that of a pod which keeps to it.
      if (const auto ratio = find(rule.max_ratio, resource)) ratio_ = std::min(ratio_, *ratio);
      if (rule.for_pod) continue;
      if (const auto min = find(rule.min, resource)) min_ = std::max(min_, *min);
      if (const auto max = find(rule.max, resource)) max_ = std::min(max_, *max);
    }
  }

  [[nodiscard]] Pair fit(Pair pair) const {
    if (pair.request) pair.request = std::min(std::max(*pair.request, min_), max_);
    if (!pair.limit) return pair;
    pair.limit = std::min(std::max(*pair.limit, pair.request.value_or(min_)), max_);
    if (pair.request && ratio_ != kNone) {
      // limit / request <= ratio, which is in thousandths too.
      const double least = static_cast<double>(*pair.limit) * 1000.0 / static_cast<double>(ratio_);
      pair.request =
          std::min(*pair.limit, std::max(*pair.request, static_cast<int64_t>(std::ceil(least))));
    }
    return pair;
  }

 private:
  static constexpr int64_t kNone = INT64_MAX;
  int64_t min_ = 0;
  int64_t max_ = kNone;
  int64_t ratio_ = kNone;
};

bool applies(const Quota& quota, const Json& pod, Qos qos) {
  const Json& spec = spec_of(pod);
  for (const std::string& scope : quota.scopes) {
    const bool terminating = has_member(spec, "activeDeadlineSeconds");
    if (scope == "Terminating" && !terminating) return false;
    if (scope == "NotTerminating" && terminating) return false;
    if (scope == "BestEffort" && qos != Qos::kBestEffort) return false;
    if (scope == "NotBestEffort" && qos == Qos::kBestEffort) return false;
  }
  const auto& classes = quota.priority_classes;
  return classes.empty() || std::find(classes.begin(), classes.end(),
                                      text_member(spec, "priorityClassName")) != classes.end();
}

std::vector<ContainerAmounts> app_amounts(const Json& pod) {
  std::vector<ContainerAmounts> all;
  for (const Json& container : containers_of(pod)) all.push_back(amounts_of(container));
  return all;
}

class Planner {
 public:
  explicit Planner(const ResourceInput& input)
      : pod_(input.pod),
        qos_(qos_of(input.pod)),
        pod_level_(has_pod_level_resources(input.pod)),
        apps_(app_amounts(input.pod)),
        app_(amounts_of(container_at(input.pod, input.selection.containers.front()))),
        facts_(input.facts),
        settings_(input.settings),
        wishes_(input.wishes),
        cache_in_memory_(input.cache_in_memory),
        one_container_(input.one_container) {}

  ResourcePlan run() {
    if (qos_ == Qos::kBestEffort && !pod_level_) {
      if (wishes_ != api::AgentResources{})
        ignore("all of it", "no container of the pod has resources");
      return std::move(plan_);
    }
    for (const char* resource : kResources) {
      const Bounds bounds(facts_, resource);
      const Wish of_load = load_wish(resource);
      Wish of_save = save_wish(resource);
      if (one_container_) {
        of_save.pair.request = std::max(of_save.pair.request, of_load.pair.request);
        of_save.pair.limit = std::max(of_save.pair.limit, of_load.pair.limit);
      } else {
        write(plan_.loader, resource, bounds.fit(with_wish(loader(resource), of_load)));
      }
      write(plan_.saver, resource, bounds.fit(with_wish(saver(resource), of_save)));
    }
    if (save_wish("ephemeral-storage").pair.limit) {
      plan_.more_storage = plan_.saver.limits["ephemeral-storage"] / 1000;
    }
    return std::move(plan_);
  }

 private:
  bool guaranteed(const std::string& resource) const {
    return !pod_level_ && qos_ == Qos::kGuaranteed && (resource == "cpu" || resource == "memory");
  }

  bool every_app_container_requests(const std::string& resource) const {
    return std::all_of(apps_.begin(), apps_.end(), [&](const ContainerAmounts& amounts) {
      return amounts.requests.contains(resource);
    });
  }

  // Where the pod has resources as a whole, a quota asks for none of its containers.
  bool quota_has(const std::string& key) const {
    return !pod_level_ &&
           std::any_of(facts_.quotas.begin(), facts_.quotas.end(), [&](const Quota& quota) {
             return quota.hard.contains(key) && applies(quota, pod_, qos_);
           });
  }

  bool wants_limit(const std::string& resource) const {
    return guaranteed(resource) || quota_has("limits." + resource) ||
           std::any_of(facts_.limits.begin(), facts_.limits.end(),
                       [&](const LimitRule& rule) { return rule.demands_limit(resource); });
  }

  // A limit brings a request along: the API server would make it as large as the limit.
  bool wants_request(const std::string& resource) const {
    return wants_limit(resource) || quota_has("requests." + resource) ||
           (!pod_level_ && resource != "ephemeral-storage" &&
            every_app_container_requests(resource)) ||
           std::any_of(facts_.limits.begin(), facts_.limits.end(),
                       [&](const LimitRule& rule) { return rule.demands_request(resource); });
  }

  Pair loader(const std::string& resource) const {
    const Amount app_request = find(app_.requests, resource);
    const Amount app_limit = find(app_.limits, resource);
    if (guaranteed(resource)) return {app_limit, app_limit};
    Pair pair;
    if (!wants_request(resource)) return pair;
    pair.request = setting(settings_.loader_requests, resource, false);
    if (wants_limit(resource)) {
      if (app_limit) return {app_request, app_limit};
      pair.limit = setting(settings_.loader_limits, resource, true);
    } else if (pair.request && app_request) {
      pair.request = std::min(*pair.request, *app_request);
    }
    return pair;
  }

  Pair saver(const std::string& resource) const {
    if (guaranteed(resource)) {
      const Amount both = setting(settings_.saver_guaranteed, resource, true);
      return {both, both};
    }
    Pair pair;
    if (wants_request(resource)) pair.request = setting(settings_.saver_requests, resource, false);
    if (wants_limit(resource)) pair.limit = setting(settings_.saver_limits, resource, true);
    return pair;
  }

  // The wanted amounts of one container, as far as there is room.
  struct Wish {
    std::string resource;
    Pair pair;
    Amount usual_request;  // beside a limit
  };

  void ignore(const std::string& what, const std::string& why) {
    const std::string warning = "compilecache.dev: spec.resources or " +
                                std::string(api::kResourcesAnnotation) + ": " + what +
                                " has no effect: " + why;
    auto& all = plan_.warnings;
    if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(warning);
  }

  // A pod without limits for its disk gets one by any container's, and is evicted by it.
  bool any_app_container_limits(const std::string& resource) const {
    return std::any_of(apps_.begin(), apps_.end(), [&](const ContainerAmounts& amounts) {
      return amounts.limits.contains(resource);
    });
  }

  Wish wish_of(const std::string& container, const api::ContainerWish& wanted,
               const std::string& resource, const ResourceList& requests) {
    const auto milli = [](const std::optional<Quantity>& quantity) {
      return quantity ? Amount(quantity->milli) : Amount();
    };
    Wish wish{
        resource,
        {milli(amount_of(wanted.requests, resource)), milli(amount_of(wanted.limits, resource))},
        setting(requests, resource, false)};
    const bool of_disk = resource == "ephemeral-storage";
    if (pod_level_ && !of_disk && (wish.pair.request || wish.pair.limit)) {
      ignore("what it says of cpu and memory", "the pod has resources as a whole");
      wish.pair = {};
    }
    if (wish.pair.limit && of_disk && !any_app_container_limits(resource)) {
      ignore(container + ".limits." + resource, "it would be the limit of the pod, which has none");
      wish.pair.limit.reset();
    }
    return wish;
  }

  Wish load_wish(const std::string& resource) {
    Wish wish = wish_of("load", wishes_.load, resource, settings_.loader_requests);
    if (wish.pair.limit && resource == "memory" && cache_in_memory_) {
      ignore("load.limits.memory",
             "the cache directory is in memory, which counts as the loader's");
      wish.pair.limit.reset();
    }
    return wish;
  }
  Wish save_wish(const std::string& resource) {
    return wish_of("save", wishes_.save, resource, settings_.saver_requests);
  }

  // `usual`: without the user's amounts. A request that nobody wants is no larger than the limit,
  // and such a limit no smaller than the request.
  Pair with_wish(const Pair& usual, const Wish& wish) const {
    const auto& [request, limit] = wish.pair;
    if (!request && !limit) return usual;
    if (guaranteed(wish.resource)) {
      const Amount both = limit ? limit : std::max(usual.limit, request);
      return {both, both};
    }
    Pair pair{request ? request : usual.request, limit ? limit : usual.limit};
    if (!pair.limit) return pair;
    if (!pair.request) pair.request = wish.usual_request;
    if (limit) {
      pair.request = std::min(pair.request.value_or(*limit), *limit);
    } else {
      pair.limit = std::max(*pair.limit, *pair.request);
    }
    return pair;
  }

  static void write(ContainerAmounts& amounts, const char* resource, const Pair& pair) {
    if (pair.request) amounts.requests[resource] = *pair.request;
    if (pair.limit) amounts.limits[resource] = *pair.limit;
  }

  const Json& pod_;
  const Qos qos_;
  const bool pod_level_;
  const std::vector<ContainerAmounts> apps_;
  const ContainerAmounts app_;  // of the first that is chosen
  const NamespaceFacts& facts_;
  const InjectionSettings& settings_;
  const api::AgentResources& wishes_;
  const bool cache_in_memory_;
  const bool one_container_;
  ResourcePlan plan_;
};

struct Totals {
  ContainerAmounts before, after;

  [[nodiscard]] Pair had(const std::string& resource) const { return pair_of(before, resource); }
  [[nodiscard]] Pair have(const std::string& resource) const { return pair_of(after, resource); }

  // The amount behind a quota's key, or nothing for what it does not count here.
  [[nodiscard]] std::optional<std::pair<int64_t, int64_t>> of(const std::string& key) const {
    const size_t dot = key.find('.');
    const std::string list = key.substr(0, dot);
    if (dot == std::string::npos || (list != "requests" && list != "limits")) return std::nullopt;
    const auto member =
        list == "requests" ? &ContainerAmounts::requests : &ContainerAmounts::limits;
    const std::string resource = key.substr(dot + 1);
    return std::pair{find(before.*member, resource).value_or(0),
                     find(after.*member, resource).value_or(0)};
  }

 private:
  static Pair pair_of(const ContainerAmounts& amounts, const std::string& resource) {
    return {find(amounts.requests, resource), find(amounts.limits, resource)};
  }
};

Decided<void> check_quota(const Quota& quota, const Totals& totals) {
  for (const auto& [key, hard] : quota.hard) {
    const auto amounts = totals.of(key);
    if (!amounts) continue;
    const auto& [before, after] = *amounts;
    const int64_t room = hard - find(quota.used, key).value_or(0);
    if (before <= room && after > room) {
      return skip(api::InjectionReason::kNoRoomInQuota,
                  "ResourceQuota \"" + quota.name + "\" has no room for " + key + " of " +
                      format_amount(after - before) + " more; raise it");
    }
  }
  return {};
}

// The containers' requests together must fit into the request of the pod as a whole, and each
// limit into its limit, or the API server refuses the pod.
Decided<void> check_pod_level(const Json& pod, const std::vector<InitContainer>& ours) {
  const ContainerAmounts whole = amounts_of(spec_of(pod));
  const Amounts had = summed_amounts(pod).requests;
  for (const auto& [resource, sum] : summed_amounts(pod, ours).requests) {
    const auto request = find(whole.requests, resource);
    if (request && sum > *request && find(had, resource).value_or(0) <= *request) {
      return skip(api::InjectionReason::kNoRoomInLimitRange,
                  "the LimitRange wants requests of every container, and with the injected ones "
                  "the containers "
                  "ask for more " +
                      resource + " than the pod as a whole; raise the pod's own request");
    }
  }
  return {};
}

// Decides as kubernetes plugin/pkg/admission/limitranger does, except that a missing amount does
// not fail a rule here, so that in doubt the pod counts as accepted.
bool keeps_min(const Pair& pair, int64_t min) {
  return pair.request.value_or(min) >= min && pair.limit.value_or(min) >= min;
}
bool keeps_max(const Pair& pair, int64_t max) {
  return pair.request.value_or(0) <= max && pair.limit.value_or(0) <= max;
}
bool keeps_ratio(const Pair& pair, int64_t ratio) {
  if (pair.request.value_or(0) == 0 || pair.limit.value_or(0) == 0) return true;
  return static_cast<double>(*pair.limit) * 1000.0 <=
         static_cast<double>(ratio) * static_cast<double>(*pair.request);
}

Decided<void> check_pod_limit(const LimitRule& rule, const Totals& totals) {
  struct Bound {
    const Amounts& amounts;
    bool (*keeps)(const Pair& pair, int64_t bound);
    std::string lets;
  };
  const std::array<Bound, 3> bounds{
      {{rule.min, keeps_min, "lets a pod have no less than "},
       {rule.max, keeps_max, "lets a pod have at most "},
       {rule.max_ratio, keeps_ratio, "lets a pod's limits be no more times its requests than "}}};
  for (const Bound& bound : bounds) {
    for (const auto& [resource, value] : bound.amounts) {
      const bool fails =
          bound.keeps(totals.had(resource), value) && !bound.keeps(totals.have(resource), value);
      if (!fails) continue;
      return skip(api::InjectionReason::kNoRoomInLimitRange,
                  "the LimitRange " + bound.lets + format_amount(value) + " of " + resource +
                      "; raise it, or change what the pod's own containers ask for");
    }
  }
  return {};
}

}  // namespace

ResourcePlan plan_resources(const ResourceInput& input) { return Planner(input).run(); }

Decided<void> check_room(const Json& pod, const ResourcePlan& plan, const NamespaceFacts& facts) {
  const bool pod_level = has_pod_level_resources(pod);
  if (facts.quotas.empty() && facts.limits.empty() && !pod_level) return {};
  const std::vector<InitContainer> ours{{with_defaults(plan.loader), false},
                                        {with_defaults(plan.saver), true}};
  const Totals totals{effective_amounts(pod), effective_amounts(pod, ours)};
  const Qos qos = qos_of(pod);
  for (const Quota& quota : facts.quotas) {
    if (!applies(quota, pod, qos)) continue;
    const auto room = check_quota(quota, totals);
    if (!room) return room;
  }
  if (pod_level) {
    const auto room = check_pod_level(pod, ours);
    if (!room) return room;
  }
  // Releases differ in whether overhead and the resources of the pod as a whole count here.
  const Totals containers{summed_amounts(pod), summed_amounts(pod, ours)};
  for (const LimitRule& rule : facts.limits) {
    if (!rule.for_pod) continue;
    for (const Totals* counted : {&totals, &containers}) {
      const auto room = check_pod_limit(rule, *counted);
      if (!room) return room;
    }
  }
  return {};
}

}  // namespace compilecache::webhook
