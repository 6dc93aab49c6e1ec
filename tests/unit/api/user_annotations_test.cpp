#include "api/user_annotations.hpp"

#include <gtest/gtest.h>

#include "api/names.hpp"

namespace compilecache::api {
namespace {

TEST(UserAnnotations, ThoseThatThereAreHaveNoFault) {
  for (const char* known : {kCacheAnnotation, kModeAnnotation, kStatusAnnotation, kAfterAnnotation,
                            kWorkloadAnnotation, kResourcesAnnotation}) {
    EXPECT_EQ(annotation_fault(known), "");
  }
}

TEST(UserAnnotations, AMisspeltOneNamesTheNearMiss) {
  EXPECT_EQ(annotation_fault("compilecache.dev/cach"),
            "compilecache.dev/cach: no such annotation; did you mean compilecache.dev/cache?");
  EXPECT_EQ(annotation_fault("compilecache.dev/quietPeriod"),
            "compilecache.dev/quietPeriod: no such annotation; did you mean "
            "compilecache.dev/quiet-period?");
}

TEST(UserAnnotations, WithoutANearOneItHasNoEffect) {
  EXPECT_EQ(annotation_fault("compilecache.dev/colour"),
            "compilecache.dev/colour: no such annotation; it has no effect");
  // Only the webhook writes it.
  EXPECT_EQ(annotation_fault("compilecache.dev/statu"),
            "compilecache.dev/statu: no such annotation; it has no effect");
}

TEST(UserAnnotations, OtherDomainsAreNotJudged) {
  EXPECT_EQ(annotation_fault("example.com/cach"), "");
  EXPECT_EQ(annotation_fault("compilecache.developer/cach"), "");
  EXPECT_EQ(annotation_fault("compilecache.dev"), "");
}

}  // namespace
}  // namespace compilecache::api
