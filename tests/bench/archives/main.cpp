#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "measure.hpp"
#include "peers.hpp"
#include "sets.hpp"

// README.md says what is measured and how to read it.

namespace compilecache::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string directory = fs::temp_directory_path() / "bench-archives";
  std::vector<std::string> sets = set_names();
  std::vector<std::string> only;
  int repeat = 5;
  bool cold = false;
};

struct Measured {
  Times save;
  Times load;
  Times loads;  // 16 at once
  Times delta;  // ours only
  uint64_t bytes = 0;
};

uint64_t bytes_below(const std::string& directory) {
  uint64_t sum = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) sum += entry.file_size();
  }
  return sum;
}

void remove_loaded(const std::string& directory) {
  for (int i = 0; i < 16; ++i) fs::remove_all(directory + "/loaded-" + std::to_string(i));
}

void round(const Peer& peer, const Set& set, const std::string& changed, const Options& options,
           bool first, Measured& out) {
  const std::string archive = options.directory + "/archive";
  fs::create_directories(archive);
  std::map<std::string, std::string> variables = {
      {"SRC", set.directory}, {"ARC", archive}, {"DST", options.directory + "/loaded"}};
  measure(out.save, peer.save, variables, 1, options.cold);
  out.bytes = bytes_below(archive);
  measure(out.load, peer.load, variables, 1, options.cold);
  if (first &&
      std::system(
          ("diff -r '" + set.directory + "' '" + options.directory + "/loaded-0'").c_str()) != 0)
    throw std::runtime_error(peer.name + " does not give back what it saved");
  remove_loaded(options.directory);
  if (set.bytes < 100'000'000) {  // sixteen copies of more would measure the disk alone
    measure(out.loads, peer.load, variables, 16, options.cold);
    remove_loaded(options.directory);
  }
  if (peer.name == "ours") {
    variables["SRC"] = changed;
    measure(out.delta, peer.save, variables, 1, options.cold);
  }
  fs::remove_all(archive);
}

void print(const char* what, const Times& times, const Times& measure_of_all) {
  if (times.seconds.empty()) return;
  std::printf("    %-14s %8.3f %8.3f %8.3f s", what, times.minimum(), times.median(),
              times.maximum());
  if (!measure_of_all.seconds.empty())
    std::printf("  %6.2f x", times.median() / measure_of_all.median());
  std::printf("   %6.1f MiB at most\n", static_cast<double>(times.peak_kib) / 1024);
}

void run(const Options& options, const std::string& this_program) {
  fs::remove_all(options.directory);
  fs::create_directories(options.directory);
  std::vector<Peer> all = peers(this_program);
  std::erase_if(all, [&](const Peer& peer) {
    return !options.only.empty() && peer.name != "cp" &&
           std::find(options.only.begin(), options.only.end(), peer.name) == options.only.end();
  });
  for (const std::string& name : options.sets) {
    const Set set = make_set(name, options.directory);
    const std::string changed = options.directory + "/changed";
    fs::copy(set.directory, changed, fs::copy_options::recursive);
    change_one_percent(changed);
    std::printf("%s: %lu files, %.1f MB; minimum, median, maximum of %d, and times cp -r\n",
                name.c_str(), set.files, static_cast<double>(set.bytes) / 1e6, options.repeat);
    std::map<std::string, Measured> measured;
    for (int i = 0; i < options.repeat; ++i) {
      for (const Peer& peer : all) round(peer, set, changed, options, i == 0, measured[peer.name]);
    }
    const Measured& cp = measured["cp"];
    for (const Peer& peer : all) {
      const Measured& mine = measured[peer.name];
      std::printf("  %s: %.2f MB\n", peer.name.c_str(), static_cast<double>(mine.bytes) / 1e6);
      print("save", mine.save, cp.save);
      print("load", mine.load, cp.load);
      print("load, 16 times", mine.loads, cp.loads);
      print("save 1 % more", mine.delta, mine.save);
    }
    std::fflush(stdout);
    fs::remove_all(set.directory);
    fs::remove_all(changed);
  }
  fs::remove_all(options.directory);
}

}  // namespace
}  // namespace compilecache::bench

int main(int argc, char** argv) {
  using namespace compilecache::bench;
  if (argc == 4 && (argv[1] == std::string("save") || argv[1] == std::string("load")))
    return run_as_peer({argv[1], argv[2], argv[3]});
  if (argc == 4 && argv[1] == std::string("make")) {
    make_set(argv[2], argv[3]);
    return 0;
  }
  Options options;
  CLI::App app("Measures archives against other ways to save and load a tree");
  app.add_option("--dir", options.directory, "Where to work: on the disk that is to be measured");
  app.add_option("--set", options.sets, "small, large, many, noise; all unless said");
  app.add_option("--peer", options.only, "ours, tar|zstd, py zip, py tar.gz; all unless said");
  app.add_option("--repeat", options.repeat, "Rounds")->check(CLI::Range(1, 1000));
  app.add_flag("--cold", options.cold, "Empty the page cache before each step");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options, std::filesystem::canonical("/proc/self/exe"));
  } catch (const std::exception& problem) {
    std::cerr << "bench_archives: " << problem.what() << "\n";
    return 1;
  }
  return 0;
}
