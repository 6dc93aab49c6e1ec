#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <stdexcept>

#include "archive/manifest.hpp"
#include "registry.hpp"
#include "results.hpp"
#include "steps.hpp"
#include "store/directory/directory_store.hpp"
#include "tests/bench/measuring/measure.hpp"
#include "tests/bench/measuring/sets.hpp"

// README.md says what is measured and how to read it.

namespace compilecache::bench {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

struct Options {
  std::string directory = fs::temp_directory_path() / "bench-registry";
  std::string registry;
  Programs programs;
  std::vector<std::string> sets = {"vllm", "large", "noise"};
  std::vector<std::string> crowds = {"vllm", "noise-88"};
  int at_once = 16;
  int repeat = 5;
  unsigned rest = 30;  // seconds
};

std::string output_of(const std::string& command, const Variables& variables) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("starting: " + command);
  std::string text;
  std::array<char, 4096> piece{};
  for (size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    text.append(piece.data(), got);
  if (::pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string hex_of(const std::string& digest) { return digest.substr(digest.find(':') + 1); }

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), registry_(options.registry, options.directory + "/registry") {
    results_.at_once = options.at_once;
    fs::create_directories(options_.directory + "/spool");
  }

  void run() {
    measure_idle();
    const auto all = steps(options_.programs);
    for (const std::string& name : options_.sets) {
      const Set set = prepare(name);
      for (int i = 0; i < options_.repeat; ++i) {
        // Each begins now and then: the memory that one frees is at hand for the next.
        for (size_t k = 0; k < all.size(); ++k)
          once(all[(k + static_cast<size_t>(i)) % all.size()], 1, i == 0, results_.by_set[name]);
      }
      print(set, 1, all, results_.by_set[name]);
      remove(set);
    }
    const auto crowd = crowd_steps(options_.programs);
    for (const std::string& name : options_.crowds) {
      const Set set = prepare(name);
      for (int i = 0; i < options_.repeat; ++i) {
        for (size_t k = 0; k < crowd.size(); ++k)
          once(crowd[(k + static_cast<size_t>(i)) % crowd.size()], options_.at_once, false,
               results_.crowds[name]);
      }
      print(set, options_.at_once, crowd, results_.crowds[name]);
      remove(set);
    }
    ::sleep(options_.rest);
    results_.after_mib = registry_.resident_mib();
    print_targets(results_);
  }

 private:
  // Saves the set where it will be loaded from.
  Set prepare(const std::string& name) {
    Set set = make_set(name, options_.directory);
    const std::string store = options_.directory + "/store";
    variables_ = {{"SRC", set.directory},
                  {"DST", options_.directory + "/made"},
                  {"SPOOL", options_.directory + "/spool"},
                  {"URL", registry_.url()},
                  {"HOST", registry_.host()},
                  {"CA", registry_.ca()},
                  {"REPOSITORY", "archives/" + name},
                  {"STORE", store}};
    const std::string step = options_.programs.step;
    output_of(step + " prepare $STORE", variables_);
    const std::string stored = output_of(step + " save $STORE $SRC", variables_);
    const store::DirectoryStore folder(store);
    const auto manifest = archive::read_manifest(folder, stored);
    if (!manifest) throw std::runtime_error(manifest.error().message);
    variables_["STORED"] = stored;
    // Another manifest of the same blobs: it carries those that are small.
    variables_["DIGEST"] =
        output_of(step + " --ca $CA --spool $SPOOL save $URL/$REPOSITORY $SRC", variables_);
    variables_["LAYER"] = hex_of(manifest->layers.at(0).digest);
    layer_bytes_ = manifest->layers.at(0).size;
    if (!options_.programs.oras.empty()) {
      output_of("cd $STORE && cp blobs/sha256/$LAYER layer.tar.zst && " + options_.programs.oras +
                    " push --no-tty --ca-file $CA $HOST/$REPOSITORY/file:layer layer.tar.zst && "
                    "rm layer.tar.zst",
                variables_);
    }
    return set;
  }

  void measure_idle() {
    const Registry idle(options_.registry, options_.directory + "/idle");
    output_of("curl -sSf --cacert " + idle.ca() + " " + idle.url() + "/v2/", {});
    ::sleep(2);
    results_.idle_mib = idle.resident_mib();
  }

  void once(const Step& step, int at_once, bool compare, Steps& into) {
    variables_["NUMBER"] = std::to_string(++number_);
    variables_["PREPARED"] = step.prepare.empty() ? "" : output_of(step.prepare, variables_);
    Measured& measured = into[step.name];
    registry_.forget_peak();
    const double before = registry_.cpu_seconds();
    measure(measured.times, step.command, variables_, at_once, false);
    measured.registry_cpu.push_back((registry_.cpu_seconds() - before) / at_once);
    measured.registry_peak_mib = std::max(measured.registry_peak_mib, registry_.peak_mib());
    if (compare && !step.tree.empty()) {
      auto made = variables_;
      made["DST"] += "-0";
      output_of("diff -r $SRC " + step.tree, made);
    }
    for (const auto& entry : fs::directory_iterator(options_.directory)) {
      if (entry.path().filename().string().starts_with("made")) fs::remove_all(entry.path());
    }
  }

  void print(const Set& set, int at_once, const std::vector<Step>& all, const Steps& steps) const {
    std::printf(
        "%s: %lu files, %.1f MB, layer %.2f MB; %d at once; minimum, median, maximum of %d\n",
        set.name.c_str(), set.files, static_cast<double>(set.bytes) / 1e6,
        static_cast<double>(layer_bytes_) / 1e6, at_once, options_.repeat);
    for (const Step& step : all) {
      const Measured& measured = steps.at(step.name);
      const Times& times = measured.times;
      std::printf(
          "  %-36s %8.3f %8.3f %8.3f s  %8.3f s of CPU, %6.1f MiB; registry: %8.4f s of CPU, "
          "%6.1f MiB\n",
          step.name.c_str(), times.minimum(), times.median(), times.maximum(), times.cpu(),
          static_cast<double>(times.peak_kib) / 1024, measured.least_registry_cpu(),
          measured.registry_peak_mib);
    }
    std::fflush(stdout);
  }

  void remove(const Set& set) const {
    fs::remove_all(set.directory);
    fs::remove_all(options_.directory + "/store");
  }

  const Options& options_;
  Registry registry_;
  Variables variables_;
  Results results_;
  uint64_t layer_bytes_ = 0;
  int number_ = 0;
};

void run(const Options& options) {
  fs::remove_all(options.directory);
  fs::create_directories(options.directory);
  Bench(options).run();
  fs::remove_all(options.directory);
}

}  // namespace
}  // namespace compilecache::bench

int main(int argc, char** argv) {
  using namespace compilecache::bench;
  Options options;
  CLI::App app("Measures loads and saves over a registry against other ways to do the same");
  app.add_option("--dir", options.directory, "Where to work: on the disk that is to be measured");
  app.add_option("--registry", options.registry, "The program of distribution v3")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--step", options.programs.step, "The program bench_registry_step")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--oras", options.programs.oras, "The program oras; left out unless said");
  app.add_option("--set", options.sets, "small, vllm, large, many, noise, noise-88");
  app.add_option("--crowd", options.crowds, "The same, loaded by many at once");
  app.add_option("--at-once", options.at_once, "How many are many")->check(CLI::Range(1, 1000));
  app.add_option("--repeat", options.repeat, "Rounds")->check(CLI::Range(1, 1000));
  app.add_option("--rest", options.rest, "Seconds before the registry's memory is looked at again");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& problem) {
    std::cerr << "bench_registry: " << problem.what() << "\n";
    return 1;
  }
  return 0;
}
