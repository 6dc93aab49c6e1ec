#include "tests/e2e/sandbox.hpp"

// An image that runs as root and leaves a file which only its owner may read, as torch 2.12 and
// later do with vLLM's model (mkstemp, so no umask helps).

namespace compilecache::e2e {
namespace {

// Reads what is there, then makes what is not.
constexpr char kApp[] = R"(
cd "$TORCHINDUCTOR_CACHE_DIR" || exit 1
found=
for file in fxgraph/ab/OPEN/file fxgraph/cd/MODEL/model; do
  [ -s "$file" ] && cat "$file" >/dev/null && found="$found,\"${file##*/}\""
done
mkdir -p fxgraph/ab/OPEN fxgraph/cd/MODEL
[ -s fxgraph/ab/OPEN/file ] || echo open >fxgraph/ab/OPEN/file
if [ ! -s fxgraph/cd/MODEL/model ]; then
  temporary=$(mktemp -p .) && echo compiled >"$temporary" && mv "$temporary" fxgraph/cd/MODEL/model
fi
echo "{\"phase\": \"ready\", \"found\": [${found#,}], \"mode\": \"$(stat -c %a fxgraph/cd/MODEL/model)\"}"
exec sleep 3600
)";

class SaverUser : public Sandbox {
 protected:
  json run_app(const std::string& name) {
    TorchPod how{name};
    how.image = "docker.io/library/debian:bookworm-slim";
    json pod = manifest(how);
    pod["spec"]["containers"][0]["command"] = {"sh", "-c", kApp};
    EXPECT_EQ(testing::apply(pod), "");
    return wait_for_result(name);
  }
  json saver_of(const std::string& name) const {
    for (const json& container : at(pod(name), "/spec/initContainers")) {
      if (container.at("name") == "compilecache-save") return container;
    }
    return nullptr;
  }
  bool has_model(const json& archive) const {
    return archived_files(archive).contains("torch/fxgraph/cd/MODEL/model");
  }
};

TEST_F(SaverUser, IsTheOwnerOfFilesThatNobodyElseMayRead) {
  create_cache();
  wait_until_ready();

  const json first = run_app("first");
  EXPECT_EQ(at(first, "/found"), json::array());
  EXPECT_EQ(at(first, "/mode"), "600");
  const json half = wait_for_save(1);
  EXPECT_TRUE(archived_files(half).contains("torch/fxgraph/ab/OPEN/file"));
  EXPECT_FALSE(has_model(half)) << "its saver is not root";
  EXPECT_EQ(at(half, "/status/head/leftOut"), 1);
  EXPECT_EQ(at(saver_of("first"), "/securityContext/runAsUser"), nullptr);
  ASSERT_TRUE(eventually(seconds(60), [&] {
    return at(cache(), "/status/fileOwners/0/user") == 0;
  })) << cache();
  remove_pod("first");

  const json second = run_app("second");
  EXPECT_EQ(at(second, "/found"), json::array({"file"}));
  EXPECT_EQ(at(saver_of("second"), "/securityContext/runAsUser"), 0);
  EXPECT_EQ(at(saver_of("second"), "/securityContext/capabilities/drop"), json::array({"ALL"}));
  const json whole = wait_for_save(2);
  EXPECT_TRUE(has_model(whole));
  EXPECT_EQ(at(whole, "/status/head/leftOut"), nullptr);
  remove_pod("second");

  const json third = run_app("third");
  EXPECT_EQ(at(third, "/found"), json::array({"file", "model"}));
  EXPECT_TRUE(eventually(seconds(60), [&] {
    return at(cache(), "/status/effect/full").is_number() &&
           at(cache(), "/status/effect/full") == 1;
  })) << cache();
}

}  // namespace
}  // namespace compilecache::e2e
