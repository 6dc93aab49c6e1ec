#include <filesystem>
#include <fstream>

#include "tests/e2e/sandbox.hpp"
#include "tests/e2e/saver_work.hpp"

namespace compilecache::e2e {
namespace {

const std::vector<std::string> kSmall{"--layers", "0"};

// Makes every kernel in the cache crash when it is called: whole as ELF goes, but of breakpoints.
constexpr char kBreakKernels[] = R"(
import glob, os, struct

for path in glob.glob("/compilecache/cache/torch/**/*.so", recursive=True):
    data = bytearray(open(path, "rb").read())
    if b"kernel\0" not in data:
        continue
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for header in range(table, table + count * size, size):
        kind, flags, start = struct.unpack_from("<IIQ", data, header)
        (length,) = struct.unpack_from("<Q", data, header + 32)
        if kind == 1 and flags & 1:
            data[start : start + length] = b"\xcc" * length
    open(path + ".new", "wb").write(data)
    os.replace(path + ".new", path)
    print(path)
)";

class Faults : public Sandbox {
 protected:
  static void scale_operator(int replicas) {
    const auto scaled = kubectl({"scale", "deployment/compilecache-operator", "-n",
                                 kOperatorNamespace, "--replicas=" + std::to_string(replicas)});
    ASSERT_EQ(scaled.exit_code, 0) << scaled.err;
    if (replicas > 0) {
      wait_for_operator();
    } else {
      ASSERT_TRUE(eventually(seconds(90), operator_is_gone));
    }
  }
};

TEST_F(Faults, WithoutTheOperatorPodsStartAndInjectedOnesLoadFromTheIndex) {
  save_one();
  // Injected while the operator is there, held back by a scheduling gate until it is away.
  json gated = manifest({"gated", {}});
  gated["spec"]["schedulingGates"] = {{{"name", "tests/wait"}}};
  ASSERT_EQ(testing::apply(gated), "");
  ASSERT_EQ(at(pod("gated"), "/spec/initContainers/0/name"), "compilecache-load");

  scale_operator(0);
  const json plain = run_to_ready({"new", {}});
  EXPECT_GE(at(plain, "/misses").get<int>(), 1);
  EXPECT_TRUE(at(pod("new"), "/spec/initContainers").is_null());

  kubectl({"patch", "pod", "gated", "-n", ns(), "--type=json", "-p",
           R"([{"op":"remove","path":"/spec/schedulingGates"}])"});
  const json result = wait_for_result("gated");
  if (place().in_registry()) {
    EXPECT_GE(at(result, "/misses").get<int>(), 1) << "there is an index on volumes alone";
  } else {
    EXPECT_EQ(at(result, "/misses"), 0);
    EXPECT_NE(logs("gated", "compilecache-load").find("index"), std::string::npos)
        << logs("gated", "compilecache-load");
  }
  scale_operator(2);
}

TEST_F(Faults, AFlippedByteMeansAColdStartAndACorruptArchive) {
  save_one();
  ASSERT_FALSE(archives().empty());
  const json archive = archives().front();
  const json manifest =
      json::parse(std::ifstream(blob_path(at(archive, "/status/head/manifestDigest"))));
  // The last layer: a load need not read what a later one replaced, and a slow compiler is saved in
  // several.
  const std::string layer = blob_path(at(manifest.at("layers").back(), "/digest"));
  {
    const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(layer) / 2);
    std::fstream file(layer, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(middle);
    const char byte = static_cast<char>(file.get());
    file.seekp(middle);
    file.put(static_cast<char>(byte ^ 1));
  }
  const json result = run_to_ready({"two", {}});
  EXPECT_GE(at(result, "/misses").get<int>(), 1);
  // It may have been saved again by now, which ends the condition.
  json condition = json::object();
  EXPECT_TRUE(eventually(seconds(120), [&] {
    for (const json& archived : archives()) {
      for (const json& found : at(archived, "/status/conditions")) {
        if (found["type"] == "Corrupt") condition = found;
      }
    }
    return condition.value("status", "") == "True" || condition.value("reason", "") == "SavedAnew";
  })) << condition;
}

TEST_F(Faults, AnArchiveThatMakesPodsCrashIsHandedOutNoMore) {
  create_cache();
  wait_until_ready();
  run_to_ready({"one", kSmall});
  wait_for_save();
  remove_pod("one");
  EXPECT_EQ(at(run_to_ready({"two", kSmall}), "/misses"), 0);
  const json whole = archives().front();
  EXPECT_NE(exec("two", {"python3", "-c", kBreakKernels}), "") << "no kernel was found";
  wait_for_save(at(whole, "/status/head/generation").get<int>() + 1);
  remove_pod("two");

  start({"three", kSmall});
  start({"four", kSmall});
  json suspect = json::object();
  ASSERT_TRUE(eventually(seconds(180),
                         [&] {
                           for (const json& found : at(archives().front(), "/status/conditions")) {
                             if (found["type"] == "Suspect") suspect = found;
                           }
                           return suspect.value("status", "") == "True";
                         }))
      << suspect << at(pod("three"), "/status");
  EXPECT_EQ(suspect["reason"], "PodsCrashed");
  remove_pod("three");
  remove_pod("four");

  const json later = run_to_ready({"five", kSmall});
  EXPECT_EQ(at(later, "/misses"), 0) << "the previous generation was not handed out";
  EXPECT_EQ(at(pod("five"), "/status/containerStatuses/0/restartCount"), 0);
  EXPECT_EQ(at(archives().front(), "/status/previous/manifestDigest"),
            at(whole, "/status/head/manifestDigest"));
}

TEST_F(Faults, ASaverKilledInASaveHarmsNobody) {
  save_one();
  const json before = archives().front();
  run_to_ready({"two", {"--shapes", "8,16,24"}});
  for (const std::string kill : {"first", "second"}) {
    // Something that takes a while to write; again for each kill, as the saver is back at once.
    exec("two", {"sh", "-c",
                 "d=$TORCHINDUCTOR_CACHE_DIR/fxgraph/zz/LARGE; mkdir -p $d; "
                 "head -c 100000000 /dev/urandom > $d/" +
                     kill});
    ASSERT_TRUE(kill_saver_while_it_writes(pod("two"), place(), "transformer"))
        << "no save was under way: " << logs("two", kSaverContainer);
    expect_undisturbed(pod("two"));
  }
  // There is an archive to load, and it is saved in the end.
  EXPECT_GE(at(archives().front(), "/status/head/generation").get<int>(),
            at(before, "/status/head/generation").get<int>());
  EXPECT_EQ(at(run_to_ready({"three", {}}), "/misses"), 0);
  EXPECT_TRUE(eventually(seconds(120), [&] {
    const auto files = archived_files(archives().front());
    return files.contains("torch/fxgraph/zz/LARGE/first") &&
           files.contains("torch/fxgraph/zz/LARGE/second");
  })) << logs("two", kSaverContainer);
  expect_undisturbed(pod("two"));
}

}  // namespace
}  // namespace compilecache::e2e
