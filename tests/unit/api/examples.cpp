// The examples in the headers of api/, word for word (tests/support/header_examples.py). They are
// compiled and never run.

#include <vector>

#include "api/archive_key.hpp"
#include "api/recent_pods.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::api::examples {

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

}  // namespace compilecache::api::examples

#pragma GCC diagnostic pop
