#include "results.hpp"

#include <algorithm>
#include <cstdio>

#include "steps.hpp"

namespace compilecache::bench {
namespace {

void line(const std::string& what, double value, double limit, const char* unit) {
  std::printf("  %-66s %8.2f %-4s to reach %6.2f  %s\n", what.c_str(), value, unit, limit,
              value <= limit ? "reached" : "NOT REACHED");
}

const Measured* find(const Steps& steps, const char* name) {
  const auto found = steps.find(name);
  return found == steps.end() ? nullptr : &found->second;
}

// What the sum of `others` is the measure of; nothing where one of them was not measured.
void ratio(const std::string& what, const Steps& steps, const char* ours,
           const std::vector<const char*>& others, double limit) {
  const Measured* mine = find(steps, ours);
  double sum = 0;
  for (const char* name : others) {
    const Measured* other = find(steps, name);
    if (other == nullptr) return;
    sum += other->times.minimum();
  }
  if (mine != nullptr) line(what, mine->times.minimum() / sum, limit, "x");
}

void print_times(const std::string& set, const Steps& steps) {
  if (set.starts_with("noise")) {
    ratio("load of " + set + ", times a bare GET", steps, kRegistryLoad, {kGet}, 1.3);
  } else {
    ratio("load of " + set + ", times that from a local volume", steps, kRegistryLoad, {kLocalLoad},
          1.5);
    ratio("load of " + set + ", times oras pull and tar", steps, kRegistryLoad, {kOras}, 1.0 / 3);
  }
  ratio("save of " + set + ", times that to a local volume plus a bare PUT", steps, kRegistrySave,
        {kLocalSave, kPut}, 1.3);
}

double peak_mib(const Results& results, const char* name) {
  long peak = 0;
  for (const auto* group : {&results.by_set, &results.crowds}) {
    for (const auto& [set, steps] : *group) {
      if (const Measured* measured = find(steps, name))
        peak = std::max(peak, measured->times.peak_kib);
    }
  }
  return static_cast<double>(peak) / 1024;
}

void print_crowd(const std::string& set, const Steps& steps, int at_once, double& peak) {
  const Measured* ours = find(steps, kRegistryLoad);
  const Measured* get = find(steps, kGet);
  if (ours == nullptr || get == nullptr) return;
  line(std::to_string(at_once) + " loads of " + set + ": registry's CPU, times a bare GET's",
       ours->least_registry_cpu() / get->least_registry_cpu(), 1.2, "x");
  if (const Measured* all = find(steps, kGetBoth)) {
    std::printf("  %-66s %8.2f x\n", "  times a GET of manifest and layer",
                ours->least_registry_cpu() / all->least_registry_cpu());
  }
  peak = std::max(peak, ours->registry_peak_mib);
}

}  // namespace

double Measured::least_registry_cpu() const {
  return *std::min_element(registry_cpu.begin(), registry_cpu.end());
}

void print_targets(const Results& results) {
  std::printf("targets (fastest of all rounds):\n");
  for (const auto& [set, steps] : results.by_set) print_times(set, steps);
  double peak = 0;
  for (const auto& [set, steps] : results.crowds) print_crowd(set, steps, results.at_once, peak);
  line("memory of a load, the most of all", peak_mib(results, kRegistryLoad), 64, "MiB");
  line("memory of a save, the most of all", peak_mib(results, kRegistrySave), 128, "MiB");
  line("registry's memory at " + std::to_string(results.at_once) + " loads", peak, 160, "MiB");
  line("registry's memory, idle", results.idle_mib, 32, "MiB");
  std::printf("  registry's memory half a minute after all of this: %.1f MiB\n", results.after_mib);
  std::fflush(stdout);
}

}  // namespace compilecache::bench
