#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command_line.hpp"
#include "cli/inject/inject_command.hpp"
#include "cli/text/manifest_yaml.hpp"
#include "operator/certificates/x509.hpp"
#include "tests/support/paths.hpp"

// `kubectl compilecache inject` as its user sees it: files in, text and exit status out.

namespace compilecache::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCache[] = R"(
apiVersion: compilecache.dev/v1alpha1
kind: CompileCache
metadata: {name: transformer, namespace: ml}
spec: {storage: {claimName: compile-caches}, load: {waitForFirst: 90s}}
)";

constexpr char kTemplate[] =
    "{metadata: {labels: {app: x}, annotations: {compilecache.dev/cache: transformer}}, "
    "spec: {zuletzt: 1, containers: [{name: app, image: app:1}]}}";

std::string owner(const std::string& kind, const std::string& spec) {
  return "kind: " + kind + "\nmetadata: {name: web, namespace: ml}\nspec: " + spec + "\n";
}

class Inject : public ::testing::Test {
 protected:
  Inject() {
    std::filesystem::create_directories(folder_);
    options_.settings = testing::in_tree("config/settings.yaml");
  }
  ~Inject() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }

  // The documents that come out for this text on standard input.
  std::vector<Manifest> run(const std::string& input) {
    if (options_.files.empty()) options_.files = {"-"};
    std::istringstream in(input);
    std::ostringstream out, reports;
    status_ = run_inject(options_, in, out, reports);
    output_ = out.str();
    reports_ = reports.str();
    const auto documents = read_manifests(output_, "output");
    EXPECT_TRUE(documents) << documents.error().message;
    return documents.value_or(std::vector<Manifest>());
  }

  // The configuration of the loader in the template at `path` of the only other document.
  nlohmann::json loader_config(const std::vector<Manifest>& documents, const std::string& path) {
    const Manifest::json_pointer at(path + "/spec/initContainers/0");
    if (documents.empty() || !documents.back().contains(at)) {
      ADD_FAILURE() << "no loader at " << path << "\n" << output_ << reports_;
      return {};
    }
    const Manifest& loader = documents.back()[at];
    EXPECT_EQ(loader["name"], "compilecache-load");
    return nlohmann::json::parse(loader["env"][0]["value"].get<std::string>());
  }

  const std::string folder_ =
      std::filesystem::temp_directory_path() / ("inject_test." + std::to_string(::getpid()));
  InjectOptions options_;
  int status_ = -1;
  std::string output_, reports_;
};

TEST_F(Inject, EveryKindOfTemplateIsInjectedForItsOwner) {
  struct Case {
    std::string kind, spec, path, workload;
  };
  const std::string plain = std::string("{template: ") + kTemplate + "}";
  for (const Case& c :
       std::vector<Case>{{"Deployment", plain, "/spec/template", "Deployment/web"},
                         {"StatefulSet", plain, "/spec/template", "StatefulSet/web"},
                         {"DaemonSet", plain, "/spec/template", "DaemonSet/web"},
                         {"ReplicaSet", plain, "/spec/template", "ReplicaSet/web"},
                         {"Job", plain, "/spec/template", "Job/web"},
                         {"CronJob", std::string("{jobTemplate: {spec: ") + plain + "}}",
                          "/spec/jobTemplate/spec/template", "CronJob/web"},
                         // A resource of an operator that we know nothing about.
                         {"RayCluster", std::string("{groups: [") + plain + "]}",
                          "/spec/groups/0/template", "RayCluster/web"}}) {
    const auto documents = run(std::string(kCache) + "---\n" + owner(c.kind, c.spec));
    EXPECT_EQ(status_, 0) << c.kind;
    EXPECT_EQ(loader_config(documents, c.path)["key_basis"]["workload"], c.workload);
    EXPECT_EQ(reports_, "-: " + c.kind + " ml/web " + c.path +
                            ": injected: the loader and the saver were added to the pod\n");
    // What stood for the owner is not left behind.
    EXPECT_THAT(output_,
                AllOf(Not(HasSubstr("ownerReferences")), Not(HasSubstr("pod-template-h"))));
  }
}

