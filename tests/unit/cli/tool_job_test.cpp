#include "cli/archives/tool_job.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/archives/users_registry.hpp"
#include "cli/archives/verdicts.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ToolJobInput input() {
  return {.name = "compilecache-tool-1",
          .volume = {"ml", "caches", "a/llama"},
          .image = "example.com/compilecache:1",
          .arguments = {"verify", "/compilecache/store/a/llama", "--json"}};
}

TEST(ToolJob, HasNoRightsAndCannotWrite) {
  const json pod = tool_job(input())["spec"]["template"]["spec"];
  EXPECT_EQ(pod["automountServiceAccountToken"], false);
  EXPECT_EQ(pod["volumes"][0]["persistentVolumeClaim"],
            json({{"claimName", "caches"}, {"readOnly", true}}));
  const json container = pod["containers"][0];
  EXPECT_EQ(container["volumeMounts"][0]["readOnly"], true);
  EXPECT_EQ(container["securityContext"], json::parse(R"({
      "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
      "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}})"));
  EXPECT_EQ(store_path(input().volume), "/compilecache/store/a/llama");
}

TEST(ToolJob, WaitsWhereCommandsAreRunInIt) {
  ToolJobInput waiting = input();
  waiting.arguments.clear();
  waiting.writes = true;
  const json pod = tool_job(waiting)["spec"]["template"]["spec"];
  const json reading = tool_job(input())["spec"]["template"]["spec"];
  const json container = pod["containers"][0];
  EXPECT_EQ(container["command"], json({"sleep", "600"}));
  EXPECT_EQ(container["args"], json::array());
  EXPECT_EQ(container["volumeMounts"][0]["readOnly"], false);
  EXPECT_EQ(pod["volumes"][0]["persistentVolumeClaim"]["readOnly"], false);
  EXPECT_EQ(container["securityContext"], reading["containers"][0]["securityContext"]);
}

TEST(ToolJob, HasTimeToRemoveItsFolder) {
  ToolJobInput waiting = input();
  waiting.arguments.clear();
  waiting.clears = "/compilecache/store/a/import";
  const json pod = tool_job(waiting)["spec"]["template"]["spec"];
  EXPECT_EQ(pod["terminationGracePeriodSeconds"], 60);
  const json command = pod["containers"][0]["command"];
  EXPECT_EQ(command[3], "600");
  EXPECT_EQ(command[4], waiting.clears) << "no part of the script, whatever its name is";
}

TEST(ToolJob, TheOperatorTakesItNotForOneOfItsOwn) {
  const std::string text = tool_job(input()).dump();
  EXPECT_EQ(text.find("compilecache.dev/"), std::string::npos) << text;
}

TEST(ToolJob, EndsByItselfIfNobodyDeletesIt) {
  const json job = tool_job(input());
  EXPECT_EQ(job["spec"]["activeDeadlineSeconds"], 600);
  EXPECT_EQ(job["spec"]["backoffLimit"], 0);
  EXPECT_GT(job["spec"]["ttlSecondsAfterFinished"].get<int>(), 0);
}

TEST(ToolJob, GoesWhereTheVolumeIs) {
  ToolJobInput there = input();
  there.node = "gpu-7";
  EXPECT_THAT(tool_job(there).dump(), HasSubstr(R"("values":["gpu-7"])"));
  EXPECT_FALSE(tool_job(input())["spec"]["template"]["spec"].contains("affinity"));
}

