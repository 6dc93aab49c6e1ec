#include "operator/agents/file_owner.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace compilecache::controller {
namespace {

using nlohmann::json;

json runs_with(const json& container_context, const json& pod_context = json::object()) {
  return {{"spec",
           {{"securityContext", pod_context},
            {"containers",
             {{{"name", "proxy"}}, {{"name", "app"}, {"securityContext", container_context}}}}}}};
}

bool can_own(const json& pod, int64_t user) { return can_own_files(pod, {"app"}, user); }

TEST(FileOwner, IsWhomThePodsContainersMayRunAs) {
  const json image_user = runs_with(json::object());
  EXPECT_TRUE(can_own(image_user, 0)) << "the image may say root";
  EXPECT_TRUE(can_own(image_user, 1000));
  const json non_root = runs_with(json::object(), {{"runAsNonRoot", true}});
  EXPECT_FALSE(can_own(non_root, 0));
  EXPECT_TRUE(can_own(non_root, 1000));
  const json one_user = runs_with({{"runAsUser", 1000}});
  EXPECT_FALSE(can_own(one_user, 0));
  EXPECT_FALSE(can_own(one_user, 1001));
  EXPECT_TRUE(can_own(one_user, 1000));
  EXPECT_FALSE(can_own(runs_with(json::object(), {{"runAsUser", 1000}}), 0));
  EXPECT_TRUE(can_own(runs_with({{"runAsUser", 0}}), 1000)) << "root may become anybody";
  EXPECT_FALSE(can_own_files(image_user, {"gone"}, 0));
  EXPECT_FALSE(can_own(json::object(), 0));
}

TEST(FileOwner, TheKubeletKnowsItBetter) {
  json pod = runs_with(json::object());
  pod["status"]["containerStatuses"] = {{{"name", "app"}, {"user", {{"linux", {{"uid", 1000}}}}}}};
  EXPECT_FALSE(can_own(pod, 0));
  EXPECT_TRUE(can_own(pod, 1000));
  pod["status"]["containerStatuses"][0]["user"]["linux"]["uid"] = 0;
  EXPECT_TRUE(can_own(pod, 0));
}

}  // namespace
}  // namespace compilecache::controller
