#include "base/base64.hpp"
#include "base/strings.hpp"
#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"

// --registry, with the rights of config/components/registry, on a real API server.

namespace compilecache::testing {
namespace {

const std::string kRegistryRights = testing::in_tree("config/components/registry/rbac.yaml");

class RegistryAccess : public OperatorTest {
 protected:
  static std::string must(const std::vector<std::string>& arguments) {
    const ProcessResult done = kubectl(arguments);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.out;
  }
  // The rights of a token of the registry.
  static json access_in(const std::string& token) {
    std::string claims = split(token, '.').at(1);
    for (char& c : claims) c = c == '-' ? '+' : c == '_' ? '/' : c;
    claims.resize((claims.size() + 3) / 4 * 4, '=');
    return json::parse(base64_decode(claims).value()).at("access");
  }
  // The actions that the holder gets for a repository; null: none.
  [[nodiscard]] static json actions(const OperatorProcess& replica, const std::string& holder,
                                    const std::string& repository) {
    const auto [status, body] = replica.call(
        "GET", "/v1/registry/token?service=registry&scope=repository:" + repository + ":pull,push",
        holder, json());
    if (status != 200) return status;
    const json access = access_in(body.at("token"));
    return access.empty() ? json() : access.at(0).at("actions");
  }
};

TEST_F(RegistryAccess, PeopleAndPodsGetWhatTheyMayHave) {
  must({"apply", "-f", kRegistryRights});
  const std::string reader = make_account(ns, "reader", "get");
  const std::string writer = make_account(ns, "writer", "get,create");
  process->end();  // the next to lead need not wait for the lease
  process = std::make_unique<OperatorProcess>(
      kSettings, OperatorProcessOptions{.more_arguments = {"--registry"}});
  ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }))
      << process->log();

  EXPECT_TRUE(eventually(seconds(30),
                         [&] { return actions(*process, reader, ns + "/app") == json{"pull"}; }))
      << actions(*process, reader, ns + "/app") << process->log();
  EXPECT_EQ(actions(*process, writer, ns + "/app"), (json{"pull", "push"}));
  EXPECT_EQ(actions(*process, writer, "default/app"), json());
  EXPECT_EQ(actions(*process, "no-token", ns + "/app"), 401);

  // Tokens are minted as soon as there is a key; what the registry mounts follows.
  EXPECT_TRUE(eventually(seconds(30), [] {
    return at(read({"secret", "compilecache-registry-auth", "-n", kOperatorNamespace}),
              "/data/ca.crt")
               .is_string() &&
           at(read({"secret", "compilecache-registry-tls", "-n", kOperatorNamespace}), "/type") ==
               "kubernetes.io/tls";
  })) << process->log();
  must({"delete", "-f", kRegistryRights});
}

}  // namespace
}  // namespace compilecache::testing
