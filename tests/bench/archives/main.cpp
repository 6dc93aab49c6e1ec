#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "agent/scan.hpp"
#include "peers.hpp"
#include "targets.hpp"
#include "tests/bench/measuring/measure.hpp"
#include "tests/bench/measuring/sets.hpp"
#include "tests/support/slow_volume/slow_volume.hpp"

// README.md says what is measured and how to read it.

namespace compilecache::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string directory = fs::temp_directory_path() / "bench-archives";
  std::string agent;
  std::string b10_python;
  std::vector<std::string> sets = set_names();
  std::vector<std::string> only;
  int repeat = 5;
  int slow_repeat = 1;
  bool cold = false;
  bool slow_volume = false;
};

uint64_t bytes_below(const std::string& directory) {
  uint64_t sum = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) sum += entry.file_size();
  }
  return sum;
}

// ext4 does not use an inode again for minutes after its file was removed, and searches past all
// of these for each new file: of many files none are removed while others are being measured.
constexpr uint64_t kManyFiles = 10'000;

void discard(const std::string& path, const Set& set, const Options& options) {
  if (set.files < kManyFiles || options.slow_volume || !fs::exists(path)) {
    fs::remove_all(path);
    return;
  }
  static int number = 0;
  const std::string kept = options.directory + "/discarded";
  fs::create_directories(kept);
  fs::rename(path, kept + "/" + std::to_string(number++));
}

void discard_loaded(const Set& set, const Options& options) {
  for (int i = 0; i < 16; ++i) {
    const std::string loaded = options.directory + "/loaded-" + std::to_string(i);
    discard(loaded, set, options);
    fs::remove_all(loaded + ".control");
  }
}

// `volume` is where the archive lies; loads go to the local disk.
void round(const Peer& peer, const Set& set, const Options& options, const std::string& volume,
           bool first, Measured& out) {
  const std::string archive = volume + "/archive";
  fs::create_directories(archive);
  const std::map<std::string, std::string> variables = {
      {"SRC", set.directory}, {"ARC", archive}, {"DST", options.directory + "/loaded"}};
  measure(out.save, peer.save, variables, 1, options.cold);
  const std::string stored = archive + "/store";
  out.bytes = bytes_below(fs::exists(stored) ? stored : archive);
  measure(out.load, peer.load, variables, 1, options.cold);
  if (first &&
      std::system(
          ("diff -r '" + set.directory + "' '" + options.directory + "/loaded-0'").c_str()) != 0)
    throw std::runtime_error(peer.name + " does not give back what it saved");
  discard_loaded(set, options);
  // Sixteen copies of more measure the disk, or its file system, alone.
  if (set.bytes < 100'000'000 && set.files < kManyFiles && !peer.slow) {
    measure(out.loads, peer.load, variables, 16, options.cold);
    discard_loaded(set, options);
  }
  if (peer.name == "ours" && !options.slow_volume) {
    change_one_percent(set.directory);
    measure(out.delta, peer.save, variables, 1, options.cold);
    change_one_percent(set.directory);
  }
  discard(archive, set, options);
}

void print(const char* what, const Times& times, const Times& measure_of_all) {
  if (times.seconds.empty()) return;
  std::printf("    %-14s %8.3f %8.3f %8.3f s", what, times.minimum(), times.median(),
              times.maximum());
  if (measure_of_all.seconds.empty()) {
    std::printf("          ");
  } else {
    std::printf("  %6.2f x", times.median() / measure_of_all.median());
  }
  std::printf("  %8.3f s of CPU, %6.1f MiB at most\n", times.cpu(),
              static_cast<double>(times.peak_kib) / 1024);
}

void print(const Set& set, const std::vector<Peer>& all, const Options& options,
           const Results& results) {
  std::printf("%s: %lu files, %.1f MB; minimum, median, maximum of %d, and times cp -r\n",
              set.name.c_str(), set.files, static_cast<double>(set.bytes) / 1e6, options.repeat);
  const Measured& cp = results.by_set_and_peer.at({set.name, "cp"});
  for (const Peer& peer : all) {
    const Measured& mine = results.by_set_and_peer.at({set.name, peer.name});
    std::printf("  %s: %.2f MB\n", peer.name.c_str(), static_cast<double>(mine.bytes) / 1e6);
    print("save", mine.save, cp.save);
    print("load", mine.load, cp.load);
    print("load, 16 times", mine.loads, cp.loads);
    print("save 1 % more", mine.delta, mine.save);
  }
  std::fflush(stdout);
}

