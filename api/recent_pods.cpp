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

using Texts = std::vector<std::string>;

void put_texts(std::string& packed, const Texts& texts, const Texts& before) {
  put_number(packed, texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    put_text(packed, texts[i], i < before.size() ? before[i] : "");
  }
}

void take_texts(std::string_view& packed, Texts& texts) {
  texts.resize(take_number(packed));
  for (std::string& text : texts) take_text(packed, text);
}

Texts texts_of(const ArchiveKey& key) {
  Texts texts;
  for (const auto& [part, value] : key) texts.insert(texts.end(), {part, value});
  return texts;
}

}  // namespace

RecentPods::RecentPods(const std::vector<RecentPod>& pods) {
  const RecentPod none;
  const RecentPod* before = &none;
  for (const RecentPod& pod : pods) {
    for (const auto& field : kRecentPodTexts) {
      put_text(packed_, pod.*field.field, before->*field.field);
    }
    for (const auto& field : kRecentPodNumbers) {
      put_number(packed_, static_cast<uint64_t>(pod.*field.field));
    }
    for (const auto& field : kRecentPodLists) {
      put_texts(packed_, pod.*field.field, before->*field.field);
    }
    put_texts(packed_, texts_of(pod.key), texts_of(before->key));
    before = &pod;
  }
  packed_.shrink_to_fit();
}

std::vector<RecentPod> RecentPods::list() const {
  std::vector<RecentPod> pods;
  RecentPod pod;
  Texts key;
  for (std::string_view rest = packed_; !rest.empty();) {
    for (const auto& field : kRecentPodTexts) take_text(rest, pod.*field.field);
    for (const auto& field : kRecentPodNumbers) {
      pod.*field.field = static_cast<int64_t>(take_number(rest));
    }
    for (const auto& field : kRecentPodLists) take_texts(rest, pod.*field.field);
    take_texts(rest, key);
    pod.key.clear();
    for (size_t i = 0; i + 1 < key.size(); i += 2) pod.key[key[i]] = key[i + 1];
    pods.push_back(pod);
  }
  return pods;
}

}  // namespace compilecache::api
