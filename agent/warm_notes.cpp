#include "agent/warm_notes.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <vector>

#include "base/strings.hpp"

namespace compilecache::agent {
namespace {

// The newest that are noted, so that the note is no longer than an archive can have.
constexpr size_t kMost = 100;

std::string note_name(const std::string& framework) { return "warm/" + framework; }

}  // namespace

WarmFiles warm_files(const std::map<std::string, std::string>& notes,
                     const std::string& framework) {
  WarmFiles warm;
  const auto note = notes.find(note_name(framework));
  if (note == notes.end()) return warm;
  for (const std::string& line : split(note->second, '\n')) {
    const size_t blank = line.find(' ');
    int64_t modified = 0;
    if (blank == std::string::npos ||
        std::from_chars(line.data(), line.data() + blank, modified).ptr != line.data() + blank) {
      continue;
    }
    warm[line.substr(blank + 1)] = modified;
  }
  return warm;
}

bool is_noted(const WarmFiles& warm, const archive::FileEntry& file) {
  const auto found = warm.find(file.path);
  return found != warm.end() && file.modified_ns == found->second;
}

std::map<std::string, std::string> warm_note(const std::string& framework, const WarmFiles& warm) {
  std::vector<int64_t> times;
  for (const auto& [path, modified] : warm) times.push_back(modified);
  std::sort(times.begin(), times.end(), std::greater<>());
  const int64_t oldest = times.size() > kMost ? times[kMost - 1] : 0;
  std::string text;
  for (const auto& [path, modified] : warm) {
    if (modified >= oldest) text += std::to_string(modified) + " " + path + "\n";
  }
  return {{note_name(framework), text}};
}

}  // namespace compilecache::agent
