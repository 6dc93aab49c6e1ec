// The examples in the headers of webhook/, word for word (tests/support/header_examples.py). They
// are compiled and never run.

#include <nlohmann/json.hpp>
#include <string>

#include "http/server.hpp"
#include "webhook/admission.hpp"
#include "webhook/injection.hpp"
#include "webhook/namespace_facts.hpp"
#include "webhook/patch.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::webhook::examples {

inline bool review(const http::Request& request, const http::Responder& respond,
                   const AdmissionCluster& cluster) {
  AdmissionAnswer answer = admit(request.body, cluster);
  respond({.status = 200, .body = answer.body});
  if (!answer.dry_run) return true;
  return false;
}

inline bool injection(const Json& pod, const api::CompileCache& cache, const NamespaceFacts& facts,
                      const InjectionSettings& settings) {
  auto result =
      inject({.pod = pod, .ns = "ml", .cache = &cache, .facts = facts, .settings = settings});
  if (!result.patch.empty()) return true;
  const std::string& why = result.report.message;
  return false;
}

inline void facts(const nlohmann::json& object) {
  NamespaceFacts facts;
  facts.quotas.push_back(*parse_resource_quota(object));
}

inline void patch(const Json& container, JsonDocument& pod) {
  Patch patch;
  append(patch, container, "/spec/containers/0", "env", {R"({"name":"A","value":"1"})"});
  auto applied = apply(patch_text(patch), pod, pod.GetAllocator());
}

}  // namespace compilecache::webhook::examples

#pragma GCC diagnostic pop
