#include <gmock/gmock.h>

#include <filesystem>

#include "archive/format.hpp"
#include "base/base64.hpp"
#include "operator/certificates/x509.hpp"
#include "store/directory/directory_store.hpp"
#include "store/registry/registry_store.hpp"
#include "store/upkeep.hpp"
#include "tests/integration/operator_fixture.hpp"
#include "tests/integration/registry_pod.hpp"
#include "tests/support/name_proxy.hpp"
#include "tests/support/paths.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// People with `skopeo login` and a token of the cluster. The operator gives the tokens, and the
// registry runs with its Secrets, both under their names in the cluster. A real API server
// says what an account may see.

namespace compilecache::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

const std::string kRegistryRights = in_tree("config/components/registry/rbac.yaml");
constexpr char kRegistry[] = "compilecache-registry.compilecache-system.svc:5000";
constexpr char kRealm[] = "compilecache-agent-api.compilecache-system.svc:443";

class RegistryLogin : public OperatorTest {
 protected:
  static void SetUpTestSuite() {
    if (registry_program().empty()) return;
    ASSERT_EQ(install_operator(), "");
    ASSERT_EQ(kubectl({"apply", "-f", kRegistryRights}).exit_code, 0);
    process = std::make_unique<OperatorProcess>(
        kSettings, OperatorProcessOptions{.more_arguments = {"--registry"}});
    ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }))
        << process->log();
    ASSERT_TRUE(eventually(seconds(30), [] {
      // Other tests may have left some of another authority.
      return controller::belongs_together({entry("compilecache-registry-tls", "tls.crt"),
                                           entry("compilecache-registry-tls", "tls.key")},
                                          entry("compilecache-certificates", "ca.crt")) &&
             !entry("compilecache-registry-auth", "ca.crt").empty();
    })) << process->log();
    start_registry();
  }
  static void TearDownTestSuite() {
    if (registry_program().empty()) return;
    proxy.reset();
    pod.reset();
    folder.reset();
    OperatorTest::TearDownTestSuite();
    kubectl({"delete", "-f", kRegistryRights});
  }
  // With what the operator has put into the Secrets that it mounts.
  static void start_registry() {
    folder = std::make_unique<archive::test::TempDir>();
    const std::string ca = entry("compilecache-certificates", "ca.crt");
    archive::test::write_file(folder->path("trusted/ca.crt"), ca);
    const controller::Certificates serving{.ca = {ca, ""},
                                           .leaf = {entry("compilecache-registry-tls", "tls.crt"),
                                                    entry("compilecache-registry-tls", "tls.key")}};
    pod = std::make_unique<RegistryPod>(folder->path("pod"), serving,
                                        entry("compilecache-registry-auth", "ca.crt"));
    ASSERT_EQ(pod->start(), "");
    proxy = std::make_unique<NameProxy>(
        std::map<std::string, uint16_t>{{kRegistry, pod->port()}, {kRealm, process->agent_port()}});
  }
  static std::string entry(const std::string& secret, const std::string& name) {
    const json object = read({"secret", secret, "-n", kOperatorNamespace});
    const json encoded = object.is_null() ? json() : at(object, "/data/" + name);
    return encoded.is_string() ? base64_decode(encoded.get<std::string>()).value_or("") : "";
  }

  void SetUp() override {
    if (registry_program().empty()) {
      GTEST_SKIP() << "no distribution v3: CC_REGISTRY=$(tests/cluster/cluster registry)";
    }
    ASSERT_EQ(run_process({"skopeo", "--version"}).exit_code, 0)
        << "this test needs Debian's package skopeo";
    OperatorTest::SetUp();
  }

  // Where this person's logins are kept.
  [[nodiscard]] std::string auth_file(const std::string& who) const {
    return folder->path(ns + "-" + who + ".json");
  }
  [[nodiscard]] static ProcessResult skopeo(std::vector<std::string> arguments,
                                            const std::string& input = "") {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "HTTPS_PROXY=" + proxy->url(), "skopeo",
                                         "--insecure-policy"});
    return run_process(arguments, input);
  }
  [[nodiscard]] ProcessResult login(const std::string& who, const std::string& password) const {
    return skopeo({"login", "--cert-dir", folder->path("trusted"), "--authfile", auth_file(who),
                   "--username", "anything", "--password-stdin", kRegistry},
                  password);
  }
  // A service account that may do these verbs with archives, logged in.
  void log_in(const std::string& who, const std::string& verbs) const {
    const ProcessResult done = login(who, make_account(ns, who, verbs));
    ASSERT_EQ(done.exit_code, 0) << done.err << process->log();
  }
  // "inspect" and others that take one image or repository.
  [[nodiscard]] ProcessResult ask(const std::string& who, const std::string& command,
                                  const std::string& image) const {
    std::vector<std::string> arguments{command};
    if (command == "inspect") arguments.emplace_back("--raw");
    arguments.insert(arguments.end(), {"--cert-dir", folder->path("trusted"), "--authfile",
                                       auth_file(who), "docker://" + image});
    return skopeo(std::move(arguments));
  }
  [[nodiscard]] ProcessResult take_away(const std::string& who, const std::string& image,
                                        const std::string& layout) const {
    return skopeo({"copy", "--src-cert-dir", folder->path("trusted"), "--authfile", auth_file(who),
                   "docker://" + image, "oci:" + layout + ":archive"});
  }
  [[nodiscard]] ProcessResult push(const std::string& who, const std::string& layout,
                                   const std::string& image) const {
    return skopeo({"copy", "--dest-cert-dir", folder->path("trusted"), "--authfile", auth_file(who),
                   "oci:" + layout + ":archive", "docker://" + image});
  }

  static std::string image_of(const std::string& in, const std::string& cache,
                              const std::string& tag = "") {
    return std::string(kRegistry) + "/" + in + "/" + cache + (tag.empty() ? "" : ":" + tag);
  }
  // A repository as our own programs open it, with what that login has left.
  [[nodiscard]] std::unique_ptr<store::RegistryStore> store_of(const std::string& who,
                                                               const std::string& cache) const {
    return std::make_unique<store::RegistryStore>(
        store::RegistryOptions{.host = kRegistry,
                               .repository = ns + "/" + cache,
                               .ca_file = folder->path("trusted/ca.crt"),
                               .system_authorities = false,
                               .proxy = {.url = proxy->url()},
                               .docker_config_file = auth_file(who),
                               .spool_folder = folder->path()});
  }
  // Saves an archive as generation 7; its digest.
  [[nodiscard]] Result<std::string> save(const std::string& who, const std::string& cache) const {
    archive::test::write_file(folder->path(ns + "-source/a"), archive::test::noise(300'000, 1));
    archive::WriteRequest request;
    request.annotations = {{archive::kAnnotationName, "llama-3f2a91"},
                           {archive::kAnnotationGeneration, "7"}};
    request.files = {{folder->path(ns + "-source/a"), "torch/a"}};
    const auto store = store_of(who, cache);
    const auto saved = archive::write_archive(*store, std::move(request));
    if (!saved) return unexpected(saved.error());
    return saved->archive.manifest;
  }
  static std::string tag_of(const std::string& digest) { return "g7-" + digest.substr(7, 12); }

  static std::unique_ptr<archive::test::TempDir> folder;
  static std::unique_ptr<RegistryPod> pod;
  static std::unique_ptr<NameProxy> proxy;
};
std::unique_ptr<archive::test::TempDir> RegistryLogin::folder;
std::unique_ptr<RegistryPod> RegistryLogin::pod;
std::unique_ptr<NameProxy> RegistryLogin::proxy;

TEST_F(RegistryLogin, WhatAnAccountMayGetIsInspectedListedAndTakenAway) {
  log_in("reader", "get");
  log_in("writer", "get,create");
  const auto saved = save("writer", "llama");
  ASSERT_TRUE(saved) << saved.error().message;
  const std::string image = image_of(ns, "llama", tag_of(*saved));

  const ProcessResult inspected = ask("reader", "inspect", image);
  ASSERT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_EQ(digest(inspected.out), *saved);
  const ProcessResult tags = ask("reader", "list-tags", image_of(ns, "llama"));
  ASSERT_EQ(tags.exit_code, 0) << tags.err;
  EXPECT_EQ(json::parse(tags.out).at("Tags"), json{tag_of(*saved)});

  const std::string layout = folder->path(ns + "-layout");
  const ProcessResult copied = take_away("reader", image, layout);
  ASSERT_EQ(copied.exit_code, 0) << copied.err;
  const store::DirectoryStore taken(layout);
  EXPECT_TRUE(archive::verify(taken, *saved));
  EXPECT_TRUE(archive::verify(*store_of("reader", "llama"), *saved));
}

TEST_F(RegistryLogin, WhoMayCreateArchivesPushesAndWhoMayGetThemDoesNot) {
  log_in("reader", "get");
  log_in("writer", "get,create");
  const auto saved = save("writer", "llama");
  ASSERT_TRUE(saved) << saved.error().message;
  const std::string layout = folder->path(ns + "-layout");
  ASSERT_EQ(take_away("reader", image_of(ns, "llama", tag_of(*saved)), layout).exit_code, 0);

  const std::string there = image_of(ns, "mistral", tag_of(*saved));
  const ProcessResult refused = push("reader", layout, there);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, AnyOf(HasSubstr("unauthorized"), HasSubstr("denied")));
  const auto by_our_store = save("reader", "mistral");
  ASSERT_FALSE(by_our_store);
  EXPECT_EQ(by_our_store.error().reason, store::kReasonUnauthorized)
      << by_our_store.error().message;
  EXPECT_NE(ask("writer", "inspect", there).exit_code, 0) << "nothing of it is there";

  const ProcessResult pushed = push("writer", layout, there);
  ASSERT_EQ(pushed.exit_code, 0) << pushed.err;
  EXPECT_TRUE(archive::verify(*store_of("reader", "mistral"), *saved));
}

