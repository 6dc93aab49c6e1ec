#include <gtest/gtest.h>

#include "tests/integration/operator_fixture.hpp"

// Applications that leave files which only their owner may read (vLLM's model): the savers of later
// pods run as that owner, as far as the pods admit it.

namespace compilecache::testing {
namespace {

class SaverUserTest : public OperatorTest {
 protected:
  void enforce(const std::string& level) const {
    const auto done = kubectl(
        {"label", "namespace", ns, "--overwrite", "pod-security.kubernetes.io/enforce=" + level});
    EXPECT_EQ(done.exit_code, 0) << done.err;
  }
  void tell_unreadable(const std::string& token, int64_t owner) const {
    const auto [status, answer] = process->call("POST", "/v1/effect", token,
                                                {{"cache", "transformer"},
                                                 {"save_outcome", "SUCCESS"},
                                                 {"save_reason", "unreadable"},
                                                 {"unreadable_files", 2},
                                                 {"unreadable_owner", owner}});
    EXPECT_EQ(status, 200) << answer;
  }
  json owners() const { return at(status("transformer"), "/fileOwners"); }
  // The securityContext of an injected container.
  static json security(const json& pod, const std::string& name) {
    for (const json& container : at(pod, "/spec/initContainers")) {
      if (container.at("name") == name) return container.at("securityContext");
    }
    return nullptr;
  }
  // As the webhook answers once it knows.
  bool saver_gets(const json& pod, const json& user) const {
    return eventually(seconds(20), [&] {
      const auto injected = process->injected(pod, ns);
      return injected && at(security(*injected, api::kSaverContainer), "/runAsUser") == user;
    });
  }
  json of_a_replica_set(json pod, const std::string& uid) const {
    pod["metadata"]["ownerReferences"] = json::array({{{"apiVersion", "apps/v1"},
                                                       {"kind", "ReplicaSet"},
                                                       {"name", "web-" + uid.substr(0, 4)},
                                                       {"uid", uid},
                                                       {"controller", true}}});
    return pod;
  }
  // As the controller of a ReplicaSet does.
  void tell_refused(const std::string& uid, const std::string& message) const {
    const auto now = run_process({"date", "-u", "+%Y-%m-%dT%H:%M:%SZ"}).out.substr(0, 20);
    EXPECT_EQ(apply({{"apiVersion", "v1"},
                     {"kind", "Event"},
                     {"metadata", {{"name", "refused-" + uid.substr(0, 4)}, {"namespace", ns}}},
                     {"involvedObject",
                      {{"apiVersion", "apps/v1"},
                       {"kind", "ReplicaSet"},
                       {"namespace", ns},
                       {"name", "web-" + uid.substr(0, 4)},
                       {"uid", uid}}},
                     {"reason", "FailedCreate"},
                     {"type", "Warning"},
                     {"message", message},
                     {"firstTimestamp", now},
                     {"lastTimestamp", now}}),
              "");
  }
};

TEST_F(SaverUserTest, IsLearnedFromAPodAndGivenWhereTheNextAdmitsIt) {
  make_ready_cache("transformer");
  const std::string token = run_pod("first", "transformer");
  tell_unreadable(token, int64_t{1} << 40);
  tell_unreadable(token, 0);
  ASSERT_TRUE(eventually(seconds(20), [&] { return owners().size() == 1; })) << process->log();
  EXPECT_EQ(owners()[0].at("image"), "example.com/app:1");
  EXPECT_EQ(owners()[0].at("user"), 0) << "no such user was reported before";

  enforce("baseline");
  const json next = plain_pod("next", "transformer");
  ASSERT_TRUE(saver_gets(next, 0)) << process->log();
  const json injected = *process->injected(next, ns);
  EXPECT_FALSE(security(injected, api::kLoaderContainer).contains("runAsUser"));
  EXPECT_EQ(at(security(injected, api::kSaverContainer), "/capabilities/drop"),
            json::array({"ALL"}));
  EXPECT_EQ(apply(injected), "") << "the level admits it";

  enforce("restricted");
  json strict = plain_pod("strict", "transformer");
  strict["spec"]["securityContext"] = {{"runAsNonRoot", true},
                                       {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  strict["spec"]["containers"][0]["securityContext"] = {{"allowPrivilegeEscalation", false},
                                                        {"capabilities", {{"drop", {"ALL"}}}}};
  const auto injected_strict = process->injected(strict, ns);
  ASSERT_TRUE(injected_strict);
  EXPECT_EQ(apply(*injected_strict), "") << "no pod is refused on our account";

  json named = next;
  named["spec"]["securityContext"] = {{"runAsUser", 1000}};
  EXPECT_TRUE(saver_gets(named, nullptr)) << "the pod's own is in force for it";
  json other = next;
  other["spec"]["containers"][0]["image"] = "example.com/app:2";
  EXPECT_TRUE(saver_gets(other, nullptr));
}

TEST_F(SaverUserTest, IsSaidOutrightByTheCompileCache) {
  make_ready_cache("transformer", {{"save", {{"runAsUser", 4321}}}});
  EXPECT_TRUE(saver_gets(plain_pod("next", "transformer"), 4321));
  for (const json& wrong : {json(-1), json(int64_t{1} << 31), json("root")}) {
    EXPECT_NE(make_cache("wrong", {{"save", {{"runAsUser", wrong}}}}), "") << wrong;
  }
}

TEST_F(SaverUserTest, ThatAPolicyRefusesPausesAndIsGivenNoMore) {
  const std::string web = "0b4a7b6e-0000-4000-8000-000000000000";
  const std::string other = "1b4a7b6e-0000-4000-8000-000000000000";
  const std::string message =
      "Error creating: pods \"web-\" is forbidden: unable to validate against any security context "
      "constraint: [spec.initContainers[1].securityContext.runAsUser: Invalid value: 0: must be in "
      "the ranges: [1000650000, 1000659999]]";
  make_ready_cache("transformer");
  tell_unreadable(run_pod("first", "transformer"), 0);
  const json next = of_a_replica_set(plain_pod("next", "transformer"), web);
  ASSERT_TRUE(saver_gets(next, 0)) << process->log();

  tell_refused(other, message);
  EXPECT_FALSE(becomes("transformer", "InjectionPaused", "True", seconds(5)))
      << "pods of that ReplicaSet were never injected";
  tell_refused(web, message);
  ASSERT_TRUE(becomes("transformer", "InjectionPaused", "True")) << process->log();
  const json paused = cache_condition(ns, "transformer", "InjectionPaused");
  EXPECT_EQ(paused.at("reason"), "PodsRefused");
  EXPECT_NE(paused.dump().find("must be in the ranges"), std::string::npos) << paused;
  EXPECT_TRUE(eventually(seconds(10), [&] { return !process->injected(next, ns); }))
      << "comes back without the cache";
  EXPECT_TRUE(eventually(seconds(10), [&] { return at(owners(), "/0/refused") == true; }))
      << owners();

  sweep("transformer");  // the probe
  ASSERT_TRUE(becomes("transformer", "InjectionPaused", "False")) << process->log();
  EXPECT_TRUE(saver_gets(next, nullptr)) << "with the cache again, but not with that user";
}

// A message with only the index of an init container means the injected ones at their place, which
// is not always first.
TEST_F(SaverUserTest, ThatAPolicyRefusesPausesInAMeshToo) {
  const std::string web = "0b4a7b6e-0000-4000-8000-000000000000";
  const auto message = [](int place) {
    return "pods \"web-\" is forbidden: unable to validate against any security context "
           "constraint: "
           "[spec.initContainers[" +
           std::to_string(place) + "].securityContext.runAsUser: Invalid value: 0]";
  };
  make_ready_cache("transformer");
  tell_unreadable(run_pod("first", "transformer"), 0);
  json next = of_a_replica_set(plain_pod("next", "transformer"), web);
  next["metadata"]["annotations"][api::kAfterAnnotation] = "istio-proxy";
  next["spec"]["initContainers"] = json::array(
      {{{"name", "istio-init"}, {"image", "istio/init"}},
       {{"name", "istio-proxy"}, {"image", "istio/proxy"}, {"restartPolicy", "Always"}}});
  ASSERT_TRUE(saver_gets(next, 0)) << process->log();

  tell_refused(web, message(0));
  EXPECT_FALSE(becomes("transformer", "InjectionPaused", "True", seconds(5))) << "istio-init's";
  tell_refused(web, message(3));
  EXPECT_TRUE(becomes("transformer", "InjectionPaused", "True")) << process->log();
}

}  // namespace
}  // namespace compilecache::testing
