#include "tests/e2e/sandbox.hpp"
#include "tests/e2e/saver_work.hpp"

// One sidecar that loads in its postStart hook and saves later, seen by an application and by the
// kubelet.

namespace compilecache::e2e {
namespace {

constexpr char kEntry[] = "$TORCHINDUCTOR_CACHE_DIR/fxgraph/ab/KEY/file";

class Delivery : public Sandbox {
 protected:
  // An application that says what it finds when it starts.
  void start_app(const std::string& name, const std::string& then) {
    TorchPod how{name};
    how.image = "docker.io/library/debian:bookworm-slim";
    json object = manifest(how);
    object["spec"]["containers"][0]["command"] = {"sh", "-c",
                                                  std::string("test -e ") + kEntry +
                                                      " && echo found || echo missing; " + then +
                                                      "; exec sleep 3600"};
    object["spec"]["terminationGracePeriodSeconds"] = 3;
    ASSERT_EQ(testing::apply(object), "");
  }
  bool says(const std::string& name, const std::string& word) const {
    return eventually(seconds(60), [&] { return logs(name, "app") == word + "\n"; });
  }
  void save_an_entry() {
    create_cache("transformer", {{"delivery", "Sidecar"}});
    wait_until_ready();
    start_app("one", "d=$TORCHINDUCTOR_CACHE_DIR/fxgraph/ab/KEY; mkdir -p $d; echo x > $d/file");
    ASSERT_TRUE(says("one", "missing"));
    wait_for_save();
    remove_pod("one");
  }
};

TEST_F(Delivery, OneSidecarLoadsBeforeTheApplicationStartsAndNotAgainBesideIt) {
  save_an_entry();
  start_app("two",
            "rm -r $TORCHINDUCTOR_CACHE_DIR /compilecache/cache/control; ls -A "
            "/compilecache/cache > /tmp/left");
  ASSERT_TRUE(says("two", "found")) << logs("two", kSaverContainer);
  EXPECT_EQ(at(pod("two"), "/spec/initContainers").size(), 1u);
  EXPECT_NE(logs("two", kSaverContainer).find("found the archive"), std::string::npos)
      << logs("two", kSaverContainer);
  EXPECT_TRUE(eventually(seconds(30), [&] {
    return at(explain("two"), "/load/outcome") == "exact";
  })) << explain("two");
  // The directories are the application's own now, whatever it did to them.
  ASSERT_TRUE(kill_saver(pod("two"), SaverProcess::kSupervisor));
  ASSERT_TRUE(eventually(seconds(60), [&] {
    const json status = saver_status(pod("two"));
    return status.value("restartCount", 0) == 1 && at(status, "/state/running").is_object();
  })) << pod("two");
  EXPECT_EQ(exec("two", {"sh", "-c", std::string("test -e ") + kEntry + " || echo missing"}),
            "missing\n");
  EXPECT_TRUE(eventually(seconds(30), [&] { return is_ready(pod("two")); }));
  EXPECT_EQ(at(pod("two"), "/status/containerStatuses/0/restartCount"), 0);
}

}  // namespace
}  // namespace compilecache::e2e