TEST_F(Inject, APodIsInjectedItself) {
  const auto documents =
      run(std::string(kCache) + "---\nkind: Pod\nmetadata: {name: one, " +
          "namespace: ml, annotations: {compilecache.dev/cache: transformer}}\n" +
          "spec: {containers: [{name: app, image: app:1}]}\n");
  EXPECT_FALSE(loader_config(documents, "")["key_basis"].contains("workload"));
  EXPECT_THAT(reports_, HasSubstr("-: Pod ml/one: injected: "));
}

TEST_F(Inject, APodTemplateObjectAndAListAreLookedInto) {
  auto documents = run(std::string(kCache) + "---\nkind: PodTemplate\n" +
                       "metadata: {name: web, namespace: ml}\ntemplate: " + kTemplate + "\n");
  loader_config(documents, "/template");
  documents = run(std::string("kind: List\nitems:\n- ") + "{kind: Job, metadata: {name: web, " +
                  "namespace: ml}, spec: {template: " + kTemplate + "}}\n- " +
                  "{apiVersion: compilecache.dev/v1alpha1, kind: CompileCache, metadata: {name: " +
                  "transformer, namespace: ml}, spec: {storage: {claimName: c}}}\n");
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(loader_config(documents, "/items/0/spec/template")["key_basis"]["workload"], "Job/web");
}

TEST_F(Inject, OnlyPodsOfDeploymentsWaitForOneAnother) {
  const std::string spec = std::string("{template: ") + kTemplate + "}";
  const std::string start = std::string(kCache) + "---\n";
  const auto wait = "/load/waitForFirst"_json_pointer;
  const nlohmann::json deployment =
      loader_config(run(start + owner("Deployment", spec)), "/spec/template");
  EXPECT_EQ(deployment.value(wait, ""), "1m30s");
  const nlohmann::json job = loader_config(run(start + owner("Job", spec)), "/spec/template");
  EXPECT_FALSE(job.contains(wait)) << job;
}

TEST_F(Inject, TheRestIsPrintedAsItCame) {
  const std::string service = "kind: Service\nmetadata:\n  name: web\nspec:\n  clusterIP: None\n";
  const std::string plain = owner("Deployment",
                                  "\n  template:\n    spec:\n      containers:\n"
                                  "        - name: app\n          tty: true");
  run(service + "---\n" + plain);
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(output_, HasSubstr(service + "---\nkind: Deployment\n"));
  EXPECT_THAT(reports_, HasSubstr("No pod template has the annotation"));
}

TEST_F(Inject, WhatTheUserWroteKeepsItsOrder) {
  run(std::string(kCache) + "---\n" + owner("Job", std::string("{template: ") + kTemplate + "}"));
  EXPECT_THAT(output_, HasSubstr("      zuletzt: 1\n      containers:\n        - name: app\n"
                                 "          image: app:1\n          env:\n"));
}

TEST_F(Inject, InjectingTheOutputChangesNothing) {
  run(std::string(kCache) + "---\n" +
      owner("Deployment", std::string("{template: ") + kTemplate + "}"));
  const std::string once = output_;
  run(once);
  EXPECT_EQ(output_, once);
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(reports_, HasSubstr("unchanged: already_injected: "));
}

TEST_F(Inject, WhatIsLeftOutIsSaidAndInTheExitStatus) {
  const std::string job = owner("Job", std::string("{template: ") + kTemplate + "}");
  const auto documents = run(job);
  EXPECT_EQ(status_, 1);
  ASSERT_EQ(documents.size(), 1U);
  EXPECT_FALSE(documents[0]["spec"]["template"]["spec"].contains("initContainers"));
  EXPECT_THAT(reports_,
              HasSubstr("-: Job ml/web /spec/template: skipped: cache_not_found: there is no "
                        "CompileCache \"transformer\" in namespace \"ml\""));
  EXPECT_EQ(std::count(reports_.begin(), reports_.end(), '\n'), 1) << reports_;
}

TEST_F(Inject, LabelsThatAreNoneAreNamed) {
  std::string text = std::string(kCache) + "---\n" +
                     owner("Deployment", std::string("{template: ") + kTemplate + "}");
  const std::string labels = "{app: x}";
  text.replace(text.find(labels), labels.size(), "[1]");
  const auto documents = run(text);
  EXPECT_EQ(status_, 1);
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_FALSE(documents[1]["spec"]["template"]["spec"].contains("initContainers"));
  EXPECT_THAT(reports_, HasSubstr("skipped: request_invalid: the pod's JSON has an odd shape: "
                                  "metadata.labels is no object"));
}

