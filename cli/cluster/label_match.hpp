#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

// Whether objects with these labels are selected, as the API server, controllers and the scheduler
// judge it. Source: apimachinery's labels/selector.go and meta/v1/helpers.go.
//
//   matches_selector({{"matchLabels", {{"app", "web"}}}}, labels)
//
// Labels and selectors are JSON as in the objects. Pure; safe from any thread.

namespace compilecache::cli {

// A LabelSelector; an empty one selects all, null none.
bool matches_selector(const nlohmann::json& selector, const nlohmann::json& labels);

// The same as the API server's parameter labelSelector: "app=web,tier in (a,b),!canary". Empty for
// a selector of which something cannot be written so, and for one that selects all or none.
std::string selector_query(const nlohmann::json& selector);

// Requirements of node affinity, {"key", "operator", "values"}, all of which must hold: In, NotIn,
// Exists, DoesNotExist, Gt, Lt. An operator that is none of these holds for nothing.
bool matches_all(const nlohmann::json& requirements, const nlohmann::json& labels);

// The names of the labels that a LabelSelector looks at.
std::set<std::string> labels_of(const nlohmann::json& selector);

// Whether a pod of this spec may go to the node: its nodeSelector, the required part of its node
// affinity, and tolerations for the node's taints that keep pods away.
bool may_run_on(const nlohmann::json& pod_spec, const nlohmann::json& node);

}  // namespace compilecache::cli
