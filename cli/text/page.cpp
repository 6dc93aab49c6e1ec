#include "cli/text/page.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/printable.hpp"
#include "base/quantity.hpp"
#include "base/time_format.hpp"

namespace compilecache::cli {
namespace {

constexpr size_t kLabelWidth = 10;
constexpr size_t kWidth = 100;

}  // namespace

void Page::line(const std::string& label, const std::string& text) {
  std::string indent = label;
  indent.resize(std::max(kLabelWidth, label.size() + 1), ' ');
  std::string line = indent;
  bool empty = true;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    word = printable(word);
    if (!empty && line.size() + 1 + word.size() > kWidth) {
      end(line);
      line.assign(indent.size(), ' ');
      empty = true;
    }
    line += (empty ? "" : " ") + word;
    empty = false;
  }
  end(line);
}

void Page::row(const std::string& text) { end(std::string(kLabelWidth, ' ') + printable(text)); }

void Page::table(const std::vector<std::vector<std::string>>& rows, Place place) {
  std::vector<size_t> widths;
  for (const auto& cells : rows) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  for (const auto& cells : rows) {
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) text += padded(cells[i], widths[i] + 2);
    place == Place::kUnderALine ? row(text) : end(printable(text));
  }
}

void Page::end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out_ += line + "\n";
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string size_text(int64_t bytes) {
  return format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, bytes)));
}

std::string age_text(const std::string& time, WallTime now) {
  const auto then = parse_time(time);
  if (!then) return "-";
  // In seconds, since nanoseconds do not reach from the first year that is read to this one.
  using std::chrono::time_point_cast;
  const auto ago = time_point_cast<std::chrono::seconds>(now).time_since_epoch() -
                   time_point_cast<std::chrono::seconds>(*then).time_since_epoch();
  const int64_t seconds = std::max<int64_t>(0, ago.count());
  if (seconds < 120) return std::to_string(seconds) + "s";
  if (seconds < 2L * 3600) return std::to_string(seconds / 60) + "m";
  if (seconds < 2L * 86400) return std::to_string(seconds / 3600) + "h";
  return std::to_string(seconds / 86400) + "d";
}

}  // namespace compilecache::cli