TEST_F(Inject, DisabledIsAsWanted) {
  std::string text =
      std::string(kCache) + "---\n" + owner("Job", std::string("{template: ") + kTemplate + "}");
  const std::string name = "compilecache.dev/cache: transformer";
  text.replace(text.find(name), name.size(), name + ", compilecache.dev/mode: Disabled");
  run(text);
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(reports_, HasSubstr("skipped: disabled: "));
}

TEST_F(Inject, WarningsFollowTheReport) {
  std::string text =
      std::string(kCache) + "---\n" + owner("Job", std::string("{template: ") + kTemplate + "}");
  const std::string name = "compilecache.dev/cache: transformer";
  text.replace(text.find(name), name.size(), name + ", compilecache.dev/mod: ReadOnly");
  run(text);
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(reports_, HasSubstr("-: Job ml/web /spec/template: warning: compilecache.dev/mod: no "
                                  "such annotation; did you mean compilecache.dev/mode?"));
}

TEST_F(Inject, AStatusThatTheOperatorWroteCounts) {
  run(std::string(kCache) +
      "status: {conditions: [{type: StorageReady, status: 'False', message: the claim is "
      "lost}]}\n" +
      "---\n" + owner("Job", std::string("{template: ") + kTemplate + "}"));
  EXPECT_EQ(status_, 1);
  EXPECT_THAT(reports_, HasSubstr("skipped: cache_not_ready: the storage of CompileCache "
                                  "\"transformer\" is not ready: the claim is lost"));
}

TEST_F(Inject, CachesQuotasAndNamespacesComeFromTheirFiles) {
  std::string cache = kCache;
  cache.replace(cache.find("namespace: ml"), 13, "namespace: eu");
  options_.caches = {file("cache.yaml", cache)};
  std::string job = owner("Job", std::string("{template: ") + kTemplate + "}");
  job.replace(job.find(", namespace: ml"), 15, "");
  options_.ns = "eu";
  options_.agent_address = "10.0.0.9";
  const std::string ca = controller::issue_certificate({.common_name = "ca"}, {})->certificate;
  options_.agent_ca_file = file("ca.pem", ca);
  options_.image = "registry.example/compilecache:7";
  const auto config = loader_config(run(job), "/spec/template");
  EXPECT_EQ(config["operator_address"], "10.0.0.9");
  EXPECT_EQ(config["operator_ca"], ca);
  EXPECT_EQ(config["ns"], "eu");
  EXPECT_THAT(output_, AllOf(HasSubstr("image: registry.example/compilecache:7\n"),
                             Not(HasSubstr("kind: CompileCache"))));
  const std::string image = "image: app:1";
  job.replace(job.find(image), image.size(), image + ", resources: {requests: {cpu: 1995m}}");
  run(job +
      "---\n{kind: LimitRange, metadata: {name: l, namespace: eu}, "
      "spec: {limits: [{type: Pod, max: {cpu: 2}}]}}\n");
  EXPECT_EQ(status_, 1);
  EXPECT_THAT(reports_, HasSubstr("skipped: no_room_in_limit_range: "));
}

// Kinds whose pods are made from something else than a pod template.
TEST_F(Inject, AnnotationsOnAnythingElseThanATemplateAreSaidAndInTheExitStatus) {
  const std::string annotations = "annotations: {compilecache.dev/cache: transformer}";
  const std::string bare = "{metadata: {labels: {a: b}}, spec: {containers: [{name: a}]}}";
  for (const auto& [text, path] : std::vector<std::pair<std::string, std::string>>{
           {"kind: InferenceService\nspec: {predictor: {" + annotations + "}}\n",
            "/spec/predictor/annotations"},
           {"kind: Workflow\nspec: {templates: [{name: a, metadata: {" + annotations + "}}]}\n",
            "/spec/templates/0/metadata/annotations"},
           {"kind: SparkApplication\nspec: {driver: {" + annotations + "}}\n",
            "/spec/driver/annotations"},
           {"kind: Deployment\nmetadata: {name: web, " + annotations +
                "}\nspec: {template: " + bare + "}\n",
            "/metadata/annotations"}}) {
    const auto documents = run(kCache + std::string("---\n") + text);
    EXPECT_EQ(status_, 1) << text;
    EXPECT_THAT(reports_, HasSubstr(path + ": skipped: no_pod_template: ")) << text;
    EXPECT_EQ(std::count(reports_.begin(), reports_.end(), '\n'), 1) << reports_;
    EXPECT_EQ(documents, read_manifests(kCache + std::string("---\n") + text, "input").value());
  }
  // Beside a template that has it, or with mode Disabled, there is nothing to say.
  run(kCache + std::string("---\nkind: Deployment\nmetadata: {name: web, namespace: ml, ") +
      annotations + "}\nspec: {template: " + kTemplate + "}\n");
  EXPECT_EQ(status_, 0) << reports_;
  run("kind: X\nspec: {annotations: {compilecache.dev/cache: transformer, compilecache.dev/mode: "
      "Disabled}}\n");
  EXPECT_EQ(status_, 0) << reports_;
}