TEST_F(RegistryLogin, AnotherNamespaceIsClosed) {
  log_in("writer", "get,create");
  const auto saved = save("writer", "llama");
  ASSERT_TRUE(saved) << saved.error().message;
  const std::string layout = folder->path(ns + "-layout");
  ASSERT_EQ(take_away("writer", image_of(ns, "llama", tag_of(*saved)), layout).exit_code, 0);

  const std::string owner = ns;
  ns += "-other";
  make_namespace(ns);
  log_in("stranger", "get,create");
  const std::string image = image_of(owner, "llama", tag_of(*saved));
  for (const ProcessResult& result :
       {ask("stranger", "inspect", image), ask("stranger", "list-tags", image_of(owner, "llama")),
        take_away("stranger", image, folder->path(ns + "-stolen")),
        push("stranger", layout, image_of(owner, "llama", "g8-0123456789ab"))}) {
    EXPECT_NE(result.exit_code, 0) << result.out;
    EXPECT_THAT(result.err, AnyOf(HasSubstr("unauthorized"), HasSubstr("denied")));
  }
  EXPECT_EQ(push("stranger", layout, image_of(ns, "llama", "mine")).exit_code, 0)
      << "its own is open";
}

TEST_F(RegistryLogin, WhatIsNoTokenOfTheClusterIsRefusedAndSaidWhy) {
  const ProcessResult refused = login("nobody", "hunter2");
  EXPECT_NE(refused.exit_code, 0);
  // Newer ones than Debian's add what the operator says.
  EXPECT_THAT(refused.err,
              AnyOf(HasSubstr("invalid username/password"), HasSubstr("kubectl create token")));
  EXPECT_NE(ask("nobody", "list-tags", image_of(ns, "llama")).exit_code, 0);
}

}  // namespace
}  // namespace compilecache::testing
