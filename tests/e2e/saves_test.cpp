#include <algorithm>
#include <sstream>

#include "tests/e2e/sandbox.hpp"

namespace compilecache::e2e {
namespace {

class Saves : public Sandbox {};

struct LockEvent {
  std::string what;  // "granted", "committed", "released", "expired"
  int64_t fence = 0;
};

std::vector<LockEvent> lock_history(const std::string& ns, const std::string& archive) {
  std::vector<LockEvent> history;
  std::istringstream lines(operator_logs());
  for (std::string line; std::getline(lines, line);) {
    const json entry = json::parse(line, nullptr, false);
    if (!entry.is_object() || entry.value("archive", "") != archive) continue;
    if (entry.value("namespace", "") != ns) continue;
    for (const char* what : {"granted", "committed", "released", "expired"}) {
      if (entry.value("message", "") == std::string("save ") + what) {
        history.push_back({what, std::stoll(entry.value("fence", "0"))});
      }
    }
  }
  return history;
}

TEST_F(Saves, OfThreeColdPodsNeverOverlapAndUnite) {
  create_cache();
  wait_until_ready();
  const std::vector<std::string> shapes{"8,16", "8,24", "8,32"};
  for (size_t i = 0; i < shapes.size(); ++i) {
    start({"pod-" + std::to_string(i), {"--shapes", shapes[i]}});
  }
  std::set<std::string> keys;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const json result = wait_for_result("pod-" + std::to_string(i), seconds(240));
    for (const json& key : at(result, "/keys")) keys.insert("torch/" + key.get<std::string>());
  }
  ASSERT_GE(keys.size(), 4U);

  // Every key that any of them compiled is in the archive in the end.
  std::set<std::string> missing = keys;
  EXPECT_TRUE(eventually(seconds(120),
                         [&] {
                           if (archives().empty()) return false;
                           const std::set<std::string> files = archived_files(archives().front());
                           missing.clear();
                           for (const std::string& key : keys) {
                             const auto first = files.lower_bound(key + "/");
                             if (first == files.end() || !first->starts_with(key + "/"))
                               missing.insert(key);
                           }
                           return missing.empty();
                         }))
      << missing.size() << " of " << keys.size() << " keys are missing, such as "
      << *missing.begin();

  ASSERT_EQ(archives().size(), 1U);
  const json archive = archives().front();
  const auto history = lock_history(ns(), at(archive, "/metadata/name"));
  int64_t holder = 0;
  int64_t last_fence = 0;
  int commits = 0;
  for (const LockEvent& event : history) {
    if (event.what == "granted") {
      EXPECT_EQ(holder, 0) << "fence " << event.fence << " granted while " << holder
                           << " held the lock";
      EXPECT_GT(event.fence, last_fence);
      last_fence = holder = event.fence;
    } else {
      EXPECT_EQ(event.fence, holder) << event.what;
      if (event.what == "committed") ++commits;
      holder = 0;
    }
  }
  EXPECT_EQ(commits, at(archive, "/status/head/generation").get<int>());
  EXPECT_GE(commits, 2);

  for (size_t i = 0; i < shapes.size(); ++i) remove_pod("pod-" + std::to_string(i));
  EXPECT_EQ(at(run_to_ready({"last", {"--shapes", "8,16,24,32"}}), "/misses"), 0);
}

}  // namespace
}  // namespace compilecache::e2e
