#include "cli/archives/copy_wait.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/archives/copy_command.hpp"
#include "cli/archives/export_command.hpp"
#include "kube/cpprest_transport.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr char kCaches[] = "/apis/compilecache.dev/v1alpha1/compilecaches";
constexpr char kInbox[] = "llama-import-0123abcd";
const json kUsers = {{"cache", "old"}, {"claimName", "old-caches"}, {"subPath", "a"}};
const json kImports = {{"cache", kInbox}, {"registry", {{"repository", "a.io/inbox"}}}};

class BorrowedCopyFromTest : public ::testing::Test {
 protected:
  void put(const json& copy_from) {
    json storage = {{"claimName", "caches"}};
    if (!copy_from.is_null()) storage["copyFrom"] = copy_from;
    server_.put(kCaches, {{"metadata", {{"name", "llama"}, {"namespace", "ml"}}},
                          {"spec", {{"storage", storage}}}});
  }
  json there() const {
    return server_.objects(kCaches)
        .at("ml/llama")
        .at("spec")
        .at("storage")
        .value("copyFrom", json());
  }
  kube::Client client() const {
    kube::Config config;
    config.server = server_.url();
    return kube::Client(*kube::make_transport(config));
  }

  testing::FakeApiServer server_;
  const Cluster cluster_{client(), "ml"};
  BorrowedCopyFrom borrowed_{cluster_, "llama", kInbox};
};

TEST_F(BorrowedCopyFromTest, WhatTheUserHadSetIsGivenBack) {
  put(kUsers);
  const auto asked = borrowed_.ask(kImports);
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(there(), kImports) << "with nothing of what was there before";
  EXPECT_TRUE(borrowed_.was_set());
  borrowed_.give_back();
  EXPECT_EQ(there(), kUsers);
}

TEST_F(BorrowedCopyFromTest, AnImportThatFailsEarlyChangesNothing) {
  put(kUsers);
  borrowed_.give_back();
  EXPECT_EQ(there(), kUsers);
}

TEST_F(BorrowedCopyFromTest, WhereNothingWasSetNothingIsLeft) {
  for (const json& before :
       {json(), json({{"cache", "import-89abcdef"}, {"claimName", "caches"}})}) {
    put(before);
    BorrowedCopyFrom borrowed(cluster_, "llama", kInbox);
    ASSERT_TRUE(borrowed.ask(kImports));
    EXPECT_FALSE(borrowed.was_set()) << "an earlier import's is not the user's";
    borrowed.give_back();
    EXPECT_EQ(there(), json());
  }
}

TEST_F(BorrowedCopyFromTest, WhatWasSetInTheMeantimeStays) {
  put(json());
  ASSERT_TRUE(borrowed_.ask(kImports));
  put(kUsers);
  borrowed_.give_back();
  EXPECT_EQ(there(), kUsers);
}

json condition(const char* type, const char* status) {
  return {{"type", type},
          {"status", status},
          {"reason", "RegistryNotInstalled"},
          {"message", "no registry was installed"},
          {"observedGeneration", 1}};
}

// The operator's condition of every CompileCache that asks for a copy.
class CopyCommand : public ::testing::Test {
 protected:
  CopyCommand() {
    const json config = {
        {"apiVersion", "v1"},
        {"kind", "Config"},
        {"current-context", "c"},
        {"contexts",
         json::array({{{"name", "c"},
                       {"context", {{"cluster", "c"}, {"user", "u"}, {"namespace", "ml"}}}}})},
        {"clusters", json::array({{{"name", "c"}, {"cluster", {{"server", server_.url()}}}}})},
        {"users", json::array({{{"name", "u"}, {"user", json::object()}}})}};
    std::ofstream(temp_.path("config")) << config;
    server_.put(kCaches, {{"metadata", {{"name", "llama"}, {"namespace", "ml"}}},
                          {"spec", {{"storage", {{"claimName", "caches"}}}}}});
  }

  testing::FakeApiServer server_;
  archive::test::TempDir temp_;
};

TEST_F(CopyCommand, WithoutARegistryItFailsAtOnceAndLeavesNothing) {
  std::jthread played([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto there = server_.objects(kCaches);
      if (const auto made = there.find("ml/llama-2"); made != there.end()) {
        json object = made->second;
        object["status"]["conditions"] =
            json::array({condition("StorageReady", "False"), condition("Stalled", "True")});
        server_.put(kCaches, object);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  std::ostringstream out, errors;
  const int status = run_copy({.cluster = {.kubeconfig = temp_.path("config")},
                               .from = "llama",
                               .to = "llama-2",
                               .timeout = std::chrono::seconds(60)},
                              out, errors);
  EXPECT_EQ(status, 1);
  EXPECT_THAT(errors.str(), ::testing::HasSubstr("no registry was installed"));
  EXPECT_THAT(errors.str(), ::testing::HasSubstr("llama-2 was deleted again"));
  EXPECT_FALSE(server_.objects(kCaches).contains("ml/llama-2"));
}

TEST(ExportCommand, AnArchiveIsNotWrittenToATerminal) {
  std::ostringstream out, errors;
  EXPECT_EQ(run_export({.archive = "llama/a", .file = "-", .terminal = true}, out, errors), 2);
  EXPECT_EQ(out.str(), "");
  EXPECT_THAT(errors.str(), ::testing::HasSubstr("name a file with -f"));
}

TEST(InboxName, IsToldFromNamesOfUsers) {
  EXPECT_TRUE(is_inbox_name(inbox_name("")));
  EXPECT_TRUE(is_inbox_name(inbox_name("llama")));
  EXPECT_TRUE(is_inbox_name(inbox_name(std::string(63, 'a'))));
  EXPECT_LE(inbox_name(std::string(63, 'a')).size(), 63U);
  for (const char* name : {"", "import", "llama", "import-me", "llama-import-tuesday",
                           "reimport-0123abcd", "import-0123abcde"})
    EXPECT_FALSE(is_inbox_name(name)) << name;
}

}  // namespace
}  // namespace compilecache::cli
