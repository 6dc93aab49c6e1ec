#include "operator/agents/fresh_archives.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

namespace compilecache::controller {
namespace {

constexpr std::chrono::seconds kLongestSilence{60};
// Each read may show that one archive more is not to be handed out.
constexpr int kMostReads = 3;

// Puts the present state of an archive in its place; false: nothing has changed.
bool put(LoadSituation& situation, const Caller& caller, const std::string& name,
         const Result<api::CompileCacheArchive>& now) {
  const auto known = std::find_if(situation.archives.begin(), situation.archives.end(),
                                  [&](const auto& one) { return one->metadata.name == name; });
  if (known == situation.archives.end()) return false;
  if (!now || now->cache_uid != caller.cache->metadata.uid) {
    situation.archives.erase(known);
    return true;
  }
  const std::string& version = now->metadata.resource_version;
  if (!version.empty() && version == (*known)->metadata.resource_version) return false;
  *known = std::make_shared<const api::CompileCacheArchive>(*now);
  return true;
}

}  // namespace

bool FreshArchives::watch_is_alive() const {
  const auto heard = parts_.heard();
  return heard && clock_.monotonic() - *heard <= kLongestSilence;
}

Status FreshArchives::confirm(const Caller& caller, LoadSituation& situation,
                              api::LoadAnswer& answer) const {
  std::string confirmed;
  for (int reads = 0; reads < kMostReads; ++reads) {
    const bool confirm = answer.decision == api::LoadDecision::kLoad && answer.archive != confirmed;
    if (!confirm || (parts_.ask == Ask::kWhenSilent && watch_is_alive())) return {};
    const std::string name = answer.archive;
    const auto now = parts_.client.get(caller.ns(), name);
    const bool answered = now || now.error().code == ErrorCode::kNotFound;
    if (!answered && watch_is_alive()) return {};
    if (!answered) {
      return fail(
          ErrorCode::kUnavailable,
          "whether archive " + name + " may still be loaded is not known: " + now.error().message);
    }
    confirmed = name;
    if (put(situation, caller, name, now)) answer = decide_load(situation);
  }
  if (answer.decision != api::LoadDecision::kLoad || answer.archive == confirmed) return {};
  return fail(ErrorCode::kUnavailable, "the archives of this CompileCache are changing; ask again");
}

}  // namespace compilecache::controller
