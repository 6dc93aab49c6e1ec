#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/agent_api.hpp"
#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"

// The rules of saving, as pure functions on the archive: who may, what a save extends, what a
// commit writes. The coordinator (save_coordinator.hpp) puts them between a read and a
// compare-and-swap.

namespace compilecache::controller {

// Who asks, for what. Put together from the token, the pod and the CompileCache; nothing is the
// agent's word.
struct SaveContext {
  std::string ns, pod, pod_uid, service_account;
  std::string cache, cache_uid;        // CompileCache
  std::optional<api::StoreRef> store;  // nothing: the CompileCache keeps no archives
  api::CompileCacheSpec::Save save;
  api::ArchiveKey key;
  std::string image_id;
  // The pod runs on what it loaded from this archive, so its compile time comes on top of the
  // head's.
  bool loaded_head = false;
  std::string loaded_manifest;  // what it found in its directory at the start; empty: nothing known
  // Manifests of this CompileCache, of any key, that make pods crash.
  std::set<std::string> crashing;
  // Blobs in the same store that other archives of this CompileCache are suspect or corrupt for.
  std::set<std::string> distrusted;
  bool refresh = false;  // the pod's mode is Refresh: it may replace a head that is whole
};

// "transformer-3f9a1c04b2.17" -> archive and fence; kInvalid otherwise.
struct SaveId {
  std::string archive;
  int64_t fence = 0;
};
Result<SaveId> parse_save_id(std::string_view id);

std::string holder_uid(const api::SaveLock& lock);

// Why this pod's save will never be granted, or "": "policy_never", "service_account_not_allowed".
std::string refusal(const SaveContext& context);
// The same once the archive is known: "saved_once", "already_current", "loaded_suspect".
std::string refusal(const SaveContext& context, const api::SaveRequest& request,
                    const api::CompileCacheArchive& archive);

// Whether the save adds a layer to the head: not in mode Refresh, not when the image's tag was
// moved since, not when the head is distrusted.
bool extends_head(const SaveContext& context, const api::SaveRequest& request,
                  const api::CompileCacheArchive& archive);

// Blobs that a save has to write anew though the volume has them: they may not be what their names
// say.
std::set<std::string> blobs_to_write_anew(const api::CompileCacheArchive& archive);
// The same with those of other archives.
std::set<std::string> blobs_to_write_anew(const SaveContext& context,
                                          const api::CompileCacheArchive& archive);

// Why what a save has written must not become the head, or "": since the grant the head that it
// extends, or a blob that it names, became suspect or corrupt, or what the pod loaded turned out to
// make pods crash; or it would replace a head that is whole. `written_anew`: what it was told to
// write anew, which is whole whatever was there before.
std::string unfit(const SaveContext& context, const api::CommitRequest& request,
                  const api::CompileCacheArchive& archive,
                  const std::set<std::string>& written_anew);

// The generation that a commit under the present lock will have.
int64_t next_generation(const api::CompileCacheArchive& archive);

// Whether the message can be meant; kInvalid.
Status check_commit_request(const api::CommitRequest& request);

// What this very save committed before, when the answer was lost; nullptr: it did not.
const api::ArchiveHead* already_committed(const SaveContext& context,
                                          const api::CompileCacheArchive& archive, int64_t fence,
                                          const api::CommitRequest& request);

// The new head, the generation before it and the free lock: what the compare-and-swap writes.
void put_head(const SaveContext& context, const api::CommitRequest& request, const std::string& now,
              api::CompileCacheArchive& archive);

}  // namespace compilecache::controller
