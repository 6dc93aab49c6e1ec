#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "targets.hpp"
#include "tests/unit/webhook/fake_cluster.hpp"
#include "webhook/admission.hpp"

// Inputs of the webhook: a whole AdmissionReview, and a pod inside a review that is otherwise
// as it should be.

namespace compilecache::fuzz {
namespace {

using nlohmann::json;
using webhook::testing::FakeCluster;

constexpr char kBefore[] =
    R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",)"
    R"("kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","namespace":"ml","object":)";
constexpr char kAfter[] = "}}";

const FakeCluster& cluster() {
  static const auto golden = webhook::testing::load_golden_case("deployment");
  static const FakeCluster the_cluster{golden};
  return the_cluster;
}

// The response, after what holds for each.
json response_to(const std::string& body) {
  const json answer = json::parse(webhook::admit(body, cluster()).body, nullptr, false);
  require(answer.is_object() && answer.value("kind", "") == "AdmissionReview", "an answer is JSON");
  json response = answer.at("response");
  require(response.at("allowed") == true, "no pod is refused");
  require(response.at("uid").is_string(), "the uid is a string");
  require(response.contains("patch") == response.contains("patchType"),
          "a patch comes with its type");
  return response;
}

void review(Bytes input) {
  const std::string body = text(input);
  const json response = response_to(body);
  if (!response.contains("patch")) return;
  json sent = json::parse(body);
  json& pod = sent.at("request").at("object");
  pod = pod.patch(json::parse(*base64_decode(response.at("patch").get<std::string>())));
  require(!response_to(sent.dump()).contains("patch"), "an injected pod stays as it is");
}

void admission(Bytes input) {
  review(input);
  const std::string body = kBefore + text(input) + kAfter;
  review({reinterpret_cast<const uint8_t*>(body.data()), body.size()});
}

const Registration kRegistration{{"admission", admission}};

}  // namespace
}  // namespace compilecache::fuzz
