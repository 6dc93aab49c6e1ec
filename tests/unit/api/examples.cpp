// The examples in the headers of api/, word for word (tests/support/header_examples.py). They are
// compiled and never run.

#include <vector>

#include "api/agent_api.hpp"
#include "api/agent_resources.hpp"
#include "api/archive_key.hpp"
#include "api/compile_cache.hpp"
#include "api/fields.hpp"
#include "api/injection_bounds.hpp"
#include "api/recent_pods.hpp"
#include "api/repository_name.hpp"
#include "api/store_ref.hpp"
#include "api/words.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::api {

enum class Answer { kYes, kNo };
template <>
inline constexpr auto kWords<Answer> = std::to_array<Word<Answer>>({{Answer::kYes, "yes"},
                                                                    {Answer::kNo, "no"}});

inline std::string at_least_one(const int& watts) { return watts < 1 ? "must be at least 1" : ""; }
struct Lamp {
  int watts = 0;
  std::string color;
};
template <>
inline constexpr auto kFields<Lamp> =
    std::tuple{field_of("watts", &Lamp::watts, at_least_one), field_of("color", &Lamp::color)};

namespace examples {

inline bool fields(const nlohmann::json& json, Lamp& lamp, JsonWriter& out) {
  FieldReader reader("spec");
  reader.read(json, lamp);
  if (!reader.error().empty()) return false;
  write_value(out, lamp, Write::kUnusual);
  return true;
}

inline std::string agent_resources(const CompileCache& cache) {
  AgentResources of_pod = cache.spec.resources;
  of_pod.save.limits.memory = Quantity{1 << 30};
  if (const std::string why = trouble_of(of_pod); !why.empty()) return why;
  return "";
}

inline void injection_bounds(const std::string& text, InjectionStatus& status) {
  if (text.size() > kLongestInjectionStatus) return;
  if (exceeds_bounds(status)) return;
  drop_removal_lists(status);
}

inline void words() {
  to_string(Answer::kYes);
  parse_word<Answer>("yes");
}

struct Traffic {
  void begin(const std::string& store, const std::string& pod_uid);
};
inline void store_ref(const CompileCache& cache, const OwnRegistry& own_registry, Traffic& traffic,
                      const std::string& pod_uid) {
  const auto store = store_of(cache, own_registry);
  traffic.begin(store->id(), pod_uid);
  store->volume()->claim;
}

inline void repository_name() {
  const auto name = parse_repository("harbor.example.com:8443/ml/caches");
  name->host;
  name->path;
  parse_repository("harbor.example.com/ml/caches:v1").error().message;
}

struct Response {
  std::string body;
};
inline bool agent_api(const std::string& body, Response& response) {
  const Result<LoadRequest> request = parse<LoadRequest>(body);
  response.body = dump(LoadAnswer{.reason = "no_archive"});
  return request.has_value();
}

inline void key() {
  KeyBasis basis = {};
  NodeFacts node{"NVIDIA-H100-80GB-HBM3", "amd64"};
  auto key = make_key(basis, node);
  archive_name("transformer", *key);
}

inline size_t recent_pods(const std::vector<RecentPod>& pods) {
  size_t length = 0;
  RecentPods recent = pods;
  for (const RecentPod& pod : recent.list()) length += pod.pod.size();
  return length;
}

}  // namespace examples
}  // namespace compilecache::api

#pragma GCC diagnostic pop
