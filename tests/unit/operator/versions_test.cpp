#include <gtest/gtest.h>

#include "operator/versions.hpp"
#include "tests/unit/operator/control_fixture.hpp"

// How old the kubelets are.

namespace compilecache::controller {
namespace {

using test::client_of;
using test::ControlTest;

TEST_F(ControlTest, EveryKubeletIsAskedFor) {
  for (int i = 0; i < 1001; ++i) {
    server.put("/api/v1/nodes", {{"metadata", {{"name", "n" + std::to_string(i)}}},
                                 {"status", {{"nodeInfo", {{"kubeletVersion", "v1.35.4"}}}}}});
  }
  server.put("/api/v1/nodes", {{"metadata", {{"name", "old"}}},
                               {"status", {{"nodeInfo", {{"kubeletVersion", "v1.29.0"}}}}}});
  server.put("/api/v1/nodes", {{"metadata", {{"name", "silent"}}}});
  const auto kubelets = read_kubelets(client_of(server));
  ASSERT_TRUE(kubelets);
  EXPECT_EQ(kubelets->size(), 1003U);
  const auto old = too_old(*kubelets);
  ASSERT_EQ(old.size(), 1U);
  EXPECT_EQ(old[0].node, "old");
}

}  // namespace
}  // namespace compilecache::controller
