#pragma once

#include <nlohmann/json.hpp>
#include <string>

// Which pods the API server sends to the operator's webhook.
//
//   const json webhook = webhook_among(configurations);        // null: it is not installed
//   std::string why = why_not_sent(webhook, ns_labels, pod_labels);
//
// Pure; safe from any thread.

namespace compilecache::cli {

// The webhook for pods in a list of MutatingWebhookConfigurations, with the name of its
// configuration as the member "configuration"; null where there is none.
nlohmann::json webhook_among(const nlohmann::json& configurations);

// Why pods with these labels, in a namespace with those, are not sent there, as a clause; empty:
// they are.
std::string why_not_sent(const nlohmann::json& webhook, const nlohmann::json& ns_labels,
                         const nlohmann::json& pod_labels);

}  // namespace compilecache::cli