// Kinds of other operators that hold whole pod templates.
TEST_F(Inject, TemplatesInsideCustomResourcesAreInjected) {
  struct Case {
    std::string api_version, kind, spec;
    std::vector<std::string> paths;
  };
  const std::string t = kTemplate;
  const std::string ray =
      "{headGroupSpec: {template: " + t + "}, workerGroupSpecs: [{template: " + t + "}]}";
  const auto groups = [](const std::string& at) {
    return std::vector<std::string>{at + "/headGroupSpec/template",
                                    at + "/workerGroupSpecs/0/template"};
  };
  for (const Case& c : std::vector<Case>{
           {"ray.io/v1", "RayCluster", ray, groups("/spec")},
           {"ray.io/v1", "RayJob", "{rayClusterSpec: " + ray + "}", groups("/spec/rayClusterSpec")},
           {"ray.io/v1", "RayService", "{rayClusterConfig: " + ray + "}",
            groups("/spec/rayClusterConfig")},
           {"leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            "{leaderWorkerTemplate: {leaderTemplate: " + t + ", workerTemplate: " + t + "}}",
            {"/spec/leaderWorkerTemplate/leaderTemplate",
             "/spec/leaderWorkerTemplate/workerTemplate"}},
           {"jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "{replicatedJobs: [{name: a, template: {spec: {template: " + t + "}}}]}",
            {"/spec/replicatedJobs/0/template/spec/template"}},
           {"argoproj.io/v1alpha1", "Rollout", "{template: " + t + "}", {"/spec/template"}}}) {
    const auto documents = run(std::string(kCache) + "---\napiVersion: " + c.api_version + "\n" +
                               owner(c.kind, c.spec));
    EXPECT_EQ(status_, 0) << c.kind << reports_;
    for (const std::string& path : c.paths) {
      EXPECT_EQ(loader_config(documents, path)["key_basis"]["workload"], c.kind + "/web") << path;
    }
  }
}

// The others are left as they are, with a word whether the annotation reaches their pods.
TEST_F(Inject, CustomResourcesWithoutWholeTemplatesAreLeftWithAClearWord) {
  struct Case {
    std::string api_version, kind, metadata, spec, said;
  };
  const std::string a = "annotations: {compilecache.dev/cache: transformer}";
  const std::string reaches = "the annotation reaches its pods, and the operator's webhook";
  const std::string jobs =
      "{trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{template: "
      "{spec: {template: {metadata: {" +
      a + "}, spec: {containers: [{name: node}]}}}}}]}}}}";
  for (const Case& c : std::vector<Case>{
           {"serving.kserve.io/v1beta1", "InferenceService", "", "{predictor: {" + a + "}}",
            reaches},
           {"serving.kserve.io/v1beta1", "InferenceService", ", " + a, "{predictor: {}}", reaches},
           {"serving.kserve.io/v1alpha2", "LLMInferenceService", "", "{prefill: {" + a + "}}",
            reaches},
           {"serving.kserve.io/v1alpha2", "LLMInferenceService", ", " + a, "{replicas: 1}",
            "it belongs on spec.annotations and spec.prefill.annotations, and the operator's"},
           {"trainer.kubeflow.org/v1alpha1", "TrainJob", "", "{runtimePatches: [" + jobs + "]}",
            reaches},
           {"ray.io/v1", "RayCluster", ", " + a, "{headGroupSpec: {}}",
            "it belongs on spec.headGroupSpec.template.metadata.annotations and "},
           {"leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", ", " + a, "{replicas: 1}",
            "leaderTemplate and of workerTemplate"}}) {
    const std::string text = "apiVersion: " + c.api_version + "\nkind: " + c.kind +
                             "\nmetadata: {name: web, namespace: ml" + c.metadata +
                             "}\nspec: " + c.spec + "\n";
    const auto documents = run(std::string(kCache) + "---\n" + text);
    EXPECT_EQ(status_, 1) << text;
    EXPECT_THAT(reports_, HasSubstr("skipped: no_pod_template: ")) << text;
    EXPECT_THAT(reports_, HasSubstr(c.said)) << text;
    EXPECT_EQ(documents.back(), read_manifests(text, "input").value().front());
  }
}

