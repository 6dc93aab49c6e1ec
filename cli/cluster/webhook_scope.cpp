#include "cli/cluster/webhook_scope.hpp"

#include "cli/cluster/label_match.hpp"
#include "cli/text/json_at.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr char kWebhookName[] = "pods.compilecache.dev";

// An absent selector selects all.
bool selects(const json& webhook, const char* selector, const json& labels) {
  const json& found = at(webhook, selector);
  return found.is_null() || matches_selector(found, labels);
}

}  // namespace

json webhook_among(const json& configurations) {
  for (const json& configuration : configurations) {
    for (const json& webhook : at(configuration, "/webhooks")) {
      if (text_in(webhook, "/name") != kWebhookName) continue;
      json found = webhook;
      found["configuration"] = text_in(configuration, "/metadata/name");
      return found;
    }
  }
  return {};
}

std::string why_not_sent(const json& webhook, const json& ns_labels, const json& pod_labels) {
  const std::string its =
      "the webhook's configuration (" + text_in(webhook, "/configuration") + ")";
  if (!selects(webhook, "/namespaceSelector", ns_labels)) {
    return its + " leaves out the namespace by its namespaceSelector";
  }
  if (!selects(webhook, "/objectSelector", pod_labels)) {
    return its + " leaves out pods with these labels by its objectSelector";
  }
  return "";
}

}  // namespace compilecache::cli
