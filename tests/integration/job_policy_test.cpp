// A thief of the operator's account can create nothing but the operator's own Jobs: each
// change of its Job is refused by the policy that config/ installs.

#include "base/strings.hpp"
#include "tests/integration/operator_fixture.hpp"

namespace compilecache::testing {
namespace {

constexpr char kAccount[] = "system:serviceaccount:compilecache-system:compilecache-operator";

// The API server's answer when the operator creates it; empty: accepted.
std::string refusal(const json& object) {
  const ProcessResult result = kubectl(
      {"create", "--dry-run=server", std::string("--as=") + kAccount, "-f", "-"}, object.dump());
  return result.exit_code == 0 ? "" : result.err;
}

class JobPolicy : public OperatorTest {
 protected:
  // The operator's own, as it would be created again.
  [[nodiscard]] json operators_job() const {
    const json real = jobs("transformer").at(0);
    json job = {{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"spec", real.at("spec")}};
    for (const char* kept : {"namespace", "labels", "annotations", "ownerReferences"}) {
      job["metadata"][kept] = real.at("metadata").at(kept);
    }
    job["metadata"]["name"] = "again";
    for (const char* made : {"selector", "suspend"}) job["spec"].erase(made);
    json& labels = job["spec"]["template"]["metadata"]["labels"];
    for (const char* made : {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid",
                             "batch.kubernetes.io/job-name"}) {
      labels.erase(made);
      job["metadata"]["labels"].erase(made);
    }
    return job;
  }
};

struct Attempt {
  const char* what;
  const char* path;  // below the Job's pod spec
  json value;
};

TEST_F(JobPolicy, TheOperatorsAccountCreatesItsJobsAndNothingElse) {
  make_ready_cache("transformer");
  const json real = operators_job();
  ASSERT_EQ(refusal(real), "") << real.dump(2);

  const json secret = {{"name", api::kStoreVolume}, {"secret", {{"secretName", "s"}}}};
  const json token = {
      {"name", api::kStoreVolume},
      {"projected", {{"sources", {{{"serviceAccountToken", {{"path", "token"}}}}}}}}};
  const json container = {{"name", "second"}, {"image", kImage}};
  json with_device = real.at("/spec/template/spec/containers/0"_json_pointer);
  with_device.erase("volumeMounts");  // not both
  with_device["volumeDevices"] = {{{"name", api::kStoreVolume}, {"devicePath", "/dev/x"}}};
  const Attempt attempts[] = {
      {"another image", "/containers/0/image", "docker.io/library/evil:1"},
      {"another command", "/containers/0/command", {"/bin/sh"}},
      {"other arguments", "/containers/0/args", {"import", "/store", "/file"}},
      {"no command of its own", "/containers/0/command", nullptr},
      {"a second container", "/containers/1", container},
      {"an init container", "/initContainers", json::array({container})},
      {"a folder of the node",
       "/volumes/0",
       {{"name", api::kStoreVolume}, {"hostPath", {{"path", "/"}}}}},
      {"a Secret", "/volumes/0", secret},
      {"a ConfigMap", "/volumes/0", {{"name", api::kStoreVolume}, {"configMap", {{"name", "c"}}}}},
      {"a token for the API server", "/volumes/0", token},
      {"another claim",
       "/volumes/0",
       {{"name", api::kStoreVolume}, {"persistentVolumeClaim", {{"claimName", "others"}}}}},
      {"a mounted account", "/automountServiceAccountToken", true},
      {"another account", "/serviceAccountName", "admin"},
      {"the node's network", "/hostNetwork", true},
      {"the node's processes", "/hostPID", true},
      {"the node's memory", "/hostIPC", true},
      {"the processes of its other containers", "/shareProcessNamespace", true},
      {"another group's files", "/securityContext/supplementalGroups", {1234}},
      {"settings of the kernel",
       "/securityContext/sysctls",
       {{{"name", "kernel.shm_rmid_forced"}, {"value", "1"}}}},
      {"a label of SELinux", "/securityContext/seLinuxOptions", {{"type", "spc_t"}}},
      {"its own label of SELinux",
       "/containers/0/securityContext/seLinuxOptions",
       {{"type", "spc_t"}}},
      {"all of /proc", "/containers/0/securityContext/procMount", "Default"},
      {"the claim as a device", "/containers/0", with_device},
      {"a command at its start",
       "/containers/0/lifecycle",
       {{"postStart", {{"exec", {{"command", {"/bin/sh"}}}}}}}},
      {"a port", "/containers/0/ports", {{{"containerPort", 80}}}},
      {"the volume's owner", "/securityContext/fsGroup", 1234},
      {"privileges",
       "/containers/0/securityContext",
       {{"privileged", true}, {"capabilities", {{"drop", {"ALL"}}}}}},
      {"more privileges later", "/containers/0/securityContext/allowPrivilegeEscalation", true},
      {"a capability", "/containers/0/securityContext/capabilities/add", {"SYS_ADMIN"}},
      {"all capabilities", "/containers/0/securityContext/capabilities/drop", json::array()},
      {"no seccomp", "/containers/0/securityContext/seccompProfile/type", "Unconfined"},
      {"a Secret's variable",
       "/containers/0/env/0",
       {{"name", "A"}, {"valueFrom", {{"secretKeyRef", {{"name", "s"}, {"key", "k"}}}}}}},
      {"a Secret's variables", "/containers/0/envFrom", {{{"secretRef", {{"name", "s"}}}}}},
  };
  for (const Attempt& attempt : attempts) {
    json job = real;
    json& spec = job["spec"]["template"]["spec"];
    const json::json_pointer path(attempt.path);
    if (attempt.value.is_null()) {
      spec[path.parent_pointer()].erase(path.back());
    } else {
      spec[path] = attempt.value;
    }
    const std::string error = refusal(job);
    EXPECT_NE(error.find("'compilecache-operator-jobs'"), std::string::npos)
        << attempt.what << ": " << error;
  }
}

// Of a registry's CompileCache the Job mounts the Secret and the ConfigMap that it names.
TEST_F(JobPolicy, OfARegistryItMountsWhatTheCompileCacheNames) {
  make_ready_cache("transformer");
  ASSERT_EQ(apply({{"apiVersion", "compilecache.dev/v1alpha1"},
                   {"kind", "CompileCache"},
                   {"metadata", {{"name", "elsewhere"}, {"namespace", ns}}},
                   {"spec",
                    {{"storage",
                      {{"registry",
                        {{"repository", "r.example.com/a"},
                         {"secretName", "robot"},
                         {"caConfigMapName", "authorities"}}},
                       {"copyFrom", {{"claimName", "old-caches"}}}}}}}}),
            "");
  json job = operators_job();
  for (json* labels :
       {&job["metadata"]["labels"], &job["spec"]["template"]["metadata"]["labels"]}) {
    (*labels)[api::kSweepLabel] = "elsewhere";
  }
  job["metadata"]["ownerReferences"][0]["name"] = "elsewhere";
  json& container = job["spec"]["template"]["spec"]["containers"][0];
  std::erase_if(container["volumeMounts"].get_ref<json::array_t&>(),
                [](const json& mount) { return mount["name"] == api::kStoreVolume; });
  json& first = job["spec"]["template"]["spec"]["volumes"][0];
  const auto answer = [&](const char* source, const char* name_field, const std::string& name) {
    first = {{"name", "compilecache-registry"}, {source, {{name_field, name}}}};
    return refusal(job);
  };
  EXPECT_EQ(answer("secret", "secretName", "robot"), "");
  EXPECT_EQ(answer("configMap", "name", "authorities"), "");
  for (const std::string& error :
       {answer("secret", "secretName", "others"), answer("configMap", "name", "others"),
        answer("persistentVolumeClaim", "claimName", "caches"),
        answer("persistentVolumeClaim", "claimName", "old-caches")}) {
    EXPECT_NE(error.find("'compilecache-operator-jobs'"), std::string::npos) << error;
  }
  first = {{"name", api::kSourceVolume},
           {"persistentVolumeClaim", {{"claimName", "old-caches"}, {"readOnly", true}}}};
  EXPECT_EQ(refusal(job), "") << "what it copies from";
  ASSERT_EQ(apply({{"apiVersion", "compilecache.dev/v1alpha1"},
                   {"kind", "CompileCache"},
                   {"metadata", {{"name", "elsewhere"}, {"namespace", ns}}},
                   {"spec",
                    {{"storage",
                      {{"registry", {{"repository", "r.example.com/a"}}},
                       {"copyFrom",
                        {{"registry",
                          {{"repository", "old.example.com/a"},
                           {"secretName", "old-robot"},
                           {"caConfigMapName", "old-authorities"}}}}}}}}}}),
            "");
  EXPECT_EQ(answer("secret", "secretName", "old-robot"), "");
  EXPECT_EQ(answer("configMap", "name", "old-authorities"), "");
  for (const std::string& error : {answer("secret", "secretName", "others"),
                                   answer("persistentVolumeClaim", "claimName", "old-caches")}) {
    EXPECT_NE(error.find("'compilecache-operator-jobs'"), std::string::npos) << error;
  }
}

// It may not change its Jobs into something else. Only some fields of a Job can be
// changed.
TEST_F(JobPolicy, ChangesAreConfinedToo) {
  make_ready_cache("transformer");
  json job = jobs("transformer").at(0);
  job["metadata"].erase("managedFields");
  job["metadata"].erase("resourceVersion");
  // It has no right to update Jobs; as if it had, the policy stands in its way.
  const std::string role = ns + "-update";
  const json metadata = {{"name", role}, {"namespace", ns}};
  ASSERT_EQ(
      apply(
          {{"apiVersion", "rbac.authorization.k8s.io/v1"},
           {"kind", "Role"},
           {"metadata", metadata},
           {"rules",
            {{{"apiGroups", {"batch"}}, {"resources", {"jobs"}}, {"verbs", {"get", "update"}}}}}}),
      "");
  ASSERT_EQ(apply({{"apiVersion", "rbac.authorization.k8s.io/v1"},
                   {"kind", "RoleBinding"},
                   {"metadata", metadata},
                   {"roleRef",
                    {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "Role"}, {"name", role}}},
                   {"subjects", json::array({{{"kind", "ServiceAccount"},
                                              {"name", "compilecache-operator"},
                                              {"namespace", "compilecache-system"}}})}}),
            "");
  const auto replace = [&](const json& object) {
    const ProcessResult result = kubectl(
        {"replace", "--dry-run=server", std::string("--as=") + kAccount, "-f", "-"}, object.dump());
    return result.exit_code == 0 ? "" : result.err;
  };
  std::string error;
  ASSERT_TRUE(eventually(seconds(15), [&] {  // until the API server knows of the role
    error = replace(job);
    return error.empty();
  })) << error;
  json for_another = job;
  for_another["metadata"]["labels"][api::kSweepLabel] = "another";
  error = replace(for_another);
  EXPECT_NE(error.find("'compilecache-operator-jobs'"), std::string::npos) << error;
}

TEST_F(JobPolicy, AJobBelongsToACompileCacheOfItsNamespace) {
  make_ready_cache("transformer");
  const json real = operators_job();
  json unowned = real;
  unowned["metadata"].erase("ownerReferences");
  json unlabelled = real;
  unlabelled["metadata"]["labels"].erase(api::kSweepLabel);
  json for_another = real;
  for_another["metadata"]["labels"][api::kSweepLabel] = "another";
  const std::string elsewhere = ns + "-else";
  make_namespace(elsewhere);
  json in_another_namespace = real;
  in_another_namespace["metadata"]["namespace"] = elsewhere;
  for (const json& job : {unowned, for_another, in_another_namespace}) {
    const std::string error = refusal(job);
    EXPECT_NE(error.find("'compilecache-operator-jobs'"), std::string::npos)
        << job["metadata"] << ": " << error;
  }
  const std::string error = refusal(unlabelled);
  EXPECT_NE(error.find("'compilecache-operator-job-label'"), std::string::npos) << error;
  kubectl({"delete", "namespace", elsewhere, "--wait=false"});
}

// An API server that finds no parameters denies before it looks at whose Job it is.
TEST_F(JobPolicy, JobsOfOthersAreCreatedAndChangedWithOrWithoutACompileCache) {
  const json job = {
      {"apiVersion", "batch/v1"},
      {"kind", "Job"},
      {"metadata", {{"name", "theirs"}}},
      {"spec",
       {{"template",
         {{"spec",
           {{"restartPolicy", "Never"},
            {"containers", {{{"name", "work"}, {"image", "example.com/work:1"}}}}}}}}}}};
  make_ready_cache("transformer");
  const std::string elsewhere = ns + "-else";
  make_namespace(elsewhere);
  for (const std::string& where : {ns, elsewhere}) {
    const auto created = kubectl({"create", "-n", where, "-f", "-"}, job.dump());
    EXPECT_EQ(created.exit_code, 0) << where << ": " << created.err;
    const auto changed = kubectl({"annotate", "job", "theirs", "-n", where, "changed=yes"});
    EXPECT_EQ(changed.exit_code, 0) << where << ": " << changed.err;
  }
  kubectl({"delete", "namespace", elsewhere, "--wait=false"});
}

// Users who may create Jobs in a namespace may give them the label, an owner and a claim.
TEST_F(JobPolicy, AJobOfSomebodyElseIsNotBelievedByTheOperator) {
  make_ready_cache("transformer");
  json forged = operators_job();
  forged["metadata"]["name"] = "forged";
  ASSERT_EQ(apply(forged), "");
  json created;
  for (const json& job : jobs("transformer")) {
    if (job.at("metadata").at("name") == "forged") created = job;
  }
  ASSERT_TRUE(created.is_object());
  const std::string token = pod_token(ns, make_sweep_pod(created));
  for (const json& message :
       {json{{"cache", "transformer"}, {"phase", "begin"}},
        json{{"cache", "transformer"}, {"phase", "end"}, {"corrupt", {"sha256:1"}}}}) {
    const auto [status, answer] = process->call("POST", "/v1/sweeps", token, message);
    EXPECT_EQ(status, 403) << answer;
  }
}

// The operator goes by the Job's uid, and a pod names its owner itself.
TEST_F(JobPolicy, OnlyTheJobControllerMakesPodsOfSweepJobs) {
  make_ready_cache("transformer");
  const std::string user = "mallory";
  // The role "edit" has nothing here: no controller manager aggregates it.
  ASSERT_EQ(kubectl({"create", "role", "edits", "-n", ns, "--verb=create,get,update,patch,delete",
                     "--resource=pods"})
                .exit_code,
            0);
  ASSERT_EQ(kubectl({"create", "rolebinding", "edits", "-n", ns, "--role=edits", "--user=" + user})
                .exit_code,
            0);
  const auto refused = [&](const std::string& as, const json& pod) {
    const ProcessResult result =
        kubectl({"create", "--dry-run=server", "--as=" + as, "-f", "-"}, pod.dump());
    return result.exit_code == 0 ? "" : result.err;
  };
  const json plain = plain_pod("pod", "transformer");
  ASSERT_TRUE(eventually(seconds(20), [&] { return refused(user, plain).empty(); }))
      << refused(user, plain);
  json forged = plain;
  forged["metadata"]["labels"][api::kSweepLabel] = "transformer";
  EXPECT_NE(refused(user, forged).find("'compilecache-operator-sweep-pods'"), std::string::npos);
  EXPECT_EQ(refused("system:serviceaccount:kube-system:job-controller", forged), "");
  ASSERT_EQ(apply(plain), "");
  const auto changed = [&](const std::string& patch) {
    const ProcessResult result =
        kubectl({"patch", "pod", "pod", "-n", ns, "--as=" + user, "--type=merge", "-p", patch});
    return result.exit_code == 0 ? "" : result.err;
  };
  EXPECT_EQ(changed(R"({"metadata": {"labels": {"mine": "yes"}}})"), "")
      << "others' pods are left alone";
  EXPECT_NE(changed(R"({"metadata": {"labels": {"compilecache.dev/sweep": "transformer"}}})")
                .find("'compilecache-operator-sweep-pods'"),
            std::string::npos);
}

TEST_F(JobPolicy, OtherKindsAreNotItsToCreate) {
  json pod = plain_pod("pod", "transformer");
  EXPECT_NE(refusal(pod).find("forbidden"), std::string::npos);
  for (const char* kind : {"pods", "deployments.apps", "cronjobs.batch", "secrets", "configmaps",
                           "serviceaccounts", "rolebindings.rbac.authorization.k8s.io",
                           "persistentvolumeclaims", "compilecaches.compilecache.dev"}) {
    const ProcessResult may =
        kubectl({"auth", "can-i", "create", kind, "-n", ns, std::string("--as=") + kAccount});
    EXPECT_EQ(trim(may.out), "no") << kind;
  }
  const ProcessResult may =
      kubectl({"auth", "can-i", "create", "jobs.batch", "-n", ns, std::string("--as=") + kAccount});
  EXPECT_EQ(trim(may.out), "yes");
}

}  // namespace
}  // namespace compilecache::testing
