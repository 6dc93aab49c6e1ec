// The plugin itself: help, usage errors, versions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/near_names.hpp"
#include "base/release.hpp"
#include "cli/cluster/plain_error.hpp"
#include "cli/command_line.hpp"
#include "cli/shell/duration_option.hpp"
#include "cli/shell/version_command.hpp"
#include "cli/text/json_path.hpp"
#include "cli/text/structured_output.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/unit/cli/kubeconfig_file.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using testing::fake_status;
using testing::FakeApiServer;
using testing::FakeConnection;
using testing::FakeRequest;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

struct Said {
  int status = 0;
  std::string out, errors;
};

// The output of a command line that ends before any command is run.
Said say(std::vector<const char*> words) {
  words.insert(words.begin(), "/usr/bin/kubectl-compilecache");
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const CommandLine line = parse_command_line(static_cast<int>(words.size()), words.data());
  Said said{line.exit_code};
  said.out = ::testing::internal::GetCapturedStdout();
  said.errors = ::testing::internal::GetCapturedStderr();
  return said;
}

TEST(Help, WithoutACommandListsThemAll) {
  const Said said = say({});
  EXPECT_EQ(said.status, 0);
  EXPECT_EQ(said.errors, "");
  EXPECT_THAT(said.out, HasSubstr("\nUsage:\n  kubectl compilecache COMMAND [options]\n"));
  for (const char* command :
       {"archives", "copy", "delete", "doctor", "enable", "explain", "export", "help", "import",
        "inject", "prewarm", "report", "sign", "status", "verify", "version"}) {
    EXPECT_THAT(said.out, HasSubstr("\n  " + std::string(command) + " ")) << command;
  }
  EXPECT_EQ(say({"--help"}).out, said.out);
  EXPECT_EQ(say({"help"}).out, said.out);
}

TEST(Help, OfEachCommandHasUsageExamplesAndOptionsInThisOrder) {
  for (const char* command :
       {"archives", "copy", "delete", "doctor", "enable", "explain", "export", "help", "import",
        "inject", "prewarm", "report", "sign", "status", "verify", "version"}) {
    const Said said = say({"help", command});
    EXPECT_EQ(said.status, 0) << command;
    const size_t usage = said.out.find("\nUsage:\n  kubectl compilecache " + std::string(command));
    const size_t examples = said.out.find("\nExamples:\n"), options = said.out.find("\nOptions:\n");
    ASSERT_NE(options, std::string::npos) << said.out;
    EXPECT_LT(usage, examples) << said.out;
    EXPECT_LT(examples, options) << said.out;
    EXPECT_EQ(say({command, "--help"}).out, said.out);
  }
}

TEST(Help, ShowsWhatAnOptionTakes) {
  const std::string text = say({"help", "export"}).out;
  EXPECT_THAT(text, HasSubstr("export CACHE/ARCHIVE --filename string [options]\n"));
  EXPECT_THAT(text, HasSubstr("\n  -f, --filename string "));
  EXPECT_THAT(text, HasSubstr("\n  -h, --help  "));
  EXPECT_THAT(say({"help", "archives"}).out,
              HasSubstr("\n  -o, --output wide|json|yaml|name|jsonpath="));
}

TEST(Help, FitsIntoATerminal) {
  for (const char* command : {"archives", "copy", "explain", "export", "prewarm", "status"}) {
    std::istringstream lines(say({"help", command}).out);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("  kubectl compilecache") == 0) continue;  // to be copied as it is
      EXPECT_LE(line.size(), 100u) << line;
    }
  }
}

