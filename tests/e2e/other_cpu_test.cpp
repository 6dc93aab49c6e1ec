#include "tests/e2e/sandbox.hpp"

// Pods of one key on hosts of two kinds of CPU. The cluster has one host; ATEN_CPU_CAPABILITY makes
// PyTorch see another CPU there, and compile for it.

namespace compilecache::e2e {
namespace {

class OtherCpu : public Sandbox {
 protected:
  static TorchPod as_avx2(const std::string& name) {
    TorchPod pod{name, {}};
    pod.environment = {{{"name", "ATEN_CPU_CAPABILITY"}, {"value", "avx2"}}};
    return pod;
  }
  // The kinds for which there is an archive to load.
  [[nodiscard]] std::set<std::string> kinds() const {
    std::set<std::string> found;
    for (const json& archive : archives()) {
      if (at(archive, "/status/head/manifestDigest").is_string()) {
        found.insert(at(archive, "/spec/key/CPU").get<std::string>());
      }
    }
    return found;
  }
  // `first` saves, `second` is given nothing of it and saves for its own kind, and then both are
  // warm.
  void expect_two_archives(TorchPod first, TorchPod second) {
    create_cache();
    wait_until_ready();
    EXPECT_GE(at(run_to_ready(first), "/misses").get<int>(), 1);
    ASSERT_TRUE(eventually(seconds(90), [&] { return kinds().size() == 1; }));
    remove_pod(first.name);

    const json other = run_to_ready(second);
    EXPECT_EQ(at(other, "/right"), true) << other;
    EXPECT_EQ(at(other, "/hits"), 0) << "it runs code of another CPU: " << other;
    const json story = explain(second.name);
    EXPECT_EQ(at(story, "/load/outcome"), "none") << story;
    EXPECT_EQ(at(story, "/load/reason"), "cpu_mismatch") << story;
    EXPECT_NE(logs(second.name, "compilecache-load").find("cpu_mismatch"), std::string::npos);
    EXPECT_TRUE(eventually(seconds(30), [&] {
      return kubectl({"get", "events", "-n", ns()}).out.find("cpu_mismatch") != std::string::npos;
    }));
    ASSERT_TRUE(eventually(seconds(90), [&] { return kinds().size() == 2; })) << kinds().size();
    remove_pod(second.name);

    for (TorchPod* pod : {&first, &second}) {
      pod->name += "-again";
      const json warm = run_to_ready(*pod);
      EXPECT_EQ(at(warm, "/right"), true) << pod->name << ": " << warm;
      EXPECT_EQ(at(warm, "/misses"), 0) << pod->name << ": " << warm;
      EXPECT_GE(at(warm, "/hits").get<int>(), 1) << pod->name << ": " << warm;
      EXPECT_EQ(at(explain(pod->name), "/load/outcome"), "exact") << pod->name;
    }
    EXPECT_EQ(kinds().size(), 2U);
  }
};

TEST_F(OtherCpu, ItsCodeIsNotLoadedAndEachKindHasAnArchive) {
  expect_two_archives({"wide", {}}, as_avx2("narrow"));
}

TEST_F(OtherCpu, NeitherIsThatOfANarrowerOne) {
  expect_two_archives(as_avx2("narrow"), {"wide", {}});
}

}  // namespace
}  // namespace compilecache::e2e
