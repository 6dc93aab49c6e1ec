#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "http/message.hpp"
#include "http/server.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"
#include "kube/reflector.hpp"
#include "kube/store.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/metrics/metrics.hpp"
#include "operator/pending_reviews.hpp"
#include "operator/review_path.hpp"
#include "operator/review_pool.hpp"
#include "webhook/admission.hpp"

// The webhook as every replica serves it: webhook/admission.hpp with its knowledge of the cluster
// from stores, its Events and metrics. It answers `POST /mutate/SECRET`, a path that only API
// servers know; where there is none (ReviewPath), `POST /mutate`, and then writes no Event on the
// word of a review alone. Where API servers present a certificate
// (docs/run/api-server-certificates.md), that counts instead of the path.
//
//   WebhookService webhook(client, stores.caches, settings, events, metrics, clock);
//   webhook.start();   // watches LimitRanges and ResourceQuotas
//   webhook.handle(std::move(request), std::move(respond));   // in the server's handler
//
// Thread-safe. handle() queues the request for a thread of its own (operator/review_pool.hpp),
// which answers from memory. A review that cannot be answered before the API server gives up is
// answered with the pod left alone: kTookTooLong. A review of a pod whose CompileCache is not there
// yet, or was not looked at yet, is held for up to half of the API server's timeout
// (operator/pending_reviews.hpp), unless it is large.

namespace compilecache::controller {

class WebhookService : public webhook::AdmissionCluster {
 public:
  WebhookService(kube::Client client, const kube::Store<api::CompileCache>& caches,
                 webhook::InjectionSettings settings, kube::EventSink& events, Metrics& metrics,
                 const Clock& clock, int threads = 4);

  void start();
  void stop();
  [[nodiscard]] bool synced() const;
  // Whether reviews wait for so long that another replica should get them.
  [[nodiscard]] bool overloaded() const;
  // Whether a thread has worked on one review for so long that it will never end.
  [[nodiscard]] bool stuck() const;

  void handle(http::Request request, http::Responder respond);

  // `path` is called for each review. By default there is no secret path, and a request may come
  // from anyone. `refused` is called when a review came on another path, since the configuration
  // may have changed. Set it before anything is handled.
  void set_review_path(
      std::function<ReviewPath()> path, std::function<void()> refused = [] {}) {
    review_path_ = std::move(path);
    refused_ = std::move(refused);
  }

  // From now on a review is answered only on a connection with a trusted certificate
  // (http::ServerOptions::client_ca): 401 without any, 403 with another. Set before anything is
  // handled.
  void require_client_certificates() { needs_certificate_ = true; }

  // Sets the CA that agents of pods injected from now on trust.
  void set_ca(const std::string& bundle);
  // Where pods injected from now on find the installation's own registry.
  void set_own_registry(const api::OwnRegistry& registry);
  // Where they find the agent API.
  void set_agent_address(const std::string& address);
  // Where any replica answers their loads; "": nowhere.
  void set_load_address(const std::string& address);
  void set_native_sidecars(bool every_kubelet_knows_them);
  // Whether pods that get their GPUs by resourceClaims can have a key.
  void set_resource_claims(bool served);

  std::shared_ptr<const api::CompileCache> cache(const std::string& ns,
                                                 const std::string& name) const override;
  webhook::NamespaceFacts namespace_facts(const std::string& ns) const override;
  std::shared_ptr<const webhook::InjectionSettings> settings() const override;

 private:
  using Limits = std::vector<webhook::LimitRule>;
  void change(const std::function<void(webhook::InjectionSettings&)>& how);
  struct Review {
    http::Request request;
    http::Responder respond;
    Monotonic begin;
    bool of_api_server = false;
  };
  void add(bool is_large, const std::shared_ptr<const Review>& review, bool may_hold);
  void answer(const std::shared_ptr<const Review>& review, bool may_hold);
  [[nodiscard]] bool is_decided(const std::string& cache) const;
  void tell(const webhook::AdmissionAnswer& answer, bool of_api_server);

  std::function<ReviewPath()> review_path_;
  std::function<void()> refused_;
  bool needs_certificate_ = false;
  const kube::Store<api::CompileCache>& caches_;
  kube::EventSink& events_;
  Metrics& metrics_;
  const Clock& clock_;
  kube::Store<Limits> limits_;
  kube::Store<webhook::Quota> quotas_;
  kube::Reflector<Limits> limit_reflector_;
  kube::Reflector<webhook::Quota> quota_reflector_;
  mutable Mutex mutex_;
  std::shared_ptr<const webhook::InjectionSettings> settings_ GUARDED_BY(mutex_);
  ReviewPool pool_;  // its threads use all of the above
  PendingReviews pending_;
};

}  // namespace compilecache::controller
