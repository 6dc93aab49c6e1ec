#include "frameworks/use.hpp"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/sha256.hpp"
#include "base/strings.hpp"

namespace compilecache::frameworks {
namespace {

constexpr size_t kDigits = 12;
constexpr std::chrono::hours kDay{24};

template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

}  // namespace

int64_t day_of(WallTime time) {
  return std::chrono::duration_cast<std::chrono::hours>(time.time_since_epoch()) / kDay;
}

std::string family_hash(std::string_view framework, std::string_view family) {
  return sha256_hex(std::string(framework) + "/" + std::string(family)).substr(0, kDigits);
}

void ObservedUse::add(const Rules& rules, const Scan& scan, const LoadedFiles& loaded,
                      WallTime now) {
  if (!loaded.reads_visible) return;
  struct Found {
    bool of_entry = false, live = false, old = true;
  };
  std::unordered_map<std::string_view, Found> families;
  for (const FileInfo& file : scan) {
    if (file.type != FileType::kRegular || rules.never_packed(file.path)) continue;
    Found& found = families[rules.family(file.path)];
    const bool was_loaded = loaded.files.contains(file.path);
    const bool as_it_came = was_loaded && file.changed <= loaded.at;
    found.live = found.live || !as_it_came || file.accessed > kUnreadTime;
    found.old = found.old && file.modified + kDay < now;
    found.of_entry = found.of_entry || rules.is_of_entry(file.path);
  }
  for (const auto& [family, found] : families) {
    if (!found.of_entry) continue;
    std::string hash = family_hash(rules.name(), family);
    if (found.live) {
      read.insert(std::move(hash));
    } else {
      not_read.emplace(std::move(hash), found.old);
    }
  }
}

bool UseNote::Record::dead(int64_t today) const {
  if (read) return misses >= kMisses && today - day >= kDays;
  return misses >= kMissesAtOnce || (misses >= kMisses && today > day);
}

UseNote UseNote::parse(std::string_view text) {
  UseNote note;
  for (const std::string& line : split(text, '\n')) {
    const auto words = split(line, ' ');
    Record record;
    if (words.size() != 4 || words[0].size() != kDigits || !read_number(words[1], record.day) ||
        !read_number(words[2], record.misses) || note.records_.size() == kMost) {
      continue;
    }
    record.read = words[3] == "read";
    note.records_.emplace(words[0], record);
  }
  return note;
}

std::string UseNote::dump() const {
  std::string text;
  for (const auto& [family, record] : records_) {
    text += family + " " + std::to_string(record.day) + " " + std::to_string(record.misses) +
            (record.read ? " read\n" : " unread\n");
  }
  return text;
}

void UseNote::take(const ObservedUse& observed, int64_t today, bool missed) {
  for (const std::string& family : observed.read) {
    const auto known = records_.find(family);
    if (known != records_.end()) known->second = {today, 0, true};
  }
  if (!missed) return;
  for (const auto& [family, old] : observed.not_read) {
    // Nobody knows whether an old one was read: savers note that only once it was not.
    const auto known = records_.try_emplace(family, Record{today, 0, old}).first;
    ++known->second.misses;
  }
  keep_most();
}

// Always the same ones of those with as many misses, so that they come to an end.
void UseNote::keep_most() {
  if (records_.size() <= kMost) return;
  std::vector<std::pair<uint32_t, std::string>> order;
  order.reserve(records_.size());
  for (const auto& [family, record] : records_) order.emplace_back(~record.misses, family);
  std::nth_element(order.begin(), order.begin() + kMost, order.end());
  for (auto gone = order.begin() + kMost; gone != order.end(); ++gone) records_.erase(gone->second);
}

bool UseNote::is_dead(const std::string& family, int64_t today) const {
  const auto known = records_.find(family);
  return known != records_.end() && known->second.dead(today);
}

bool UseNote::has_dead(int64_t today) const {
  return std::any_of(records_.begin(), records_.end(),
                     [&](const auto& one) { return one.second.dead(today); });
}

void UseNote::forget_dead(int64_t today) {
  std::erase_if(records_, [&](const auto& one) { return one.second.dead(today); });
}

bool UseNote::saves(const ObservedUse& observed) const {
  return std::any_of(records_.begin(), records_.end(), [&](const auto& one) {
    return one.second.misses >= kAtRisk && observed.read.contains(one.first);
  });
}

}  // namespace compilecache::frameworks
