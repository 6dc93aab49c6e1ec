#include "cli/archives/verdicts.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "base/printable.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// The list stands on lines of its own.
json list_in(const std::string& log) {
  size_t begin = log.starts_with('[') ? 0 : log.find("\n[");
  if (begin == std::string::npos) return nullptr;
  begin = log.find('[', begin);
  const size_t end = log.find("\n]", begin);
  const size_t length = end == std::string::npos ? std::string::npos : end + 2 - begin;
  json list = json::parse(log.substr(begin, length), nullptr, false);
  return list.is_array() ? list : json();
}

std::string text_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

Result<std::vector<Verdict>> read_verdicts(const std::string& log,
                                           const std::vector<api::CompileCacheArchive>& archives) {
  const json list = list_in(log);
  if (!list.is_array()) {
    return fail(ErrorCode::kInvalid,
                "the Job has not said what it found: " + printable(log.substr(0, 500)));
  }
  std::map<std::string, json> found;
  for (const json& item : list) {
    if (item.is_object()) found[text_in(item, "digest")] = item;
  }
  std::vector<Verdict> verdicts;
  for (const auto& archive : archives) {
    Verdict verdict{archive.cache, archive.metadata.name, archive.head.manifest_digest};
    const auto item = found.find(verdict.digest);
    if (item == found.end()) {
      verdict.error = "the Job said nothing of it";
    } else {
      const auto whole = item->second.find("whole");
      verdict.whole = whole != item->second.end() && *whole == true;
      verdict.error = text_in(item->second, "error");
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::string text_of(const Verdict& verdict) {
  const std::string name = printable(verdict.cache + "/" + verdict.archive);
  if (verdict.whole) return "whole    " + name + " " + verdict.digest + "\n";
  return "CORRUPT  " + name + " " + printable(verdict.error) + "\n";
}

json json_of(const std::vector<Verdict>& verdicts) {
  json all = json::array();
  for (const Verdict& verdict : verdicts) {
    all.push_back({{"cache", verdict.cache},
                   {"archive", verdict.archive},
                   {"digest", verdict.digest},
                   {"whole", verdict.whole},
                   {"error", verdict.error}});
  }
  return all;
}

}  // namespace compilecache::cli
