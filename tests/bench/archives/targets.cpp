#include "targets.hpp"

#include <cstdio>

namespace compilecache::bench {
namespace {

void line(const char* what, double value, double limit, const char* unit) {
  std::printf("  %-58s %8.2f %-5s to reach %6.2f  %s\n", what, value, unit, limit,
              value <= limit ? "reached" : "NOT REACHED");
}

class Table {
 public:
  explicit Table(const Results& results) : results_(results) {}

  void print() const {
    ratio("load, large set, times cp -r", "large", &Measured::load, 1.3);
    if (const Measured* ours = find("small", "ours"))
      line("load, small cache, process start included", ours->load.median() * 1000, 25, "ms");
    ratio("load, small cache, times cp -r", "small", &Measured::load, 2);
    ratio("first save, large set, times cp -r", "large", &Measured::save, 2);
    const Measured* ours = find("large", "ours");
    const Measured* zstd = find("large", "tar|zstd");
    if (ours != nullptr && zstd != nullptr)
      line("archive, large set, times zstd -9's size",
           static_cast<double>(ours->bytes) / static_cast<double>(zstd->bytes), 1.1, "x");
    ratio("load, hardly compressible, times cp -r", "noise", &Measured::load, 1.5);
    ratio("save, hardly compressible, times cp -r", "noise", &Measured::save, 3);
    for (const char* set : {"large", "many"}) {
      const Measured* mine = find(set, "ours");
      if (mine != nullptr && !mine->delta.seconds.empty())
        line((std::string("save of 1 % more, share of the first, ") + set).c_str(),
             mine->delta.median() / mine->save.median() * 100, 5, "%");
    }
    if (results_.scan_seconds)
      line("scan of 50,000 unchanged files", *results_.scan_seconds * 1000, 150, "ms");
    for (const char* set : {"small", "vllm"})
      ratio((std::string("16 loads at once, times 16 cp -r, ") + set).c_str(), set,
            &Measured::loads, 1.2);
    waiting("waiting saver", results_.waiting_small);
    waiting("waiting saver, 50,000 files", results_.waiting_many);
  }

 private:
  [[nodiscard]] const Measured* find(const std::string& set, const std::string& peer) const {
    const auto found = results_.by_set_and_peer.find({set, peer});
    return found == results_.by_set_and_peer.end() ? nullptr : &found->second;
  }

  void ratio(const char* what, const std::string& set, Times Measured::*times, double limit) const {
    const Measured* ours = find(set, "ours");
    const Measured* cp = find(set, "cp");
    if (ours == nullptr || cp == nullptr || (ours->*times).seconds.empty()) return;
    line(what, (ours->*times).median() / (cp->*times).median(), limit, "x");
  }

  static void waiting(const std::string& what, const std::optional<Waiting>& measured) {
    if (!measured) return;
    line((what + ", resident").c_str(), measured->resident_mib, 8, "MiB");
    line((what + ", of a core").c_str(), measured->cpu_percent, 0.2, "%");
  }

  const Results& results_;
};

}  // namespace

void print_targets(const Results& results) {
  std::printf("targets (medians):\n");
  Table(results).print();
  std::fflush(stdout);
}

}  // namespace compilecache::bench