TEST(ToolJob, ImageAndNodeAreThoseOfTheNamespacesPods) {
  const json pods = json::parse(R"({"items": [
    {"spec": {"containers": [{"image": "app"}]}},
    {"metadata": {"labels": {"compilecache.dev/cache": "llama"}},
     "spec": {"nodeName": "gpu-7", "containers": [{"image": "app"}],
       "initContainers": [{"name": "compilecache-load", "image": "example.com/compilecache:2"}],
       "volumes": [{"persistentVolumeClaim": {"claimName": "caches"}}]}},
    {"status": {"phase": "Succeeded"},
     "spec": {"nodeName": "gone", "volumes": [{"persistentVolumeClaim": {"claimName": "caches"}}]}}
  ]})");
  EXPECT_EQ(agent_image_in(pods), "example.com/compilecache:2");
  EXPECT_EQ(node_of_claim(pods, "caches"), "gpu-7");
  EXPECT_EQ(node_of_claim(pods, "others"), "");
  EXPECT_EQ(agent_image_in({{"items", json::array()}}), "");
}

TEST(ToolJob, APodSaysWhyItDoesNotRunAndHowItEnded) {
  EXPECT_THAT(read_tool_pod(json::parse(R"({"metadata": {"name": "p"}, "status": {"conditions":
      [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]}})"))
                  .trouble,
              HasSubstr("0/3 nodes"));
  EXPECT_THAT(read_tool_pod(json::parse(R"({"status": {"containerStatuses": [{"state": {"waiting":
      {"reason": "ErrImagePull", "message": "no such image"}}}]}})"))
                  .trouble,
              HasSubstr("ErrImagePull: no such image"));
  const auto starting = read_tool_pod(json::parse(
      R"({"status": {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}})"));
  EXPECT_EQ(starting.trouble, "");
  EXPECT_FALSE(starting.exit_code);
  EXPECT_EQ(read_tool_pod(json::parse(R"({"status": {"phase": "Failed", "containerStatuses":
      [{"state": {"terminated": {"exitCode": 1}}}]}})"))
                .exit_code,
            1);
  EXPECT_EQ(read_tool_pod(json::parse(R"({"status": {"phase": "Failed", "reason": "Evicted"}})"))
                .exit_code,
            -1);
}

api::CompileCacheArchive with_digest(const std::string& name, const std::string& digest) {
  api::CompileCacheArchive archive;
  archive.cache = "llama";
  archive.metadata.name = name;
  archive.head.manifest_digest = digest;
  return archive;
}

TEST(Verdicts, AreOfWhatWasReadAndNothingElse) {
  const std::vector archives{with_digest("one", "sha256:1"), with_digest("two", "sha256:2"),
                             with_digest("three", "sha256:3")};
  const auto verdicts = read_verdicts(
      "a warning [of the Job]\n[\n  {\"digest\": \"sha256:1\", \"whole\": true},\n  "
      "{\"digest\": \"sha256:2\", \"whole\": false, \"error\": \"blob sha256:9\"}\n]\nbye\n",
      archives);
  ASSERT_TRUE(verdicts) << verdicts.error().message;
  ASSERT_EQ(verdicts->size(), 3u);
  EXPECT_TRUE(verdicts->at(0).whole);
  EXPECT_FALSE(verdicts->at(1).whole);
  EXPECT_THAT(text_of(verdicts->at(1)), HasSubstr("CORRUPT  llama/two blob sha256:9"));
  EXPECT_FALSE(verdicts->at(2).whole) << "nothing was said of it";
  EXPECT_EQ(json_of(*verdicts)[1]["error"], "blob sha256:9");
}

TEST(Verdicts, AnAnswerThatIsNoneIsAnError) {
  for (const char* log : {"", "exec format error\n", "[\n  {\"digest\": "}) {
    const auto verdicts = read_verdicts(log, {with_digest("one", "sha256:1")});
    EXPECT_FALSE(verdicts) << log;
  }
}

TEST(UsersRegistry, CredentialsAreLookedForWhereLoginsLeaveThem) {
  const auto files = usual_auth_files([](const std::string& name) -> std::optional<std::string> {
    if (name == "HOME") return "/home/me";
    if (name == "XDG_RUNTIME_DIR") return "/run/user/1";
    return std::nullopt;
  });
  EXPECT_THAT(files,
              ElementsAre("/run/user/1/containers/auth.json", "/home/me/.docker/config.json"));
}

}  // namespace
}  // namespace compilecache::cli
