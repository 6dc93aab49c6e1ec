#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/agent_api.hpp"
#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"

// The rules of saving, as pure functions on the archive: who may save, what a save extends, what a
// commit writes. The coordinator (save_coordinator.hpp) applies them between a read and a
// compare-and-swap.

namespace compilecache::controller {

// The pod that asks to save, and for which archive. All of it is known from the token, the pod and
// the CompileCache; nothing is taken from the agent's message.
struct SaveContext {
  std::string ns, pod, pod_uid, service_account;
  std::string cache, cache_uid;        // CompileCache
  std::optional<api::StoreRef> store;  // nothing: the CompileCache keeps no archives
  api::CompileCacheSpec::Save save;
  api::ArchiveKey key;
  std::string image_id;
  // The pod loaded the head of this archive, so its compile time is added to the head's.
  bool loaded_head = false;
  std::string loaded_manifest;  // the manifest that it loaded; empty: none, or not known
  // Manifests of this CompileCache, for any key, that make pods crash.
  std::set<std::string> crashing;
  // Blobs in the same store because of which other archives of this CompileCache are suspect or
  // corrupt.
  std::set<std::string> distrusted;
  // The service accounts whose files a manifest of this CompileCache may hold, by manifest, as far
  // as heads say.
  std::map<std::string, std::set<std::string>> savers;
  std::string workload;  // "Deployment/llama"
  bool refresh = false;  // the pod's mode is Refresh: it may replace a trusted head
};

// Reads "transformer-3f9a1c04b2.17" as archive and fence; kInvalid where it is no such id.
struct SaveId {
  std::string archive;
  int64_t fence = 0;
};
Result<SaveId> parse_save_id(std::string_view id);

std::string holder_uid(const api::SaveLock& lock);

// Why this pod's save will never be granted, or "": "policy_never", "service_account_not_allowed".
std::string refusal(const SaveContext& context);
// Checks once the archive is known: "saved_once", "already_current", "loaded_suspect",
// "loaded_not_allowed", or "".
std::string refusal(const SaveContext& context, const api::SaveRequest& request,
                    const api::CompileCacheArchive& archive);

// Whether the save adds a layer to the head. It does not in mode Refresh, nor after the image's tag
// has moved, nor when the head is distrusted, or holds files of a service account that may not
// save.
bool extends_head(const SaveContext& context, const api::SaveRequest& request,
                  const api::CompileCacheArchive& archive);

// Blobs that a save has to write again even where the volume has them, since their bytes may not
// match their digests.
std::set<std::string> blobs_to_write_anew(const api::CompileCacheArchive& archive);
// Those, and the distrusted ones of other archives.
std::set<std::string> blobs_to_write_anew(const SaveContext& context,
                                          const api::CompileCacheArchive& archive);

// Why what a save has written must not become the head, or "". Since the grant, the head that it
// extends or a blob that it names may have become suspect or corrupt, or the manifest that the pod
// loaded may make pods crash. Or it would replace a trusted head. `written_anew` are the blobs that
// it was asked to write again, which are whole in any case.
std::string unfit(const SaveContext& context, const api::CommitRequest& request,
                  const api::CompileCacheArchive& archive,
                  const std::set<std::string>& written_anew);

// The generation that a commit under the present lock will make.
int64_t next_generation(const api::CompileCacheArchive& archive);

// Checks that the message makes sense; kInvalid.
Status check_commit_request(const api::CommitRequest& request);

// The head that this same save committed before, when the answer was lost; nullptr where it did
// not.
const api::ArchiveHead* already_committed(const SaveContext& context,
                                          const api::CompileCacheArchive& archive, int64_t fence,
                                          const api::CommitRequest& request);

// Sets the new head and the previous one and frees the lock, for the compare-and-swap.
void put_head(const SaveContext& context, const api::CommitRequest& request, const std::string& now,
              api::CompileCacheArchive& archive);

}  // namespace compilecache::controller
