#include "tests/e2e/sandbox.hpp"
#include "tests/e2e/saver_work.hpp"

// A saver that crashes or has too little memory is invisible to the kubelet, the pod's Service and
// controllers: its container goes on, and the pod stays ready.

namespace compilecache::e2e {
namespace {

class SaverFails : public Sandbox {
 protected:
  void start_app(const std::string& name, const std::string& entry) {
    TorchPod how{name};
    how.image = "docker.io/library/debian:bookworm-slim";
    json pod = manifest(how);
    write_one_entry(pod["spec"], entry);
    ASSERT_EQ(testing::apply(pod), "");
  }
};

TEST_F(SaverFails, KilledTenTimesItDisturbsNobodyAndSavesInTheEnd) {
  create_cache("transformer", {{"save", {{"quietPeriod", "10s"}}}});
  wait_until_ready();
  start_app("app", "echo entry");
  ASSERT_TRUE(eventually(seconds(120), [&] { return is_ready(pod("app")); }))
      << at(pod("app"), "/status");
  for (int kill = 0; kill < 10; ++kill) {
    ASSERT_TRUE(eventually(seconds(120), [&] {
      return kill_saver(pod("app"), SaverProcess::kWork);
    })) << logs("app", kSaverContainer);
    expect_undisturbed(pod("app"));
  }
  const json saved = wait_for_save(1, "", seconds(180));
  EXPECT_EQ(archived_files(saved).size(), 1U);
  expect_undisturbed(pod("app"));
}

TEST_F(SaverFails, WithTooLittleMemoryItSaysSoAndDisturbsNobody) {
  const json range{
      {"apiVersion", "v1"},
      {"kind", "LimitRange"},
      {"metadata", {{"name", "small"}, {"namespace", ns()}}},
      {"spec", {{"limits", {{{"type", "Container"}, {"max", {{"memory", "32Mi"}}}}}}}}};
  create_cache();
  wait_until_ready();
  ASSERT_EQ(testing::apply(range), "");
  start_app("app", "head -c 48000000 /dev/urandom");
  const auto told = [&] {
    const std::string log = logs("app", kSaverContainer);
    return log.find("memory that the container's limit leaves") != std::string::npos ||
           log.find("started again") != std::string::npos;
  };
  EXPECT_TRUE(eventually(seconds(180), told)) << logs("app", kSaverContainer);
  EXPECT_EQ(at(saver_status(pod("app")), "/state/running").is_object(), true);
  expect_undisturbed(pod("app"));
  EXPECT_TRUE(archives().empty() || at(archives().front(), "/status/head").is_null());
}

}  // namespace
}  // namespace compilecache::e2e
