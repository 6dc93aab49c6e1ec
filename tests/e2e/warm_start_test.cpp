#include <algorithm>

#include "tests/e2e/sandbox.hpp"

namespace compilecache::e2e {
namespace {

class WarmStart : public Sandbox {
 protected:
  // Waits until a counter of the CompileCache's status has that value.
  void expect_status(const std::string& pointer, const json& value) {
    json last;
    EXPECT_TRUE(eventually(seconds(45),
                           [&] {
                             last = at(cache(), pointer);
                             return last == value;
                           }))
        << pointer << " is " << last << ", expected " << value;
  }
};

TEST_F(WarmStart, ColdSaveWarm) {
  create_cache();
  wait_until_ready();
  const json cold = run_to_ready({"one", {}});
  EXPECT_GE(at(cold, "/misses").get<int>(), 1);
  // On a busy machine a compiler may be silent for longer than the quiet period: then more follows.
  json archive;
  EXPECT_TRUE(eventually(seconds(60), [&] {
    archive = wait_for_save();
    const auto files = archived_files(archive);
    return std::any_of(files.begin(), files.end(),
                       [](const auto& f) { return f.ends_with(".so"); });
  })) << "no compiled kernel was saved";
  EXPECT_EQ(at(archive, "/metadata/labels/compilecache.dev~1gpu-product"), "cpu-amd64");
  EXPECT_EQ(at(archive, "/status/head/savedBy"), "one");
  for (const std::string& file : archived_files(archive)) {
    EXPECT_EQ(file.find(".lock"), std::string::npos) << file;
  }
  remove_pod("one");

  const json warm = run_to_ready({"two", {}});
  EXPECT_EQ(at(warm, "/misses"), 0);
  EXPECT_GE(at(warm, "/hits").get<int>(), 1);
  expect_status("/status/loads/exact", 1);
  expect_status("/status/effect/full", 1);
  expect_status("/status/loads/missing", 1);

  const json story = explain("two");
  EXPECT_EQ(at(story, "/injection/injected"), true);
  EXPECT_EQ(at(story, "/load/outcome"), "exact");
  EXPECT_EQ(at(story, "/load/archive"), at(archive, "/metadata/name"));
  EXPECT_EQ(at(story, "/effect/effect"), "full");
  EXPECT_EQ(at(story, "/change"), json::array()) << story;
  const std::string labels = "cache=\"transformer\",gpu_product=\"cpu-amd64\",namespace=\"" + ns();
  const std::string told = metrics();
  EXPECT_NE(told.find("compilecache_loads_total{" + labels + "\",outcome=\"exact\"} 1\n"),
            std::string::npos)
      << told;

  const auto listed = kubectl({"get", "cc", "-n", ns()});
  EXPECT_NE(listed.out.find("True    Ready    1          50%    full"), std::string::npos)
      << listed.out;
  const auto wide = kubectl({"get", "cc", "-n", ns(), "-o", "wide"});
  EXPECT_NE(wide.out.find(place().shown()), std::string::npos) << wide.out;
}

TEST_F(WarmStart, APodOfAnotherUserExtendsWhatItWasGiven) {
  create_cache();
  wait_until_ready();
  run_to_ready({"root", {}});
  wait_for_save();
  remove_pod("root");
  TorchPod other{"other", {"--shapes", "8,16"}};
  other.security_context = {{"runAsUser", 4321}, {"runAsGroup", 4321}, {"runAsNonRoot", true}};
  other.environment = {{{"name", "HOME"}, {"value", "/tmp"}}, {{"name", "USER"}, {"value", "app"}}};
  const json result = run_to_ready(other);
  EXPECT_EQ(at(result, "/misses"), 1);
  EXPECT_EQ(at(result, "/hits"), 1);
  wait_for_save(2);
}

TEST_F(WarmStart, MoreShapesLaterAddALayer) {
  // A pod saves once, at its end: on a busy machine a compile pauses for longer than a short quiet
  // period.
  create_cache("transformer", {{"save", {{"quietPeriod", "5m"}}}});
  wait_until_ready();
  run_to_ready({"one", {"--shapes", "8"}});
  remove_pod("one");
  const json first = wait_for_save();
  EXPECT_EQ(at(first, "/status/head/layers"), 1);
  const json both = run_to_ready({"two", {"--shapes", "8,16"}});
  EXPECT_EQ(at(both, "/misses"), 1);
  remove_pod("two");
  const json second = wait_for_save(2);
  EXPECT_EQ(at(second, "/status/head/layers"), 2);
  EXPECT_EQ(at(second, "/status/previous/manifestDigest"),
            at(first, "/status/head/manifestDigest"));
  const json third = run_to_ready({"three", {"--shapes", "8,16"}});
  EXPECT_EQ(at(third, "/misses"), 0);
}

}  // namespace
}  // namespace compilecache::e2e
