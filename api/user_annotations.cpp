#include "api/user_annotations.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "api/names.hpp"
#include "base/near_names.hpp"

namespace compilecache::api {
namespace {

// Longer ones are not compared, as that takes time.
constexpr size_t kLongestCompared = 64;

constexpr std::array<std::string_view, 14> kKnown{
    kCacheAnnotation,        kContainersAnnotation,  kVersionAnnotation,     kFrameworksAnnotation,
    kModeAnnotation,         kQuietPeriodAnnotation, kOnlyIfUnsetAnnotation, kResourcesAnnotation,
    kWaitForFirstAnnotation, kStartKitAnnotation,    kDeliveryAnnotation,    kStatusAnnotation,
    kWorkloadAnnotation,     kAfterAnnotation};

// The part after "compilecache.dev/".
std::string_view own_part(std::string_view key) { return key.substr(sizeof(kGroup)); }

// Those that people write.
const std::vector<std::string>& written_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> own;
    for (const std::string_view key : kKnown) {
      if (key != kStatusAnnotation) own.emplace_back(own_part(key));
    }
    return own;
  }();
  return names;
}

}  // namespace

std::string annotation_fault(std::string_view key) {
  if (!key.starts_with(kGroup) || !key.substr(sizeof(kGroup) - 1).starts_with("/")) return {};
  if (std::find(kKnown.begin(), kKnown.end(), key) != kKnown.end()) return {};
  const std::string_view name = own_part(key);
  std::vector<std::string> near;
  if (name.size() <= kLongestCompared) near = near_names(name, written_names());
  return std::string(key) + ": no such annotation; " +
         (near.empty() ? "it has no effect"
                       : "did you mean " + std::string(kGroup) + "/" + near.front() + "?");
}

std::string label_fault() {
  return std::string(kCacheLabel) +
         " is a label of the pod; write it as an annotation of the pod template";
}

}  // namespace compilecache::api
