// The examples in the headers of store/, word for word (tests/support/header_examples.py). They are
// compiled and never run.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "archive/extract/extract.hpp"
#include "archive/format.hpp"
#include "archive/write/write.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "store/access/copy.hpp"
#include "store/access/open.hpp"
#include "store/access/transfer.hpp"
#include "store/checked_blob.hpp"
#include "store/directory/directory_store.hpp"
#include "store/index.hpp"
#include "store/memory/memory_store.hpp"
#include "store/offline_index.hpp"
#include "store/registry/authorization.hpp"
#include "store/registry/challenge.hpp"
#include "store/registry/docker_config.hpp"
#include "store/registry/pushes.hpp"
#include "store/registry/reference.hpp"
#include "store/registry/refusal.hpp"
#include "store/registry/registry_client.hpp"
#include "store/registry/registry_store.hpp"
#include "store/registry/repository_use.hpp"
#include "store/registry/retries.hpp"
#include "store/registry/spool.hpp"
#include "store/signatures.hpp"
#include "store/store.hpp"
#include "store/trust/trusted_keys.hpp"
#include "store/upkeep.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::store_examples {

using namespace store;

inline void transfer(Store& store, Store& other_store, const std::string& digest) {
  export_archive(store, digest, "/tmp/llama.tar", {});
  import_archive(other_store, "/tmp/llama.tar", {});
}

inline void copy(const archive::BlobStore& from, Store& to, const std::string& digest) {
  auto copied = copy_archive(from, to, digest);
}

inline Status checked_blob(const archive::Descriptor& blob,
                           const std::unique_ptr<archive::BlobReader>& reader,
                           std::span<uint8_t> piece) {
  CheckedBlob checked(blob, *reader);
  for (uint64_t at = 0; at < blob.size; at += piece.size()) {
    piece = piece.first(std::min<uint64_t>(piece.size(), blob.size - at));
    if (auto read = checked.read_at(piece, at); !read) return read;
  }
  return {};
}

inline void directory_store(const StoreOwner& owner, const archive::WriteRequest& request) {
  DirectoryStore store("/mnt/caches/llama");
  store.prepare(owner, false);
  auto saved = archive::write_archive(store, request);
}

inline void index(const archive::WriteResult& saved, std::string text) {
  IndexEntry entry{saved.archive.manifest,
                   saved.archive.manifest_bytes,
                   {{archive::kAnnotationName, "llama-3f2a91"},
                    {archive::kAnnotationGeneration, "7"},
                    {"dev.compilecache.key.GPUProduct", "NVIDIA-H100-80GB-HBM3"}}};
  Index index = parse_index(text, "/mnt/caches/llama/index.json");
  if (put_entry(index.entries, entry)) text = index_text(index.entries);
}

inline void memory_store(const Clock& clock, const StoreOwner& owner,
                         const archive::WriteRequest& request) {
  MemoryStore store(clock);
  store.prepare(owner, false);
  auto saved = archive::write_archive(store, request);
  store.put(saved->archive.config, "not what it was");
  EXPECT_EQ(archive::verify(store, saved->archive.manifest).error().code, ErrorCode::kCorrupt);
}

inline void any_store(const std::string& path, const archive::WriteRequest& request,
                      const IndexEntry& entry) {
  const auto store = open_store(path);
  auto saved = archive::write_archive(*store, request);
  if (OfflineIndex* index = store->offline_index()) index->update_index(entry);
  if (Upkeep* upkeep = store->upkeep()) upkeep->list();
}

inline void registry_store(const archive::WriteRequest& request) {
  RegistryStore store({.host = "harbor.example.com",
                       .repository = "ml/caches/team-a/llama",
                       .docker_config_file = "/compilecache/registry/.dockerconfigjson",
                       .spool_folder = "/compilecache/cache/control"});
  auto saved = archive::write_archive(store, request);
}

inline Status registry_client(const RegistryOptions& options, const std::string& digest) {
  RegistryClient client(options);
  auto answer = client.send({.target = "manifests/" + digest, .doing = "reading " + digest});
  if (!answer) return unexpected(answer.error().error);
  return {};
}

inline void repository_use(const std::string& host, const TokenSource& tokens, bool needed,
                           const Clock& clock) {
  RegistryClient client({.host = host, .repository = "ml/llama", .tokens = tokens});
  const auto use = read_use(client);
  if (use && !needed && !use->unneeded_since) mark_unneeded(client, clock.wall());
  empty_repository(client);
}

inline Status refusal(const Unwelcome& answer) {
  const Refusal refusal = refusal_of(answer, "pushing blob sha256:...");
  if (refusal.has("MANIFEST_BLOB_UNKNOWN")) return {};
  if (refusal.may_pass()) return {};
  return unexpected(refusal.error);
}

inline Reply<void> retries(const RetryLimits& limits, const Sleeper& sleep, const Cutoff& cutoff,
                           const std::function<Reply<void>()>& push) {
  Retries retries(limits, sleep, cutoff);
  for (;;) {
    auto done = push();
    if (done || !retries.again(done.error())) return done;
  }
}

inline Status authorization(Authorization& authorization, const http::Headers& headers) {
  auto header = authorization.header(Right::kPush);
  auto renewed = authorization.renew(*header, challenges_of(headers), Right::kPush);
  if (!renewed) return renewed;
  return {};
}

inline void names(const http::Headers& headers, const std::string& text) {
  std::string realm;
  for (const Challenge& challenge : challenges_of(headers)) {
    if (challenge.scheme == "bearer") realm = challenge.parameter("realm");
  }
  const auto credentials = credentials_in(text, {"harbor.example.com", "ml/caches"});
  const auto reference = parse_reference("10.0.0.7:5000/ml/caches");
  reference->host;
  reference->repository;
}

inline void spool(std::span<const uint8_t> bytes, http::Session& session, const std::string& url) {
  Spool spool("/compilecache/cache/control", 1ULL << 30);
  auto file = spool.create();
  (*file)->write(bytes);
  const std::string digest = (*file)->finish();
  session.start({.method = "PUT", .url = url, .source = file->get()});
  spool.keep(digest, *file);
}

inline Status pushes(RegistryClient& client, const std::string& layer, const std::string& config,
                     const std::shared_ptr<SpoolFile>& file) {
  Pushes pushes(client);
  pushes.begin(layer, file);
  auto done = pushes.finish({layer, config});
  if (!done) return unexpected(done.error());
  return {};
}

inline void signature(const std::string& blob, const std::string& base64) {
  const auto of_cosign_3 = bundle_signature(blob);
  const auto of_cosign_2_and_ours = simple_signature(blob, base64);
}

inline void signatures(Store& store, const std::string& manifest) {
  if (Signatures* signatures = store.signatures()) signatures->of(manifest);
}

inline void trusted_keys(const std::vector<std::string>& public_keys, const std::string& digest,
                         const Result<std::vector<Signature>>& signatures,
                         const std::function<void(const std::string&)>& take) {
  const auto keys = TrustedKeys::parse(public_keys);
  if (keys && keys->vouch_for(digest, *signatures)) take(digest);
}

inline void upkeep(Upkeep& upkeep, const StoreOwner& owner, bool adopt,
                   const std::vector<std::string>& condemned) {
  const auto prepared = upkeep.prepare(owner, adopt);
  const auto probe = upkeep.probe();
  upkeep.remove_incomplete(std::chrono::minutes(1), probe->now);
  upkeep.remove(condemned);
}

}  // namespace compilecache::store_examples

#pragma GCC diagnostic pop
