#include "operator/archives/archive_registry.hpp"

#include <algorithm>
#include <vector>

#include "base/log.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "kube/resource.hpp"
#include "operator/archives/archive_trust.hpp"
#include "operator/archives/effect_counters.hpp"
#include "operator/archives/rank_records.hpp"

namespace compilecache::controller {
namespace {

constexpr api::Effect kEffects[] = {api::Effect::kFull, api::Effect::kPartial, api::Effect::kNone,
                                    api::Effect::kUnused, api::Effect::kUnknown};

Status status_of(const Result<api::CompileCacheArchive>& archive) {
  if (archive || archive.error().code == ErrorCode::kNotFound) return {};
  return unexpected(archive.error());
}

}  // namespace

ArchiveRegistry::ArchiveRegistry(ArchiveClient& archives, std::chrono::milliseconds interval,
                                 const Clock& clock)
    : archives_(archives), interval_(interval), clock_(clock) {}

void ArchiveRegistry::loaded(const std::string& ns, const std::string& archive, api::Match match) {
  const MutexLock lock(mutex_);
  Pending& pending = pending_[ns + "/" + archive];
  if (match == api::Match::kExact) ++pending.loads.exact;
  if (match == api::Match::kCompatible) ++pending.loads.compatible;
  pending.last_used = format_time(clock_.wall());
  pending.dirty = true;
}

void ArchiveRegistry::effect(const std::string& ns, const std::string& archive,
                             std::optional<api::Effect> before, api::Effect now) {
  if (before == now) return;
  const MutexLock lock(mutex_);
  Pending& pending = pending_[ns + "/" + archive];
  if (before) --counter_of(pending.effect, *before);
  ++counter_of(pending.effect, now);
  pending.dirty = true;
}

void ArchiveRegistry::ranks(const std::string& ns, const std::string& archive,
                            const std::string& member, const std::string& pod_uid,
                            const std::vector<std::string>& directories) {
  const MutexLock lock(mutex_);
  Pending& pending = pending_[ns + "/" + archive];
  pending.ranks[{member, pod_uid}] = directories;
  pending.dirty = true;
}

Result<bool> ArchiveRegistry::suspect(const std::string& ns, const std::string& archive,
                                      const std::string& digest, const std::string& reported_by) {
  bool marked = false;
  const auto written =
      modify_archive(archives_, ns, archive, [&](api::CompileCacheArchive& current) {
        marked = mark_suspect(current, digest, reported_by, format_time(clock_.wall()));
        return marked;
      });
  if (const Status status = status_of(written); !status) {
    return unexpected(status.error().with("marking an archive suspect"));
  }
  if (marked) {
    log_warn("archive is suspect", {{"reason", "corrupt_blob_reported"},
                                    {"namespace", ns},
                                    {"archive", archive},
                                    {"digest", digest},
                                    {"pod", reported_by}});
  }
  return marked;
}

Result<bool> ArchiveRegistry::crashing(const api::CompileCacheArchive& archive,
                                       const Blame& blame) {
  bool marked = false;
  const auto written = modify_archive(archives_, archive.metadata.ns, archive.metadata.name,
                                      [&](api::CompileCacheArchive& current) {
                                        marked =
                                            mark_crashing(current, blame.manifest, blame.pods,
                                                          format_time(clock_.wall()), blame.hang);
                                        return marked;
                                      });
  if (const Status status = status_of(written); !status) {
    return unexpected(status.error().with("marking an archive that makes pods crash"));
  }
  if (marked) {
    log_warn("archive is suspect", {{"reason", "pods_crashed"},
                                    {"namespace", archive.metadata.ns},
                                    {"archive", archive.metadata.name},
                                    {"manifest", blame.manifest},
                                    {"pods", join(blame.pods, ", ")}});
  }
  return marked;
}

Result<bool> ArchiveRegistry::acquitted(const api::CompileCacheArchive& archive) {
  bool marked = false;
  const auto written = modify_archive(archives_, archive.metadata.ns, archive.metadata.name,
                                      [&](api::CompileCacheArchive& current) {
                                        marked =
                                            mark_acquitted(current, format_time(clock_.wall()));
                                        return marked;
                                      });
  if (const Status status = status_of(written); !status) {
    return unexpected(status.error().with("clearing an archive of pods' crashes"));
  }
  return marked;
}

Status ArchiveRegistry::verified(const api::CompileCacheArchive& archive,
                                 const std::string& manifest) {
  return status_of(modify_archive(archives_, archive.metadata.ns, archive.metadata.name,
                                  [&](api::CompileCacheArchive& current) {
                                    return mark_verified(current, manifest,
                                                         format_time(clock_.wall()));
                                  }));
}

Status ArchiveRegistry::corrupt(const api::CompileCacheArchive& archive,
                                const std::string& manifest) {
  bool marked = false;
  const auto written =
      modify_archive(archives_, archive.metadata.ns, archive.metadata.name,
                     [&](api::CompileCacheArchive& current) {
                       marked = mark_corrupt(current, manifest, format_time(clock_.wall()));
                       return marked;
                     });
  if (marked && written) {
    log_warn("archive is corrupt", {{"reason", "verification_failed"},
                                    {"namespace", archive.metadata.ns},
                                    {"archive", archive.metadata.name},
                                    {"manifest", manifest}});
  }
  return status_of(written);
}

void ArchiveRegistry::apply(const Pending& pending, api::CompileCacheArchive& archive) {
  for (const auto& [who, directories] : pending.ranks) {
    note_ranks(who.first, who.second, directories, archive.ranks);
  }
  archive.loads.exact += pending.loads.exact;
  archive.loads.compatible += pending.loads.compatible;
  api::EffectCounters difference = pending.effect;
  for (const api::Effect effect : kEffects) {
    int64_t& counter = counter_of(archive.effect, effect);
    counter = std::max<int64_t>(0, counter + counter_of(difference, effect));
  }
  // RFC 3339 in UTC sorts by time.
  archive.last_used_time = std::max(archive.last_used_time, pending.last_used);
}

// Whether the write was done although its answer was lost: counted again it would count twice. Only
// we write what is compared.
bool ArchiveRegistry::is_written(const api::CompileCacheArchive& wanted) {
  if (wanted.metadata.name.empty()) return false;  // it could not even be read
  const auto now = archives_.get(wanted.metadata.ns, wanted.metadata.name);
  return now && now->metadata.uid == wanted.metadata.uid && now->loads == wanted.loads &&
         now->effect == wanted.effect && now->ranks == wanted.ranks &&
         now->last_used_time >= wanted.last_used_time;
}

// A write that failed is tried again with what has come since.
void ArchiveRegistry::put_back(const std::string& key, const Pending& pending) {
  const MutexLock lock(mutex_);
  Pending& now = pending_[key];
  now.loads.exact += pending.loads.exact;
  now.loads.compatible += pending.loads.compatible;
  api::EffectCounters difference = pending.effect;
  for (const api::Effect effect : kEffects) {
    counter_of(now.effect, effect) += counter_of(difference, effect);
  }
  now.last_used = std::max(now.last_used, pending.last_used);
  now.ranks.insert(pending.ranks.begin(), pending.ranks.end());  // later reports stay
  now.dirty = true;
}

void ArchiveRegistry::flush(bool all) {
  std::vector<std::pair<std::string, Pending>> due;
  {
    const MutexLock lock(mutex_);
    const Monotonic now = clock_.monotonic();
    std::erase_if(pending_, [&](const auto& item) {
      return !item.second.dirty && item.second.not_before <= now;
    });
    for (auto& [key, pending] : pending_) {
      if (!pending.dirty || (!all && pending.not_before > now)) continue;
      due.emplace_back(key, pending);
      pending = {};
      pending.not_before = now + interval_;
    }
  }
  for (const auto& [key, pending] : due) {
    const kube::NamespacedName name = kube::split_key(key);
    api::CompileCacheArchive wanted;
    const auto written = modify_archive(archives_, name.ns, name.name,
                                        [&, &used = pending](api::CompileCacheArchive& archive) {
                                          apply(used, archive);
                                          wanted = archive;
                                          return true;
                                        });
    if (written || written.error().code == ErrorCode::kNotFound || is_written(wanted)) continue;
    log_warn("an archive's use was not written; it is tried again",
             {{"reason", to_string(written.error().code)}, {"archive", key}});
    put_back(key, pending);
  }
}

}  // namespace compilecache::controller
