#include "api/recent_pods.hpp"

#include <string_view>

namespace compilecache::api {
namespace {

constexpr unsigned kMore = 0x80;

void put_number(std::string& packed, uint64_t number) {
  for (; number >= kMore; number >>= 7U) packed += static_cast<char>(number | kMore);
  packed += static_cast<char>(number);
}

uint64_t take_number(std::string_view& packed) {
  uint64_t number = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(packed.front());
    packed.remove_prefix(1);
    number |= uint64_t{byte & (kMore - 1)} << shift;
    if ((byte & kMore) == 0) return number;
  }
}

void put_text(std::string& packed, const std::string& text, const std::string& before) {
  if (text == before) return put_number(packed, 0);
  put_number(packed, text.size() + 1);
  packed += text;
}

void take_text(std::string_view& packed, std::string& text) {
  const uint64_t size = take_number(packed);
  if (size == 0) return;
  text = packed.substr(0, size - 1);
  packed.remove_prefix(size - 1);
}

}  // namespace

RecentPods::RecentPods(const std::vector<RecentPod>& pods) {
  const RecentPod none;
  const RecentPod* before = &none;
  for (const RecentPod& pod : pods) {
    for (const auto& field : kRecentPodTexts) {
      put_text(packed_, pod.*field.text, before->*field.text);
    }
    put_number(packed_, static_cast<uint64_t>(pod.milliseconds));
    before = &pod;
  }
  packed_.shrink_to_fit();
}

std::vector<RecentPod> RecentPods::list() const {
  std::vector<RecentPod> pods;
  RecentPod pod;
  for (std::string_view rest = packed_; !rest.empty();) {
    for (const auto& field : kRecentPodTexts) take_text(rest, pod.*field.text);
    pod.milliseconds = static_cast<int64_t>(take_number(rest));
    pods.push_back(pod);
  }
  return pods;
}

}  // namespace compilecache::api