TEST_F(Inject, KnativeWouldRefuseItAndStaysAsItIs) {
  const std::string service = "apiVersion: serving.knative.dev/v1\n" +
                              owner("Service", std::string("{template: ") + kTemplate + "}");
  const auto documents = run(kCache + std::string("---\n") + service);
  EXPECT_EQ(status_, 1);
  EXPECT_THAT(reports_, HasSubstr("/spec/template: skipped: no_pod_template: Knative refuses"));
  EXPECT_FALSE(documents.back()["spec"]["template"]["spec"].contains("initContainers"));
}

TEST_F(Inject, ARegistryNeedsAnOperatorAndTheInstallationsOwnItsAddress) {
  const auto in = [](const std::string& storage) {
    return "apiVersion: compilecache.dev/v1alpha1\nkind: CompileCache\n"
           "metadata: {name: transformer, namespace: ml}\nspec: {storage: " +
           storage + "}\n---\n" + owner("Deployment", "{template: " + std::string(kTemplate) + "}");
  };
  const std::string theirs =
      in("{registry: {repository: r.example.com/caches, secretName: robot}}");
  run(theirs);
  EXPECT_EQ(status_, 1);
  EXPECT_THAT(reports_, HasSubstr("--agent-address"));
  options_.agent_address = "10.0.0.9";
  const auto injected = run(theirs);
  EXPECT_EQ(status_, 0) << reports_;
  EXPECT_THAT(injected.back().dump(), HasSubstr(R"("secretName":"robot")"));
  options_.ns = "ml";  // of a CompileCache that names none
  std::string nowhere = theirs;
  nowhere.replace(nowhere.find(", namespace: ml"), std::string(", namespace: ml").size(), "");
  const auto config = loader_config(run(nowhere), "/spec/template");
  EXPECT_EQ(config["store"]["registry"]["repository"], "caches/ml/transformer");
  run(in("{}"));
  EXPECT_EQ(status_, 1);
  EXPECT_THAT(reports_, HasSubstr("install it"));
  options_.registry_address = "10.0.0.7:5000";
  EXPECT_THAT(run(in("{}")).back().dump(),
              HasSubstr("compilecache-registry.compilecache-system.svc:5000"));
  EXPECT_EQ(status_, 0) << reports_;
}

TEST_F(Inject, OptionsThatNoPodCouldUseAreRefused) {
  const std::string job =
      std::string(kCache) + "---\n" + owner("Job", std::string("{template: ") + kTemplate + "}");
  const InjectOptions good = options_;
  const auto refusal = [&] {
    EXPECT_TRUE(run(job).empty());
    EXPECT_EQ(status_, 2);
    return reports_;
  };
  for (const char* image : {"a b", "registry.example/", "x:y:z", "-x", "a\nb", "Registry/UPPER"}) {
    options_ = good;
    options_.image = image;
    EXPECT_THAT(refusal(), HasSubstr("--agent-image: ")) << image;
  }
  for (const char* address : {"operator.svc", "10.0.0", "10.0.0.1:443", "$(X)", "[::1]"}) {
    options_ = good;
    options_.agent_address = address;
    EXPECT_THAT(refusal(), HasSubstr("--agent-address: ")) << address;
  }
  for (const char* address : {"10.0.0.7", "registry:5000", "10.0.0.7:", "[::g]:5000", "::1:5000"}) {
    options_ = good;
    options_.registry_address = address;
    EXPECT_THAT(refusal(), HasSubstr("--registry-address: ")) << address;
  }
  const std::string ca = controller::issue_certificate({.common_name = "ca"}, {})->certificate;
  for (const std::string& pem : {std::string(), std::string("the CA"), ca.substr(0, 90),
                                 ca + ca.substr(0, 90) + "\n-----END CERTIFICATE-----\n"}) {
    options_ = good;
    options_.agent_address = "10.0.0.1";
    options_.agent_ca_file = file("ca.pem", pem);
    EXPECT_THAT(refusal(), HasSubstr("--agent-ca: ")) << pem;
  }
  for (const char* image : {"app", "localhost:5000/a/b_c/d-e:1.0", "r.example/a@sha256:"}) {
    options_ = good;
    options_.image = image;
    if (options_.image.ends_with(':')) options_.image += std::string(64, 'a');
    run(job);
    EXPECT_EQ(status_, 0) << reports_;
  }
}

