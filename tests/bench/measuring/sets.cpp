#include "sets.hpp"
#include "tests/support/paths.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

namespace compilecache::bench {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!(out << bytes) || !out.flush()) throw std::runtime_error("writing " + path.string());
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void unpack(const std::string& cache, const std::string& into) {
  fs::create_directories(into);
  const std::string command = "zstd -dcq --long=27 '" + testing::testdata("caches/") + cache +
                              ".tar.zst' | tar -x -C '" + into + "'";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

std::vector<fs::path> files_below(const std::string& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// One byte in each 64 KiB: what two compilations of near-equal graphs look like to a compressor.
void perturb(std::string& bytes, std::mt19937_64& random) {
  for (size_t at = 0; at < bytes.size(); at += 64 << 10) {
    const size_t piece = std::min<size_t>(64 << 10, bytes.size() - at);
    bytes[at + random() % piece] ^= 0x11;
  }
}

void make_large(const std::string& directory) {
  unpack("vllm-binary-llama-t4", directory + "/copy-0");
  std::mt19937_64 random(1);
  for (const fs::path& file : files_below(directory + "/copy-0")) {
    const std::string bytes = read(file);
    for (int copy = 1; copy < 16; ++copy) {
      std::string changed = bytes;
      perturb(changed, random);
      write(fs::path(directory) / ("copy-" + std::to_string(copy)) /
                fs::relative(file, directory + "/copy-0"),
            changed);
    }
  }
}

void make_many(const std::string& directory) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 50'000; ++i) {
    std::string text = "# kernel " + std::to_string(random()) + "\n";
    for (uint64_t lines = random() % 60; lines > 0; --lines)
      text += "tmp" + std::to_string(lines) + " = tl.load(in_ptr0 + x" +
              std::to_string(random() % 9) + ", xmask)\n";
    write(fs::path(directory) / std::to_string(i % 500) / (std::to_string(i) + ".py"), text);
  }
}

void make_noise(const std::string& directory, int files) {
  std::mt19937_64 random(3);
  for (int i = 0; i < files; ++i) {
    std::string bytes(8'000'000, '\0');
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      const uint64_t value = random();
      std::copy_n(reinterpret_cast<const char*>(&value), 8, bytes.begin() + static_cast<long>(at));
    }
    write(fs::path(directory) / ("weights-" + std::to_string(i)), bytes);
  }
}

// Archives do not keep them, so the comparison would find a difference.
void remove_empty_directories(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!entry.is_directory()) continue;
    remove_empty_directories(entry.path());
    if (fs::is_empty(entry.path())) fs::remove(entry.path());
  }
}

}  // namespace

std::vector<std::string> set_names() { return {"small", "vllm", "large", "many", "noise"}; }

Set make_set(const std::string& name, const std::string& below) {
  Set set{name, below + "/" + name};
  if (name == "small") {
    unpack("inductor-cpu-torch2.14", set.directory);
  } else if (name == "vllm") {
    unpack("vllm-binary-llama-t4", set.directory);
  } else if (name == "large") {
    make_large(set.directory);
  } else if (name == "many") {
    make_many(set.directory);
  } else if (name == "noise") {
    make_noise(set.directory, 50);
  } else if (name == "noise-88") {
    make_noise(set.directory, 11);
  } else {
    throw std::runtime_error("no set \"" + name +
                             "\"; there are small, vllm, large, many, noise and noise-88");
  }
  remove_empty_directories(set.directory);
  for (const fs::path& file : files_below(set.directory)) {
    ++set.files;
    set.bytes += fs::file_size(file);
  }
  return set;
}

void change_one_percent(const std::string& directory) {
  const auto files = files_below(directory);
  for (size_t i = 0; i < files.size(); i += 100) {
    std::string bytes = read(files[i]);
    std::mt19937_64 random(i);
    perturb(bytes, random);
    write(files[i], bytes);
  }
}

}  // namespace compilecache::bench
