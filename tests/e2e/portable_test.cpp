#include "tests/e2e/sandbox.hpp"
#include "tests/support/paths.hpp"

// PyTorch's portable caches, by the files of examples/.

namespace compilecache::e2e {
namespace {

const std::string kExample = testing::in_tree("examples/portable-cache/portable.py");

class Portable : public Sandbox {};

TEST_F(Portable, AnApplicationFindsItsOwnFileAgain) {
  create_cache("transformer", {{"frameworks", {"portable"}}});
  create_files("example", {kExample});
  wait_until_ready();
  const auto start_example = [&](const std::string& name) {
    json object = manifest({name});
    object["spec"]["containers"][0]["image"] = next_torch_image();
    object["spec"]["containers"][0]["command"] = {"python3", "/example/portable.py"};
    mount_files(object, "example");
    ASSERT_EQ(testing::apply(object), "");
  };
  start_example("one");
  EXPECT_EQ(at(wait_for_result("one"), "/misses"), 1);
  EXPECT_EQ(archived_files(wait_for_save()), std::set<std::string>{"portable/model"});
  remove_pod("one");

  start_example("two");
  const json warm = wait_for_result("two");
  EXPECT_EQ(at(warm, "/misses"), 0);
  EXPECT_EQ(at(warm, "/hits"), 1);
  EXPECT_TRUE(eventually(seconds(45), [&] { return at(cache(), "/status/effect/full") == 1; }))
      << at(cache(), "/status");
}

}  // namespace
}  // namespace compilecache::e2e
