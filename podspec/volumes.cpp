#include "podspec/volumes.hpp"

#include "api/names.hpp"
#include "base/json_writer.hpp"

namespace compilecache::podspec {

namespace {

// The kubelet renews it at 80 % of its life.
constexpr int kTokenSeconds = 3600;

// A volume whose source is the object that `write` writes.
template <typename Write>
Volume volume(const std::string& name, const char* source, const Write& write) {
  JsonWriter out;
  out.begin_object();
  out.field("name", name);
  out.key(source);
  out.begin_object();
  write(out);
  out.end_object();
  out.end_object();
  return {name, out.text()};
}

Volume store_volume(const api::VolumeRef& store) {
  return volume(api::kStoreVolume, "persistentVolumeClaim",
                [&](JsonWriter& out) { out.field("claimName", store.claim); });
}

Volume token_volume() {
  return volume(api::kTokenVolume, "projected", [](JsonWriter& out) {
    out.key("sources");
    out.begin_array();
    out.begin_object();
    out.key("serviceAccountToken");
    out.begin_object();
    out.field("audience", api::kTokenAudience);
    out.field("expirationSeconds", kTokenSeconds);
    out.field("path", "token");
    out.end_object();
    out.end_object();
    out.end_array();
  });
}

}  // namespace

Volume empty_dir(const std::string& name) {
  return volume(name, "emptyDir", [](JsonWriter&) {});
}

std::vector<Volume> agent_volumes(const api::StoreRef& store) {
  return {std::visit([](const auto& kind) { return store_volume(kind); }, store), token_volume()};
}

}  // namespace compilecache::podspec