TEST(WrongCommandLine, SaysWhatWasMeant) {
  const struct {
    std::vector<const char*> words;
    const char* error;
  } cases[] = {
      {{"statsu"},
       "Error: unknown command \"statsu\" for \"kubectl compilecache\"; did you mean "
       "\"status\"?\nSee 'kubectl compilecache --help' for usage.\n"},
      {{"frobnicate"}, "Error: unknown command \"frobnicate\" for \"kubectl compilecache\"\nSee "},
      {{"--versoin"}, "Error: unknown option \"--versoin\"; did you mean \"--version\"?\n"},
      {{"status", "--namespce", "ml"},
       "Error: unknown option \"--namespce\"; did you mean \"--namespace\"?\nSee 'kubectl "
       "compilecache status --help' for usage.\n"},
      {{"export", "a/b", "--filname", "x"},
       "unknown option \"--filname\"; did you mean \"--filename\"?"},
      {{"archives", "a", "b"}, "Error: unexpected argument \"b\"\n"},
      {{"status", "-o"}, "Error: --output needs a value\n"},
      {{"archives", "-o", "xml"}, "Error: --output: xml not in {wide,json,yaml,name,jsonpath=}\n"},
      {{"verify", "--image", "a"}, "unknown option \"--image\"; did you mean \"--tool-image\"?"},
      {{"copy", "a", "--to", "b", "--timeout", "30"},
       "Error: --timeout: \"30\" has no unit: write 30s\n"},
      {{"help", "statsu"}, "did you mean \"status\"?"},
  };
  for (const auto& [words, error] : cases) {
    const Said said = say(words);
    EXPECT_EQ(said.status, 2) << error;
    EXPECT_THAT(said.errors, HasSubstr(error));
    EXPECT_EQ(said.out, "");
  }
}

TEST(NearNames, AreTwoEditsAwayAtMostTheNearestFirst) {
  const std::vector<std::string> names{"copy", "delete", "export", "import", "status"};
  EXPECT_THAT(near_names("statsu", names), ElementsAre("status"));
  EXPECT_THAT(near_names("mport", names), ElementsAre("import", "export"));
  EXPECT_THAT(near_names("del", names), ElementsAre("delete"));
  EXPECT_THAT(near_names("xy", names), IsEmpty());
  EXPECT_THAT(near_names("", names), IsEmpty());
}

TEST(PlainError, IsOneClause) {
  const auto plain = [](ErrorCode code, const char* message) {
    return plain_error(Error{code, message}).message;
  };
  EXPECT_EQ(plain(ErrorCode::kForbidden,
                  "listing pods ml/: pods is forbidden: User \"me\" cannot list (403 Forbidden)"),
            "pods is forbidden: User \"me\" cannot list");
  EXPECT_EQ(plain(ErrorCode::kForbidden,
                  "creating jobs ml/a: exceeded quota (x) (403 Forbidden); raise it"),
            "exceeded quota (x); raise it");
  EXPECT_EQ(plain(ErrorCode::kUnavailable, "getting nodes n1: http://127.0.0.1:1: refused"),
            "http://127.0.0.1:1: refused");
  EXPECT_EQ(plain(ErrorCode::kInvalid, "the key is wrong: really (404 times)"),
            "the key is wrong: really (404 times)");
}

TEST(PlainError, SaysWhatIsNotThere) {
  const auto missing = [](const char* message) {
    return not_read({ErrorCode::kNotFound, message}, "CompileCache", "ml", "llama").message;
  };
  EXPECT_EQ(
      missing("getting compilecaches ml/llama: compilecaches \"llama\" not found (404 NotFound)"),
      "CompileCache \"llama\" not found in namespace \"ml\"");
  EXPECT_EQ(
      missing(
          "getting compilecaches ml/llama: the server could not find the requested resource (404)"),
      "the server has no CompileCaches: is the operator installed in this cluster?");
}

TEST(ParseTimeout, TakesGoDurationsAlone) {
  EXPECT_EQ(*parse_timeout("90s"), std::chrono::seconds(90));
  EXPECT_EQ(*parse_timeout("1h30m"), std::chrono::minutes(90));
  EXPECT_EQ(parse_timeout("30").error().message, "\"30\" has no unit: write 30s");
  for (const char* wrong : {"", "soon", "0s", "200ms", "25h"})
    EXPECT_FALSE(parse_timeout(wrong)) << wrong;
}

// Of the commands that take an archive, and of those that take a CompileCache or one archive of it.
class ArchiveNames : public ::testing::Test {
 protected:
  ArchiveNames() {
    const std::string group = "/apis/compilecache.dev/v1alpha1/";
    server_.put(group + "compilecaches", {{"metadata", {{"namespace", "ml"}, {"name", "llama"}}},
                                          {"spec", {{"storage", {{"claimName", "caches"}}}}}});
    for (const char* name : {"llama-1", "llama-2"}) {
      server_.put(group + "compilecachearchives",
                  {{"metadata", {{"namespace", "ml"}, {"name", name}}},
                   {"spec", {{"cache", "llama"}, {"key", {{"GPUProduct", "H100"}}}}},
                   {"status", {{"head", {{"generation", 1}, {"manifestDigest", "sha256:1"}}}}}});
    }
  }
  Said run(std::vector<std::string> words) {
    words.insert(words.begin(), "kubectl-compilecache");
    words.insert(words.end(), {"--kubeconfig", kubeconfig_.path()});
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const CommandLine line = parse_command_line(static_cast<int>(argv.size()), argv.data());
    Said said{line.verb ? line.verb() : line.exit_code};
    said.out = ::testing::internal::GetCapturedStdout();
    said.errors = ::testing::internal::GetCapturedStderr();
    return said;
  }

