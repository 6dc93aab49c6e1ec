#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "operator/archives/archive_client.hpp"

// The API server's CompileCacheArchives in memory: resource versions, conflicts, and faults on
// demand.

namespace compilecache::controller::test {

inline std::string digest(char fill) { return "sha256:" + std::string(64, fill); }

class FakeArchives : public ArchiveClient {
 public:
  enum class Fault { kNone, kLostRequest, kLostReply };

  // Asked before each write; may itself change archives, as another client would.
  std::function<Fault()> fault = [] { return Fault::kNone; };
  // Called for each get and list, after it was made and before it is answered.
  std::function<void()> on_get = [] {}, on_list = [] {};
  // Called for each write that happened.
  std::function<void(const api::CompileCacheArchive& before, const api::CompileCacheArchive& after)>
      on_write = [](const auto&, const auto&) {};

  Result<api::CompileCacheArchive> get(const std::string& ns, const std::string& name) override {
    const auto found = read(ns + "/" + name);
    const std::function<void()> told = on_get;
    told();
    if (!found) return fail(ErrorCode::kNotFound, "no archive " + name);
    return *found;
  }

  Result<std::vector<api::CompileCacheArchive>> list(const std::string& ns,
                                                     const std::string& cache) override {
    std::vector<api::CompileCacheArchive> found;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [key, archive] : archives) {
        if (archive.metadata.ns == ns && archive.cache == cache) found.push_back(archive);
      }
    }
    const std::function<void()> told = on_list;
    told();
    return found;
  }

  Result<api::CompileCacheArchive> create(const api::CompileCacheArchive& archive) override {
    const auto asked = fault;  // which may change
    const Fault happened = asked();
    if (happened == Fault::kLostRequest) return fail(ErrorCode::kUnavailable, "no connection");
    const std::lock_guard lock(mutex_);
    if (archives.contains(archive.metadata.key())) {
      return fail(ErrorCode::kAlreadyExists, "it is there");
    }
    api::CompileCacheArchive& created = archives[archive.metadata.key()];
    // A status is not created.
    created = {.metadata = archive.metadata,
               .cache = archive.cache,
               .cache_uid = archive.cache_uid,
               .key = archive.key,
               .store = archive.store};
    created.metadata.uid = "uid-" + std::to_string(++version_);
    created.metadata.resource_version = std::to_string(version_);
    if (happened == Fault::kLostReply) return fail(ErrorCode::kTimeout, "no answer");
    return created;
  }

  Result<api::CompileCacheArchive> update_status(const api::CompileCacheArchive& archive) override {
    const auto asked = fault;  // which may change
    const Fault happened = asked();
    if (happened == Fault::kLostRequest) return fail(ErrorCode::kUnavailable, "no connection");
    const std::lock_guard lock(mutex_);
    const auto found = archives.find(archive.metadata.key());
    if (found == archives.end()) return fail(ErrorCode::kNotFound, "it is gone");
    if (found->second.metadata.resource_version != archive.metadata.resource_version ||
        found->second.metadata.uid != archive.metadata.uid) {
      return fail(ErrorCode::kConflict, "somebody else was first");
    }
    const api::CompileCacheArchive before = found->second;
    found->second = archive;
    found->second.metadata.resource_version = std::to_string(++version_);
    on_write(before, found->second);
    if (happened == Fault::kLostReply) return fail(ErrorCode::kTimeout, "no answer");
    return found->second;
  }

  std::map<std::string, api::CompileCacheArchive> archives;  // by "namespace/name"

 private:
  std::optional<api::CompileCacheArchive> read(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = archives.find(key);
    if (found == archives.end()) return std::nullopt;
    return found->second;
  }

  std::mutex mutex_;
  uint64_t version_ = 0;
};

}  // namespace compilecache::controller::test
