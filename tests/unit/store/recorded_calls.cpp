#include "recorded_calls.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

enum class Kind { kMake, kMakeDirectory, kWrite, kSync, kRename, kLink, kRemove };

struct Event {
  Kind kind;
  int node = -1;              // what is made, written or synced
  std::string path, to = {};  // below the root
  uint64_t offset = 0;
  std::string bytes = {};
};

// The state while it records. The directory itself is node 0.
struct Recorder {
  std::recursive_mutex mutex;
  bool running = false;
  std::string root;
  std::vector<Event> events;
  std::map<std::string, int> nodes;  // by path, as the program sees them
  std::map<int, int> descriptors;    // to nodes
  std::map<int, uint64_t> offsets;   // of descriptors
  int next_node = 0;
  Disk before;
};

Recorder& recorder() {
  static Recorder the_recorder;
  return the_recorder;
}

// The path relative to the root; none if it is not below the root.
std::optional<std::string> below_root(const char* path) {
  const Recorder& now = recorder();
  const std::string text = path;
  if (!now.running || !text.starts_with(now.root)) return std::nullopt;
  if (text.size() == now.root.size()) return "";
  if (text[now.root.size()] != '/') return std::nullopt;
  return text.substr(now.root.size() + 1);
}

void note_open(int fd, const char* path, int flags) {
  Recorder& now = recorder();
  const std::lock_guard lock(now.mutex);
  const auto name = below_root(path);
  if (fd < 0 || !name) return;
  if (!now.nodes.contains(*name)) {
    now.nodes[*name] = now.next_node++;
    now.events.push_back({Kind::kMake, now.nodes[*name], *name});
  } else if ((flags & O_TRUNC) != 0) {
    throw std::logic_error("a file of the store is overwritten in place");
  }
  now.descriptors[fd] = now.nodes[*name];
  now.offsets[fd] = 0;
}

void note_write(int fd, const void* bytes, ssize_t size) {
  Recorder& now = recorder();
  const std::lock_guard lock(now.mutex);
  const auto found = now.descriptors.find(fd);
  if (!now.running || size <= 0 || found == now.descriptors.end()) return;
  now.events.push_back({Kind::kWrite, found->second, "", "", now.offsets[fd],
                        std::string(static_cast<const char*>(bytes), static_cast<size_t>(size))});
  now.offsets[fd] += static_cast<uint64_t>(size);
}

void note_sync(int fd) {
  Recorder& now = recorder();
  const std::lock_guard lock(now.mutex);
  const auto found = now.descriptors.find(fd);
  if (now.running && found != now.descriptors.end())
    now.events.push_back({Kind::kSync, found->second, ""});
}

void note_names(Kind kind, const char* path, const char* to) {
  Recorder& now = recorder();
  const std::lock_guard lock(now.mutex);
  const auto name = below_root(path);
  const auto target = to == nullptr ? name : below_root(to);
  if (!name || !target) return;
  if (kind == Kind::kMakeDirectory) now.nodes[*name] = now.next_node++;
  Event event{kind, now.nodes.at(*name), *name, *target};
  if (kind == Kind::kRename || kind == Kind::kLink) now.nodes[*target] = event.node;
  if (kind == Kind::kRename || kind == Kind::kRemove) now.nodes.erase(*name);
  now.events.push_back(std::move(event));
}

void note_close(int fd) {
  Recorder& now = recorder();
  const std::lock_guard lock(now.mutex);
  now.descriptors.erase(fd);
}

// A file or directory of the model: its safe state, and the later changes.
struct Node {
  bool is_directory = false;
  std::string bytes;
  std::vector<const Event*> writes;
  std::map<std::string, int> names;  // of a directory
};

// A change of names that is not safe yet.
struct NameChange {
  int directory;
  const Event* event;
};

struct Model {
  std::map<int, Node> nodes;
  std::vector<NameChange> changes;
};

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}
std::string name_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

void apply(std::string& bytes, const Event& write, uint64_t from, uint64_t to) {
  if (from >= to) return;
  bytes.resize(std::max<size_t>(bytes.size(), write.offset + to), '\0');
  bytes.replace(write.offset + from, to - from, write.bytes, from, to - from);
}