  FakeApiServer server_;
  KubeconfigFile kubeconfig_{server_.url()};
};

TEST_F(ArchiveNames, AreWrittenTheSameInEveryCommand) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"export", "llama-1", "-f", "x"},
                                                                 {"delete", "llama-1", "--yes"}}) {
    EXPECT_EQ(run(words).errors,
              "Error: name the CompileCache of \"llama-1\" too: CACHE/llama-1\n");
  }
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"export", "llama/none", "-f", "x"},
                                             {"delete", "llama/none", "--yes"},
                                             {"archives", "llama/none"},
                                             {"verify", "llama/none"}}) {
    EXPECT_EQ(run(words).errors, "Error: archive \"none\" not found in namespace \"ml\"\n");
  }
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"archives", "nobody"}, {"verify", "nobody"}, {"copy", "nobody", "--to", "x"}}) {
    EXPECT_EQ(run(words).errors, "Error: CompileCache \"nobody\" not found in namespace \"ml\"\n");
  }
  const std::string one = run({"archives", "llama/llama-1"}).out;
  EXPECT_THAT(one, HasSubstr("llama-1"));
  EXPECT_THAT(one, Not(HasSubstr("llama-2")));
  EXPECT_THAT(run({"archives", "llama"}).out, HasSubstr("llama-2"));
}

TEST_F(ArchiveNames, AreListedForScripts) {
  EXPECT_EQ(run({"archives", "-o", "name"}).out,
            "compilecachearchive.compilecache.dev/llama-1\n"
            "compilecachearchive.compilecache.dev/llama-2\n");
  EXPECT_EQ(run({"archives", "llama", "-o", "jsonpath={[*].name}"}).out, "llama-1 llama-2");
  EXPECT_EQ(json::parse(run({"archives", "-o", "json"}).out).size(), 2u);
  EXPECT_THAT(run({"archives", "-A"}).out, HasSubstr("NAMESPACE  CACHE  ARCHIVE"));
  EXPECT_EQ(run({"archives", "llama", "-A"}).status, 2);
  EXPECT_THAT(run({"archives", "-o", "jsonpath={.a"}).errors, HasSubstr("a } is missing"));
  run({"archives", "-l", "app=web"});
  EXPECT_EQ(server_.requests().back().parameter("labelSelector"), "app=web");
}

TEST(JsonPath, IsKubectls) {
  const json list = json::parse(R"({"items": [
      {"metadata": {"name": "a", "labels": {"app.io/x": "1"}}, "n": 1,
       "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
      {"metadata": {"name": "b"}, "n": 2}]})");
  const std::pair<const char*, const char*> cases[] = {
      {"{.items[*].metadata.name}", "a b"},
      {".items[0].metadata.name", "a"},
      {"{.items[-1].metadata.name}", "b"},
      {"{.items[0:1].n}", "1"},
      {"{$.items[1:].n}", "2"},
      {"{..name}", "a b"},
      {"{.items[0].metadata.labels.app\\.io/x}", "1"},
      {"{.items[0]['n']}", "1"},
      {"{.items[*].conditions[?(@.type==\"Ready\")].status}", "True"},
      {"{.items[?(@.n>1)].metadata.name}", "b"},
      {"{range .items[*]}{.metadata.name}={.n}{\"\\n\"}{end}", "a=1\nb=2\n"},
      {"name: {.items[1].metadata}", "name: {\"name\":\"b\"}"},
      {"{.nothing.at.all}", ""},
      {"{range .nothing[*]}x{end}y", "y"},
  };
  for (const auto& [path, expected] : cases) {
    const auto found = json_path(list, path);
    ASSERT_TRUE(found) << path << ": " << found.error().message;
    EXPECT_EQ(*found, expected) << path;
  }
  for (const char* wrong :
       {"{.a", "{.a[}", "{range .a}", "{end}", "{a}", "{.items[x]}", "{.items[?(@.n==x)]}"}) {
    EXPECT_FALSE(json_path(list, wrong)) << wrong;
  }
  EXPECT_EQ(json_path(json("\x1b[31m"), "{$}")->find('\x1b'), std::string::npos);
}

