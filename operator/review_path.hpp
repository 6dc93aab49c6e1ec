#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "kube/client.hpp"

// The path at which API servers call the webhook: "/mutate/SECRET". Only those who may read the
// Secret or the webhook's configuration know it, so requests on it come from the API server,
// whoever else may reach the port.
//
//   ReviewPathKeeper keeper(client, {.ns = ns}, [&] { return elector.is_leader(); }, clock);
//   webhook.set_review_path([&] { return keeper.path(); });
//   keeper.start();
//
// The leader makes the Secret, once, and keeps the path in the configuration right. It changes
// nothing else there: caBundle belongs to whoever makes the certificates. Every replica reads both
// regularly, and until it has seen the path in the configuration it answers everybody
// (ReviewPath::in_force).
//
// Replicas of release 0.1 know "/mutate" alone; those that know more have kKnowsReviewPathLabel on
// their pods. As long as a pod without it runs, every replica that knows more keeps the path at
// "/mutate", marked by kOpenReviewPath:
//
//   From 0.1, by `kubectl apply`: that takes 0.1's own path away, and the first new replica that
//     starts writes it back; only pods created in between start without the cache. When the last
//     replica of 0.1 has gone, the leader writes the secret path.
//   Back to 0.1, by `kubectl apply`: that writes "/mutate". New replicas answer it as soon as they
//     look, which the first review by that path makes them do.
//   Back to 0.1, by `kubectl rollout undo`: new replicas see 0.1's first pod come, and write
//     "/mutate" before it serves.
//   Between later releases: nothing changes, the Secret stays.

namespace compilecache::controller {

// A label with any value on the pods of replicas that know the path
// (config/operator/deployment.yaml).
inline constexpr char kKnowsReviewPathLabel[] = "compilecache.dev/review-path";
// An annotation of the configuration: we wrote "/mutate" there, until all replicas know the secret
// path.
inline constexpr char kOpenReviewPath[] = "compilecache.dev/open-review-path";

struct ReviewPath {
  std::string secret;     // what follows "/mutate/"; empty: there is none (yet)
  bool in_force = false;  // the configuration has it, so API servers use no other path
};

struct ReviewPathOptions {
  std::string ns;
  std::string secret = "compilecache-review-path";
  std::string webhook_configuration = "compilecache";
};

// Thread-safe.
class ReviewPathKeeper {
 public:
  ReviewPathKeeper(kube::Client client, ReviewPathOptions options, std::function<bool()> is_leader,
                   const Clock& clock = SystemClock::instance());
  ~ReviewPathKeeper();
  ReviewPathKeeper(const ReviewPathKeeper&) = delete;
  ReviewPathKeeper& operator=(const ReviewPathKeeper&) = delete;

  // Checks regularly, in a thread of its own.
  void start();
  void stop();
  // Makes that thread check now: we have become leader, or a review came on another path. It checks
  // at most once a second.
  void look_soon();
  // Checks once. Where that fails everything stays as it was.
  Status round();
  [[nodiscard]] ReviewPath path() const;

 private:
  Result<std::string> read_secret();
  Result<std::string> make_secret();
  Result<bool> earlier_release_runs();
  Status write(const nlohmann::json& configuration, const std::string& path);
  void note(const std::string& secret, const nlohmann::json& configuration);
  bool wait(Duration time);
  void run();

  const kube::Client client_;
  const ReviewPathOptions options_;
  const std::function<bool()> is_leader_;
  const Clock& clock_;
  Mutex round_;  // one at a time
  mutable Mutex mutex_;
  CondVar changed_;
  ReviewPath path_ GUARDED_BY(mutex_);
  // The configuration has it, as far as we saw.
  std::optional<Monotonic> written_since_ GUARDED_BY(mutex_);
  bool ending_ GUARDED_BY(mutex_) = false;
  bool soon_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// The JSON Patch that gives every webhook of ours in the configuration that path. Others in the
// same configuration are left alone, and so is a path of another kind that somebody else chose,
// since a configuration that is applied from a repository would be changed back and forth. Pure.
nlohmann::json path_patch(const nlohmann::json& configuration, const std::string& service_namespace,
                          const std::string& path);

}  // namespace compilecache::controller