void apply(const NameChange& change, Model& model) {
  Node& directory = model.nodes[change.directory];
  const Event& event = *change.event;
  switch (event.kind) {
    case Kind::kRename:
      directory.names[name_of(event.to)] = event.node;
      directory.names.erase(name_of(event.path));
      break;
    case Kind::kRemove:
      directory.names.erase(name_of(event.path));
      break;
    case Kind::kLink:
      directory.names[name_of(event.to)] = event.node;
      break;
    default:
      directory.names[name_of(event.path)] = event.node;
  }
}

// How much of the unsynced bytes is on the disk.
enum class Writes { kNone, kAll, kHalf, kLastHalf, kZeros, kSomeOfThem };

void apply(Writes how, std::mt19937_64& random, Node& node) {
  for (const Event* write : node.writes) {
    const uint64_t size = write->bytes.size();
    switch (how) {
      case Writes::kNone:
        break;
      case Writes::kAll:
        apply(node.bytes, *write, 0, size);
        break;
      case Writes::kHalf:
        apply(node.bytes, *write, 0, size / 2);
        break;
      case Writes::kLastHalf:
        apply(node.bytes, *write, size / 2, size);
        break;
      case Writes::kZeros:
        node.bytes.resize(std::max<size_t>(node.bytes.size(), write->offset + size), '\0');
        break;
      case Writes::kSomeOfThem:
        if (random() % 2 == 0) apply(node.bytes, *write, 0, size);
    }
  }
  node.writes.clear();
}

void list(const Model& model, int number, const std::string& path, Disk& disk) {
  const auto found = model.nodes.find(number);
  if (found == model.nodes.end()) return;
  if (!found->second.is_directory) {
    disk.files[path] = found->second.bytes;
    return;
  }
  if (!path.empty()) disk.directories.insert(path);
  for (const auto& [name, child] : found->second.names)
    list(model, child, path.empty() ? name : path + "/" + name, disk);
}

Disk disk_of(const Model& model) {
  Disk disk;
  list(model, 0, "", disk);
  return disk;
}

// The model at the beginning. The nodes get the same numbers as in Recording's constructor.
Model model_before(std::map<std::string, int>& nodes) {
  const Recorder& now = recorder();
  Model model;
  int next = 0;
  model.nodes[next].is_directory = true;
  nodes[""] = next++;
  for (const std::string& path : now.before.directories) {
    model.nodes[next].is_directory = true;
    model.nodes[nodes.at(parent_of(path))].names[name_of(path)] = next;
    nodes[path] = next++;
  }
  for (const auto& [path, bytes] : now.before.files) {
    model.nodes[next].bytes = bytes;
    model.nodes[nodes.at(parent_of(path))].names[name_of(path)] = next;
    nodes[path] = next++;
  }
  return model;
}

void sync(int number, Model& model, std::mt19937_64& random) {
  Node& node = model.nodes[number];
  apply(Writes::kAll, random, node);
  const auto is_here = [&](const NameChange& change) { return change.directory == number; };
  for (const NameChange& change : model.changes) {
    if (is_here(change)) apply(change, model);
  }
  std::erase_if(model.changes, is_here);
}

// The model after these events: safe data, and data that may be lost.
Model replay(size_t events) {
  const Recorder& now = recorder();
  std::map<std::string, int> nodes;
  Model model = model_before(nodes);
  std::mt19937_64 unused;
  for (size_t i = 0; i < events; ++i) {
    const Event& event = now.events[i];
    switch (event.kind) {
      case Kind::kWrite:
        model.nodes[event.node].writes.push_back(&event);
        break;
      case Kind::kSync:
        sync(event.node, model, unused);
        break;
      case Kind::kMakeDirectory:
        nodes[event.path] = event.node;
        model.nodes[event.node].is_directory = true;
        model.changes.push_back({nodes.at(parent_of(event.path)), &event});
        break;
      case Kind::kMake:
        model.nodes[event.node];
        [[fallthrough]];
      default:
        model.changes.push_back({nodes.at(parent_of(event.path)), &event});
    }
  }
  return model;
}

Disk outcome(Model model, const std::vector<bool>& happened, Writes writes,
             std::mt19937_64& random) {
  for (auto& [number, node] : model.nodes) apply(writes, random, node);
  for (size_t i = 0; i < happened.size(); ++i) {
    if (happened[i]) apply(model.changes[i], model);
  }
  return disk_of(model);
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(name) static auto* const real_##name = real<decltype(::name)>(#name)

}  // namespace

Disk read_disk(const std::string& root) {
  Disk disk;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string path = fs::relative(entry.path(), root);
    if (entry.is_directory()) {
      disk.directories.insert(path);
    } else {
      std::ifstream in(entry.path(), std::ios::binary);
      disk.files[path] = std::string(std::istreambuf_iterator<char>(in), {});
    }
  }
  return disk;
}

