#include "webhook/admission.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/base64.hpp"
#include "tests/unit/webhook/fake_cluster.hpp"

namespace compilecache::webhook {
namespace {

using nlohmann::json;
using testing::FakeCluster;
using testing::GoldenCase;
using ::testing::HasSubstr;

class Admission : public ::testing::Test {
 protected:
  json review() const {
    return {{"apiVersion", "admission.k8s.io/v1"},
            {"kind", "AdmissionReview"},
            {"request",
             {{"uid", "705ab4f5-6393-11e8-b7cc-42010a800002"},
              {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
              {"resource", {{"group", ""}, {"version", "v1"}, {"resource", "pods"}}},
              {"namespace", "ml"},
              {"operation", "CREATE"},
              {"object", golden_.pod},
              {"dryRun", false}}}};
  }

  // The response, after the checks that hold for each.
  json respond(const std::string& body) {
    answer_ = admit(body, cluster_);
    const json answer = json::parse(answer_.body);
    EXPECT_EQ(answer.at("apiVersion"), "admission.k8s.io/v1");
    EXPECT_EQ(answer.at("kind"), "AdmissionReview");
    EXPECT_EQ(answer.at("response").at("allowed"), true);
    EXPECT_EQ(answer.at("response").contains("patch"), answer.at("response").contains("patchType"));
    return answer.at("response");
  }
  json respond(const json& review) { return respond(review.dump()); }

  GoldenCase golden_ = testing::load_golden_case("deployment");
  FakeCluster cluster_{golden_};
  AdmissionAnswer answer_;
};

TEST_F(Admission, TheAnswerCarriesThePatchAndTheUid) {
  const json response = respond(review());
  EXPECT_EQ(response.at("uid"), "705ab4f5-6393-11e8-b7cc-42010a800002");
  EXPECT_EQ(response.at("patchType"), "JSONPatch");
  const json patch = json::parse(*base64_decode(response.at("patch").get<std::string>()));
  EXPECT_EQ(golden_.pod.patch(patch), *golden_.run(golden_.pod).pod);
  EXPECT_FALSE(response.contains("warnings"));
  EXPECT_EQ(answer_.report.outcome, InjectionOutcome::kInjected);
  EXPECT_EQ(answer_.cache, "transformer");
  EXPECT_EQ(answer_.ns, "ml");
  EXPECT_EQ(answer_.pod, "web-6d9f7c5b8-");
  EXPECT_EQ(answer_.owner.kind, "ReplicaSet");
  EXPECT_EQ(answer_.owner.name, "web-6d9f7c5b8");
  EXPECT_FALSE(answer_.dry_run);
}

TEST_F(Admission, ANamespaceThatOnlyTheRequestNamesCounts) {
  json without = review();
  without["request"]["object"]["metadata"].erase("namespace");
  EXPECT_TRUE(respond(without).contains("patch"));
  without["request"]["namespace"] = "other";
  EXPECT_FALSE(respond(without).contains("patch"));
  EXPECT_EQ(answer_.report.reason, api::InjectionReason::kCacheNotFound);
}

TEST_F(Admission, ASkippedPodIsAdmittedWithAWarning) {
  json unknown = review();
  unknown["request"]["object"]["metadata"]["annotations"]["compilecache.dev/cache"] = "nothing";
  const json response = respond(unknown);
  EXPECT_FALSE(response.contains("patch"));
  EXPECT_THAT(response.at("warnings").at(0).get<std::string>(),
              ::testing::AllOf(HasSubstr("cache_not_found"), HasSubstr("\"nothing\"")));
}

// The API server sends such pods to us for this alone.
TEST_F(Admission, AMisspeltKeyIsAdmittedWithTheNearMiss) {
  json misspelt = review();
  json& metadata = misspelt["request"]["object"]["metadata"];
  metadata["annotations"] = {{"compilecache.dev/cach", "transformer"}, {"other.dev/cach", "x"}};
  const json response = respond(misspelt);
  EXPECT_EQ(response.at("allowed"), true);
  EXPECT_FALSE(response.contains("patch"));
  EXPECT_EQ(
      response.at("warnings"),
      json::array(
          {"compilecache.dev/cach: no such annotation; did you mean compilecache.dev/cache?"}));
  EXPECT_EQ(answer_.report.reason, api::InjectionReason::kNotAnnotated);
}

TEST_F(Admission, ALabelInsteadOfTheAnnotationIsWarnedAbout) {
  json labelled = review();
  json& metadata = labelled["request"]["object"]["metadata"];
  metadata.erase("annotations");
  metadata["labels"] = {{"compilecache.dev/cache", "transformer"}};
  EXPECT_EQ(respond(labelled).at("warnings"),
            json::array({"compilecache.dev/cache is a label of the pod; write it as an annotation "
                         "of the pod template"}));
}

TEST_F(Admission, EightMisspeltKeysAreWarnedAboutAtMost) {
  json many = review();
  json annotations = json::object();
  for (int i = 0; i < 100; ++i) annotations["compilecache.dev/x" + std::to_string(i)] = "";
  many["request"]["object"]["metadata"]["annotations"] = annotations;
  EXPECT_EQ(respond(many).at("warnings").size(), 8U);
}

TEST_F(Admission, ALongWarningIsCutBetweenCharacters) {
  json odd = review();
  std::string name;
  for (int i = 0; i < 200; ++i) name += "\xC3\xA4";
  odd["request"]["object"]["metadata"]["annotations"]["compilecache.dev/" + name] = "x";
  const json response = respond(odd);
  const std::string warning = response.at("warnings").at(0);
  EXPECT_LE(warning.size(), 256U);
  EXPECT_EQ(warning.substr(warning.size() - 5), "\xC3\xA4...");
}

// The message goes to the log and into an Event too.
TEST_F(Admission, WhatIsQuotedIsCutBetweenCharacters) {
  std::string value = "x";
  for (int i = 0; i < 200; ++i) value += "\xC3\xA4";
  json bad_mode = review();
  bad_mode["request"]["object"]["metadata"]["annotations"]["compilecache.dev/mode"] = value;
  json bad_path = review();
  bad_path["request"]["object"]["spec"]["containers"][0]["env"].push_back(
      {{"name", "TORCHINDUCTOR_CACHE_DIR"}, {"value", value + value}});
  for (const json& odd : {bad_mode, bad_path}) {
    const std::string warning = respond(odd).at("warnings").at(0);
    EXPECT_THAT(warning, HasSubstr("\xC3\xA4\xC3\xA4\""));
    EXPECT_EQ(warning.find("\xEF\xBF\xBD"), std::string::npos) << "something was replaced";
    EXPECT_NO_THROW((void)json(answer_.report.message).dump()) << "it is no UTF-8";
  }
}

TEST_F(Admission, ADryRunIsPatchedButMarked) {
  json dry = review();
  dry["request"]["dryRun"] = true;
  EXPECT_TRUE(respond(dry).contains("patch"));
  EXPECT_TRUE(answer_.dry_run);
}

TEST_F(Admission, APodWithoutTheAnnotationIsLeftAloneInSilence) {
  json plain = review();
  plain["request"]["object"]["metadata"].erase("annotations");
  const json response = respond(plain);
  EXPECT_FALSE(response.contains("patch"));
  EXPECT_FALSE(response.contains("warnings"));
}

TEST_F(Admission, OtherKindsOperationsAndSubresourcesAreAllowed) {
  json deployment = review();
  deployment["request"]["kind"] = {{"group", "apps"}, {"version", "v1"}, {"kind", "Deployment"}};
  json update = review();
  update["request"]["operation"] = "UPDATE";
  json binding = review();
  binding["request"]["subResource"] = "binding";
  json no_object = review();
  no_object["request"].erase("object");
  json deletion = review();
  deletion["request"]["object"] = nullptr;
  json namesake = review();  // of somebody's own API
  namesake["request"]["kind"] = {{"group", "example.org"}, {"version", "v1"}, {"kind", "Pod"}};
  json service = review();
  service["request"]["kind"]["kind"] = "Service";
  for (const json& other : {deployment, update, binding, no_object, deletion, namesake, service}) {
    const json response = respond(other);
    EXPECT_FALSE(response.contains("patch"));
    EXPECT_EQ(response.at("uid"), "705ab4f5-6393-11e8-b7cc-42010a800002");
    EXPECT_EQ(answer_.report.reason, api::InjectionReason::kRequestInvalid);
  }
}

TEST_F(Admission, AnOlderReviewGetsAnAnswerOfItsVersionAndNoPatch) {
  json beta = review();
  beta["apiVersion"] = "admission.k8s.io/v1beta1";
  const json answer = json::parse(admit(beta.dump(), cluster_).body);
  EXPECT_EQ(answer.at("apiVersion"), "admission.k8s.io/v1beta1");
  EXPECT_EQ(answer.at("response").at("allowed"), true);
  EXPECT_FALSE(answer.at("response").contains("patch"));
}

TEST_F(Admission, GarbageIsAllowed) {
  const std::string whole = review().dump();
  for (const std::string& body :
       {std::string(), std::string("{"), whole.substr(0, whole.size() / 2), std::string("null"),
        std::string("[]"), std::string("\xFF\xFE{}"), std::string(1000, '['),
        std::string(200000, '['), R"({"apiVersion": 7, "request": "x"})" + std::string(),
        std::string(R"({"apiVersion": "admission.k8s.io/v1", "request": {"uid": 3}})")}) {
    EXPECT_FALSE(respond(body).contains("patch"));
    EXPECT_EQ(answer_.report.reason, api::InjectionReason::kRequestInvalid);
  }
}

TEST_F(Admission, DeepNestingInsideAPodIsRefusedWithoutHarm) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  std::string body = review().dump();
  const std::string marker = "\"MODEL\"";
  body.replace(body.find(marker), marker.size(), deep);
  EXPECT_FALSE(respond(body).contains("patch"));
}

// It may be a third of a pod; what we do to the rest does not depend on it.
TEST_F(Admission, ManagedFieldsAreNeitherReadNorTouched) {
  json with = review();
  json& pod = with["request"]["object"];
  pod["metadata"]["managedFields"] = json::array({{{"manager", "m"}, {"fieldsV1", {{"f:a", {}}}}}});
  pod["spec"]["managedFields"] = "a name like any other here";
  with["request"]["oldObject"] = {{"metadata", {{"name", "x"}}}};
  with["request"]["userInfo"] = {{"groups", {"a", "b"}}};
  with["request"]["options"] = {{"kind", "CreateOptions"}};
  const json patch = json::parse(*base64_decode(respond(with).at("patch").get<std::string>()));
  EXPECT_EQ(patch.dump().find("managedFields"), std::string::npos);
  const json patched = pod.patch(patch);
  EXPECT_EQ(patched.at("metadata").at("managedFields"), pod.at("metadata").at("managedFields"));
  EXPECT_EQ(patched.at("spec").at("managedFields"), pod.at("spec").at("managedFields"));
  golden_.pod["spec"]["managedFields"] = pod.at("spec").at("managedFields");
  json expected = *golden_.run(golden_.pod).pod;
  expected["metadata"]["managedFields"] = pod.at("metadata").at("managedFields");
  EXPECT_EQ(patched, expected);
}

TEST_F(Admission, WhatIsNotReadIsCheckedAllTheSame) {
  for (const char* odd : {"[}", "nul", "[1,]", "\"\xC0\x80\""}) {
    std::string body = review().dump();
    body.replace(body.find(R"("metadata":{)"), 12,
                 R"("metadata":{"managedFields":)" + std::string(odd) + ",");
    EXPECT_FALSE(respond(body).contains("patch")) << odd;
    EXPECT_EQ(answer_.report.reason, api::InjectionReason::kRequestInvalid) << odd;
  }
}

TEST_F(Admission, MoreValuesThanAnyPodHasAreRefused) {
  std::string many = "[";
  for (int i = 0; i < 600'000; ++i) many += "0,";
  std::string body = review().dump();
  const std::string marker = "\"MODEL\"";
  body.replace(body.find(marker), marker.size(), many + "0]");
  respond(body);
  EXPECT_THAT(answer_.report.message, HasSubstr("too many values"));
}

TEST_F(Admission, InvalidUtf8InAPodIsAllowed) {
  std::string body = review().dump();
  body.replace(body.find("small"), 2, "\xC0\x80");
  EXPECT_FALSE(respond(body).contains("patch"));
}

// A real review with a byte damaged here and there, and cut off there: always an answer that
// allows.
TEST_F(Admission, AnyDamageIsAllowed) {
  const std::string whole = review().dump();
  std::mt19937 random(7);  // NOLINT: the same damage on every run
  for (size_t i = 0; i < whole.size(); i += 7) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(random());
    respond(damaged);
    respond(whole.substr(0, i));
  }
}

}  // namespace
}  // namespace compilecache::webhook