TEST_F(Inject, NestingBeyondAnyManifestIsRefused) {
  for (const auto& [open, close] : {std::pair{"{\"a\":", "}"}, {"[", "]"}}) {
    std::string text = "{\"kind\":";
    for (int i = 0; i < 20'000; ++i) text += open;
    text += "1";
    for (int i = 0; i < 20'000; ++i) text += close;
    EXPECT_TRUE(run(text + "}").empty());
    EXPECT_EQ(status_, 2);
    EXPECT_THAT(reports_, HasSubstr("nested too deeply"));
  }
}

TEST_F(Inject, FoldersAreReadWholeAndInTheOrderOfTheirNames) {
  file("all/b/job.yml", owner("Job", std::string("{template: ") + kTemplate + "}"));
  file("all/a.json", R"({"kind": "First"})");
  file("all/c.yaml", kCache);
  file("all/README.md", "not: [a, manifest");
  options_.files = {folder_ + "/all"};
  const auto documents = run("");
  EXPECT_EQ(status_, 0) << reports_;
  ASSERT_EQ(documents.size(), 3U);
  EXPECT_EQ(documents[0]["kind"], "First");
  EXPECT_EQ(documents[1]["kind"], "Job");
  EXPECT_THAT(reports_, HasSubstr(folder_ + "/all/b/job.yml: Job ml/web"));
}

TEST_F(Inject, WithoutSettingsThoseOfTheReleaseAreTaken) {
  options_.settings.clear();
  const auto documents = run(std::string(kCache) + "---\n" +
                             owner("Deployment", "{template: " + std::string(kTemplate) + "}"));
  EXPECT_EQ(status_, 0) << reports_;
  EXPECT_FALSE(loader_config(documents, "/spec/template").empty());
}

TEST_F(Inject, WhatCannotBeReadPrintsNothing) {
  options_.files = {"-", folder_ + "/missing.yaml"};
  EXPECT_TRUE(run("kind: A\n").empty());
  EXPECT_EQ(status_, 2);
  EXPECT_THAT(reports_, AllOf(HasSubstr("missing.yaml"), HasSubstr("No such file")));
  options_.files = {"-"};
  EXPECT_TRUE(run("kind: [A\n").empty());
  EXPECT_EQ(status_, 2);
  EXPECT_TRUE(run("{apiVersion: compilecache.dev/v1alpha1, kind: CompileCache, metadata: {name: a},"
                  " spec: {load: {timeout: soon}}}")
                  .empty());
  EXPECT_EQ(status_, 2);
  EXPECT_THAT(reports_, HasSubstr("spec.load.timeout"));
  options_.settings = folder_ + "/none.yaml";
  EXPECT_TRUE(run("kind: A\n").empty());
  EXPECT_EQ(status_, 2);
}

TEST(InjectCommandLine, NeedsNoNamespaceOfAnOperator) {
  const char* arguments[] = {
      "kubectl-compilecache", "inject",        "-f", "a.yaml", "b", "--cache",
      "cache.yaml",           "--agent-image", "i:1"};
  const auto parsed = parse_command_line(9, arguments);
  ASSERT_TRUE(parsed.inject);
  EXPECT_FALSE(parsed.explain);
  EXPECT_EQ(parsed.inject->files, (std::vector<std::string>{"a.yaml", "b"}));
  EXPECT_EQ(parsed.inject->caches, (std::vector<std::string>{"cache.yaml"}));
  EXPECT_EQ(parsed.inject->image, "i:1");
  EXPECT_EQ(parsed.inject->settings, "");
}

}  // namespace
}  // namespace compilecache::cli