// -o is looked at before anything is read, with nothing in place of the object.
TEST(JsonPath, IsReadableOrNotWhateverTheValueIs) {
  const json items = json::parse(R"({"items": [{"n": 1}]})");
  for (const char* wrong :
       {"{.items[?(@.n==x)]}", "{.items[?(x)].n}", "{range .items[?(@.n==x)]}{.n}{end}"}) {
    for (const json& value : {json(), json::object(), items}) {
      EXPECT_FALSE(json_path(value, wrong)) << wrong << " of " << value;
    }
    EXPECT_FALSE(check_output(std::string("jsonpath=") + wrong)) << wrong;
  }
}

TEST(TagOfImage, IsNeitherPortNorDigest) {
  EXPECT_EQ(tag_of_image("registry.example:5000/compilecache:0.2.0"), "0.2.0");
  EXPECT_EQ(tag_of_image("compilecache:0.2.0@sha256:abc"), "0.2.0");
  EXPECT_EQ(tag_of_image("registry.example:5000/compilecache"), "");
  EXPECT_EQ(tag_of_image("compilecache@sha256:abc"), "");
}

class Version : public ::testing::Test {
 protected:
  Said run(VersionOptions options) {
    options.cluster.kubeconfig = kubeconfig_.path();
    options.commit = "abc";
    std::ostringstream out, errors;
    const int status = run_version(options, out, errors);
    return {status, out.str(), errors.str()};
  }
  void answer(const std::string& path, int status, const std::string& body) {
    server_.script([=](const FakeRequest& request, FakeConnection& connection) {
      if (request.path != path) return false;
      connection.reply(status, body);
      return true;
    });
  }
  void answer_api() {
    answer("/apis/compilecache.dev", 200, R"({"versions": [{"version": "v1alpha1"}]})");
  }

  FakeApiServer server_;
  KubeconfigFile kubeconfig_{server_.url()};
};

TEST_F(Version, IsThatOfTheProgramTheOperatorAndTheApi) {
  answer_api();
  server_.put(
      "/apis/apps/v1/deployments",
      {{"metadata",
        {{"namespace", "cc"},
         {"name", "operator"},
         {"labels", {{"app.kubernetes.io/name", "compilecache-operator"}}}}},
       {"spec",
        {{"template",
          {{"spec", {{"containers", json::array({{{"image", "r.example/cc:0.1.9"}}})}}}}}}}});
  const Said said = run({});
  EXPECT_EQ(said.status, 0);
  EXPECT_EQ(said.out, std::string("Client Version: ") + release() +
                          " (commit abc)\n"
                          "Operator Version: 0.1.9 (r.example/cc:0.1.9 in namespace cc)\n"
                          "API Version: compilecache.dev/v1alpha1\n");
  answer_api();
  const json read = json::parse(run({.output = "json"}).out);
  EXPECT_EQ(read["client"]["version"], release());
  EXPECT_EQ(read["operators"][0]["version"], "0.1.9");
  EXPECT_EQ(read["apiVersions"], json::array({"v1alpha1"}));
}

TEST_F(Version, SaysThatNothingIsInstalled) {
  answer("/apis/compilecache.dev", 404,
         fake_status(404, "NotFound", "the server could not find it"));
  const Said said = run({});
  EXPECT_THAT(said.out,
              HasSubstr("\nOperator Version: not installed\nAPI Version: not installed\n"));
}

TEST_F(Version, OfTheClientNeedsNoCluster) {
  EXPECT_EQ(run({.client_only = true}).out,
            std::string("Client Version: ") + release() + " (commit abc)\n");
  EXPECT_THAT(server_.requests(), IsEmpty());
}

TEST_F(Version, OfTheClientIsPrintedThoughTheClusterRefuses) {
  answer("/apis/compilecache.dev", 403, fake_status(403, "Forbidden", "not for you"));
  const Said said = run({});
  EXPECT_EQ(said.status, 0);
  EXPECT_THAT(said.out, MatchesRegex("Client Version: [^\n]*\n"));
  EXPECT_THAT(said.errors, HasSubstr("not for you"));
}

}  // namespace
}  // namespace compilecache::cli
