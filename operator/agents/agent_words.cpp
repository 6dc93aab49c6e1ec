#include "operator/agents/agent_words.hpp"

#include <algorithm>

#include "api/device_facts.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"

namespace compilecache::controller {
namespace {

constexpr size_t kNameLength = 100;

}  // namespace

std::string cut(const std::string& text, size_t length) {
  std::string kept(first_bytes(text, length));
  std::replace_if(
      kept.begin(), kept.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return printable(kept);
}

std::vector<std::string> cut(const std::vector<std::string>& texts, size_t count) {
  std::vector<std::string> kept;
  for (const std::string& text : texts) {
    if (kept.size() == count) break;
    kept.push_back(cut(text, kNameLength));
  }
  return kept;
}

// One that an agent of another release says in words that are not known has failed.
api::LoadOutcome load_outcome(const api::LoadedReport& report) {
  if (!report.outcome || report.outcome == api::Outcome::kError) return api::LoadOutcome::kFailed;
  if (report.outcome != api::Outcome::kSuccess) return api::LoadOutcome::kMissing;
  return report.match == api::Match::kCompatible ? api::LoadOutcome::kCompatible
                                                 : api::LoadOutcome::kExact;
}

std::string wait_word(const std::string& said) {
  for (const char* known : {"waiting_for_first", "too_many_loads", "gpu_product_unknown",
                            api::kDeviceNotPublished, "operator_unreachable"}) {
    if (said == known) return said;
  }
  return "";
}

std::string key_text(const api::ArchiveKey& key) {
  std::vector<std::string> parts;
  for (const auto& [part, value] : key) parts.push_back(printable(part + "=" + value));
  return join(parts, ", ");
}

std::string compiled_anew(const api::EffectReport& report) {
  std::string text = std::to_string(report.new_entries) + " entries were compiled again";
  if (!report.new_names.empty()) {
    text += ", " + join(cut(report.new_names, kToldNames), ", ") + " among them";
  }
  if (!report.differing.empty()) {
    text += "; what differs in the framework's key: " +
            join(cut(report.differing, kToldDiffering), ", ");
  }
  return text;
}

}  // namespace compilecache::controller
