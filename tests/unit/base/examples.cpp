// The examples in the headers of base/, word for word (tests/support/header_examples.py). They are
// compiled and never run.

#include <openssl/pem.h>
#include <string>
#include <vector>

#include "base/cutoff.hpp"
#include "base/error.hpp"
#include "base/free_memory.hpp"
#include "base/json_writer.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/openssl_ptr.hpp"
#include "base/p256.hpp"
#include "base/sha256.hpp"
#include "base/sha256_pair.hpp"
#include "base/shared_values.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::base_examples {

using Path = std::string;
struct Manifest {};
struct Owner {
  std::string name;
  auto operator<=>(const Owner&) const = default;
};

inline Status errors(const Path& path, const std::string& name) {
  Result<Manifest> read_manifest(const Path& path);

  auto manifest = read_manifest(path);
  if (!manifest) return unexpected(manifest.error().with("loading archive " + name));
  return {};
}

inline Status cutoff(std::chrono::milliseconds pause) {
  Cutoff cutoff;
  cutoff.set(std::chrono::steady_clock::now() + std::chrono::seconds(14));  // on any thread
  if (!cutoff.sleep(pause)) return fail(ErrorCode::kCancelled, "its time is up");
  return {};
}

class Finishing {
 public:
  Mutex mutex_;
  CondVar changed_;
  bool done_ GUARDED_BY(mutex_) = false;

  void finish() {
    const MutexLock lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  bool wait(std::chrono::seconds patience) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, patience, [this]() REQUIRES(mutex_) { return done_; });
  }
};

class Counter {
 public:
  void add() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    add_locked();
  }

 private:
  void add_locked() REQUIRES(mutex_) { ++count_; }

  Mutex mutex_;
  int count_ GUARDED_BY(mutex_) = 0;
};

inline void json_writer() {
  JsonWriter out;
  out.begin_object();
  out.field("name", "web");
  out.field("ports", std::vector<int>{80, 443});
  out.end_object();
  std::string text = out.text();
}

inline void log(const std::string& pod, int ms) {
  log_info("archive loaded", {{"pod", pod}, {"milliseconds", std::to_string(ms)}});
}

inline void openssl_ptr(const BioPtr& bio) {
  CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

inline bool p256(const std::string& pem, const std::string& message, const std::string& signature) {
  const auto key = P256PublicKey::parse(pem);
  if (key && key->has_signed(message, signature)) return true;
  return false;
}

inline void sha256(std::string_view chunk) {
  Sha256 hash;
  hash.update(chunk);
  std::string digest = hash.finish_hex();
}

inline void pair(std::span<const uint8_t> one, std::span<const uint8_t> other, Sha256& hash,
                 std::span<const uint8_t> piece, Sha256& other_hash,
                 std::span<const uint8_t> other_piece) {
  const auto [first, second] = sha256_pair(one, other);
  update_pair(hash, piece, other_hash, other_piece);
}

inline void free_memory() {
  MemoryWatch watch;
  watch.look();
}

inline void shared_values(const Owner& parsed_owner) {
  SharedValues<Owner> owners;
  std::shared_ptr<const Owner> owner = owners.get(parsed_owner);
}

}  // namespace compilecache::base_examples

#pragma GCC diagnostic pop
