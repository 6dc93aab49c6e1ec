#include "kube/resource.hpp"

#include <gtest/gtest.h>

namespace compilecache::kube {
namespace {

TEST(Resource, PathsNameGroupNamespaceAndSubresource) {
  const Resource caches{"compilecache.dev", "v1alpha1", "compilecaches", true};
  EXPECT_EQ(caches.path("ml", "web", "status"),
            "/apis/compilecache.dev/v1alpha1/namespaces/ml/compilecaches/web/status");
  EXPECT_EQ(caches.path(""), "/apis/compilecache.dev/v1alpha1/compilecaches");
  EXPECT_EQ(resources::kPods.path("ml"), "/api/v1/namespaces/ml/pods");
  EXPECT_EQ(resources::kNodes.path("ignored", "n1"), "/api/v1/nodes/n1");
}

TEST(Resource, NamesCannotLeaveTheirPlaceInThePath) {
  EXPECT_EQ(resources::kPods.path("ml", "../secrets?x"),
            "/api/v1/namespaces/ml/pods/..%2Fsecrets%3Fx");
}

TEST(Resource, KeysJoinAndSplit) {
  EXPECT_EQ(object_key("ml", "web"), "ml/web");
  EXPECT_EQ(object_key("", "node"), "node");
  EXPECT_EQ(split_key("ml/web").ns, "ml");
  EXPECT_EQ(split_key("ml/web").name, "web");
  EXPECT_EQ(split_key("node").ns, "");
}

}  // namespace
}  // namespace compilecache::kube