// The best of a few: what others do at the same time is not ours.
double scan_seconds(const std::string& directory) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (!agent::scan_directory(directory)) throw std::runtime_error("scanning " + directory);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

// A saver that has saved all there is.
Waiting waiting_saver(const Peer& ours, const Set& set, const Options& options, WaitingTime time) {
  const std::string archive = options.directory + "/archive";
  fs::create_directories(archive);
  const std::map<std::string, std::string> variables = {{"SRC", set.directory}, {"ARC", archive}};
  Times ignored;
  measure(ignored, ours.save, variables, 1, false);
  std::string watch = ours.save;
  watch.replace(watch.find(" --once"), 7, "");
  // With its configuration as a variable, which exec does not take before it.
  const Waiting waiting = measure_waiting("env " + watch, variables, time);
  fs::remove_all(archive);
  return waiting;
}

void run(Options options) {
  fs::remove_all(options.directory);
  fs::create_directories(options.directory);
  std::vector<Peer> all = peers(options.agent, options.b10_python);
  std::erase_if(all, [&](const Peer& peer) {
    return !options.only.empty() && peer.name != "cp" &&
           std::find(options.only.begin(), options.only.end(), peer.name) == options.only.end();
  });
  std::optional<testing::SlowVolume> volume;
  if (options.slow_volume) {
    if (const auto why = testing::SlowVolume::missing()) throw std::runtime_error(*why);
    volume.emplace();
  }
  Results results;
  for (const std::string& name : options.sets) {
    const Set set = make_set(name, options.directory);
    for (int i = 0; i < options.repeat; ++i) {
      for (size_t k = 0; k < all.size(); ++k) {
        // Each begins now and then: the memory that one frees is at hand for the next.
        const Peer& peer = all[(k + static_cast<size_t>(i)) % all.size()];
        if (peer.slow && set.bytes > 20'000'000 && i >= options.slow_repeat) continue;
        if (volume) volume->delay(std::chrono::milliseconds(5));
        round(peer, set, options, volume ? volume->path() : options.directory, i == 0,
              results.by_set_and_peer[{name, peer.name}]);
      }
    }
    print(set, all, options, results);
    const bool ours = all.size() > 1 && all[1].name == "ours" && !options.cold && !volume;
    if (ours && name == "many") results.scan_seconds = scan_seconds(set.directory);
    if (ours && name == "many")
      results.waiting_many = waiting_saver(all[1], set, options, {65, 60});
    if (ours && name == "small")
      results.waiting_small = waiting_saver(all[1], set, options, {5, 30});
    fs::remove_all(set.directory);
    fs::remove_all(options.directory + "/discarded");
  }
  if (!options.cold && !volume) print_targets(results);
  fs::remove_all(options.directory);
}

}  // namespace
}  // namespace compilecache::bench

int main(int argc, char** argv) {
  using namespace compilecache::bench;
  Options options;
  CLI::App app("Measures archives against other ways to save and load a tree");
  app.add_option("--dir", options.directory, "Where to work: on the disk that is to be measured");
  app.add_option("--agent", options.agent, "The program compilecache-agent")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--b10-python", options.b10_python, "A Python with the package b10-transfer");
  app.add_option("--set", options.sets, "small, vllm, large, many, noise; all unless said");
  app.add_option("--peer", options.only, "ours, tar|zstd, ...; all unless said");
  app.add_option("--repeat", options.repeat, "Rounds")->check(CLI::Range(1, 1000));
  app.add_option("--slow-repeat", options.slow_repeat, "Rounds of the slow peers, large sets");
  app.add_flag("--cold", options.cold, "Empty the page cache before each step");
  app.add_flag("--slow-volume", options.slow_volume,
               "The archive on a volume that takes 5 ms for each operation");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& problem) {
    std::cerr << "bench_archives: " << problem.what() << "\n";
    return 1;
  }
  return 0;
}
