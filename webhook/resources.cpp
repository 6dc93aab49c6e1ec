#include "webhook/resources.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

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

// What the namespace's LimitRanges leave for one container.
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
  Planner(const Json& pod, const Selection& selection, const NamespaceFacts& facts,
          const InjectionSettings& settings)
      : pod_(pod),
        qos_(qos_of(pod)),
        pod_level_(has_pod_level_resources(pod)),
        apps_(app_amounts(pod)),
        app_(apps_[selection.containers.front()]),
        facts_(facts),
        settings_(settings) {}

  ResourcePlan run() const {
    ResourcePlan plan;
    if (qos_ == Qos::kBestEffort && !pod_level_) return plan;
    for (const char* resource : kResources) {
      const Bounds bounds(facts_, resource);
      write(plan.loader, resource, bounds.fit(loader(resource)));
      write(plan.saver, resource, bounds.fit(saver(resource)));
    }
    return plan;
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

  static void write(ContainerAmounts& amounts, const char* resource, const Pair& pair) {
    if (pair.request) amounts.requests[resource] = *pair.request;
    if (pair.limit) amounts.limits[resource] = *pair.limit;
  }

  const Json& pod_;
  const Qos qos_;
  const bool pod_level_;
  const std::vector<ContainerAmounts> apps_;
  const ContainerAmounts& app_;  // the first that is chosen
  const NamespaceFacts& facts_;
  const InjectionSettings& settings_;
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

// What the containers ask for together must fit into what the pod asks for as a whole, and each
// limit into its limit, or the API server refuses the pod.
Decided<void> check_pod_level(const Json& pod, const std::vector<InitContainer>& ours) {
  const ContainerAmounts whole = amounts_of(spec_of(pod));
  const Amounts had = summed_amounts(pod).requests;
  for (const auto& [resource, sum] : summed_amounts(pod, ours).requests) {
    const auto request = find(whole.requests, resource);
    if (request && sum > *request && find(had, resource).value_or(0) <= *request) {
      return skip(api::InjectionReason::kNoRoomInLimitRange,
                  "the LimitRange wants requests of every container, and with ours the containers "
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

ResourcePlan plan_resources(const Json& pod, const Selection& selection,
                            const NamespaceFacts& facts, const InjectionSettings& settings) {
  return Planner(pod, selection, facts, settings).run();
}

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
