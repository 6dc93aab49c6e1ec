#pragma once

#include <memory>
#include <string>

#include "tests/unit/webhook/golden_case.hpp"
#include "webhook/admission.hpp"

namespace compilecache::webhook::testing {

// A cluster with a golden case's CompileCache, or none, and nothing else.
class FakeCluster : public AdmissionCluster {
 public:
  explicit FakeCluster(const GoldenCase& golden)
      : settings_(std::make_shared<InjectionSettings>(golden.settings)) {
    if (golden.cache) cache_ = std::make_shared<api::CompileCache>(*golden.cache);
  }
  std::shared_ptr<const api::CompileCache> cache(const std::string& ns,
                                                 const std::string& name) const override {
    if (cache_ && cache_->metadata.ns == ns && cache_->metadata.name == name) return cache_;
    return nullptr;
  }
  NamespaceFacts namespace_facts(const std::string& /*ns*/) const override { return {}; }
  std::shared_ptr<const InjectionSettings> settings() const override { return settings_; }

 private:
  std::shared_ptr<const api::CompileCache> cache_;
  std::shared_ptr<const InjectionSettings> settings_;
};

}  // namespace compilecache::webhook::testing