void write_disk(const Disk& disk, const std::string& root) {
  fs::remove_all(root);
  fs::create_directories(root);
  for (const std::string& path : disk.directories) fs::create_directories(root + "/" + path);
  for (const auto& [path, bytes] : disk.files)
    std::ofstream(root + "/" + path, std::ios::binary) << bytes;
}

Recording::Recording(const std::string& root) {
  Recorder& now = recorder();
  now.root = root;
  now.before = read_disk(root);
  now.events.clear();
  now.nodes.clear();
  now.descriptors.clear();
  now.next_node = static_cast<int>(model_before(now.nodes).nodes.size());
  now.running = true;
}

Recording::~Recording() { stop(); }

void Recording::stop() {
  const std::lock_guard lock(recorder().mutex);
  recorder().running = false;
}

size_t Recording::events() const {
  const std::lock_guard lock(recorder().mutex);
  return recorder().events.size();
}

std::string Recording::describe(size_t number) const {
  const Event& event = recorder().events.at(number);
  static const std::map<Kind, const char*> names = {
      {Kind::kMake, "make"},     {Kind::kMakeDirectory, "mkdir"}, {Kind::kWrite, "write"},
      {Kind::kSync, "fsync"},    {Kind::kRename, "rename"},       {Kind::kLink, "link"},
      {Kind::kRemove, "unlink"},
  };
  return std::string(names.at(event.kind)) + " " + event.path + " " + event.to;
}

std::vector<Disk> Recording::after_power_loss(size_t events, std::mt19937_64& random,
                                              size_t most) const {
  const Model model = replay(events);
  const size_t count = model.changes.size();
  std::vector<std::vector<bool>> choices = {std::vector<bool>(count, false),
                                            std::vector<bool>(count, true)};
  for (size_t i = 0; i < count; ++i) {
    for (const bool other : {false, true}) {
      choices.emplace_back(count, other);
      choices.back()[i] = !other;
    }
  }
  for (size_t i = 0; i < most && count > 2; ++i) {
    choices.emplace_back(count);
    for (size_t bit = 0; bit < count; ++bit) choices.back()[bit] = random() % 2 == 0;
  }
  std::vector<Disk> states;
  std::set<Disk> known;
  for (const auto& happened : choices) {
    for (const Writes writes : {Writes::kNone, Writes::kAll, Writes::kHalf, Writes::kLastHalf,
                                Writes::kZeros, Writes::kSomeOfThem}) {
      if (states.size() >= most) return states;
      Disk disk = outcome(model, happened, writes, random);
      if (known.insert(disk).second) states.push_back(std::move(disk));
    }
  }
  return states;
}

Disk Recording::live(size_t events) const {
  const Model model = replay(events);
  std::mt19937_64 unused;
  return outcome(model, std::vector<bool>(model.changes.size(), true), Writes::kAll, unused);
}

}  // namespace compilecache::archive::test

// These functions replace libc's. The ones of the next library in the linker's order do the work.

using namespace compilecache::archive::test;

extern "C" {

int open(const char* path, int flags, ...) {
  REAL(open);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  const int fd = real_open(path, flags, mode);
  note_open(fd, path, flags);
  return fd;
}

int close(int fd) {
  REAL(close);
  note_close(fd);
  return real_close(fd);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  REAL(write);
  const ssize_t written = real_write(fd, bytes, size);
  note_write(fd, bytes, written);
  return written;
}

int fsync(int fd) {
  note_sync(fd);
  return 0;  // the model decides what is durable, not the real disk
}

int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  const int result = real_rename(from, to);
  if (result == 0) note_names(Kind::kRename, from, to);
  return result;
}

int link(const char* from, const char* to) noexcept {
  REAL(link);
  const int result = real_link(from, to);
  if (result == 0) note_names(Kind::kLink, from, to);
  return result;
}

int unlink(const char* path) noexcept {
  REAL(unlink);
  const int result = real_unlink(path);
  if (result == 0) note_names(Kind::kRemove, path, nullptr);
  return result;
}

int mkdir(const char* path, mode_t mode) noexcept {
  REAL(mkdir);
  const int result = real_mkdir(path, mode);
  if (result == 0) note_names(Kind::kMakeDirectory, path, nullptr);
  return result;
}

}  // extern "C"
