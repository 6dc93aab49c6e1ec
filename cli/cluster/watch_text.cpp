#include "cli/cluster/watch_text.hpp"

#include <ostream>

#include "cli/text/complaint.hpp"

namespace compilecache::cli {
namespace {

constexpr std::chrono::seconds kWatchInterval{2};
constexpr char kClear[] = "\033[H\033[2J\033[3J";

const char* between(const WatchedOutput& how) {
  if (how.terminal) return kClear;
  if (how.output == "yaml") return "---\n";
  return how.output.empty() || how.output == "wide" ? "\n" : "";
}

}  // namespace

int watch_text(const kube::Client& client, const std::function<Result<std::string>()>& read,
               const WatchedOutput& how, std::ostream& out, std::ostream& errors) {
  std::string last, last_error;
  for (bool first = true;; (void)client.pause(kWatchInterval)) {
    const auto text = read();
    if (!text) {
      if (text.error().message != last_error) complain(text.error(), errors);
      if (first) return 1;
      last_error = text.error().message;
      continue;
    }
    last_error.clear();
    if (!first && *text == last) continue;
    out << (first && !how.terminal ? "" : between(how)) << *text << std::flush;
    last = *text;
    first = false;
  }
}

}  // namespace compilecache::cli
