#include "cli/doctor/findings.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/text/page.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 4> kWords{"ok", "warn", "fail", "skip"};
constexpr size_t kLevelWidth = 6, kCheckWidth = 13;  // and a blank

const char* word_of(Level level) { return kWords.at(static_cast<size_t>(level)); }

int64_t count(const Findings& findings, Level level) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.level == level; });
}

std::string some(int64_t number, const std::string& one, const std::string& many) {
  return std::to_string(number) + " " + (number == 1 ? one : many);
}

}  // namespace

std::string text_of(const Findings& findings) {
  Page page;
  for (const Finding& finding : findings) {
    const std::string level = finding.level == Level::kFail ? "FAIL" : word_of(finding.level);
    page.line(padded(level, kLevelWidth) + padded(finding.check, kCheckWidth),
              finding.text + (finding.next.empty() ? "" : "; " + finding.next));
  }
  return page.take() + "\n" + std::to_string(count(findings, Level::kOk)) + " ok, " +
         some(count(findings, Level::kWarn), "warning", "warnings") + ", " +
         some(count(findings, Level::kFail), "failure", "failures") + ", " +
         std::to_string(count(findings, Level::kUnchecked)) + " not checked\n";
}

json json_of(const Findings& findings) {
  json list = json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"level", word_of(finding.level)},
                    {"check", finding.check},
                    {"text", finding.text},
                    {"next", finding.next}});
  }
  json all = {{"findings", list}};
  for (const Level level : {Level::kOk, Level::kWarn, Level::kFail, Level::kUnchecked}) {
    all[word_of(level)] = count(findings, level);
  }
  return all;
}

bool any_failed(const Findings& findings) { return count(findings, Level::kFail) > 0; }

}  // namespace compilecache::cli
