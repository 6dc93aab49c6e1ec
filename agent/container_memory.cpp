#include "agent/container_memory.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/log.hpp"

namespace compilecache::agent {
namespace {

// cgroup v1 says "none" by a number near 2^63.
constexpr uint64_t kNoLimit = uint64_t{1} << 62U;
constexpr uint64_t kMargin = uint64_t{8} << 20U;
constexpr uint64_t kMarginShare = 8;
// A save's memory beside its compression: archive/write/write.hpp claims 128 MiB for the whole.
constexpr uint64_t kBesideCompression = uint64_t{36} << 20U;
constexpr uint64_t kLeastForCompression = uint64_t{24} << 20U;
// Threads' stacks are 8 MiB each by default, which hardly matters above this limit. Nothing that
// the threads do is recursive.
constexpr uint64_t kPlenty = uint64_t{1} << 30U;
constexpr size_t kSmallStack = size_t{1} << 20U;

// Reads a limit; nothing for "max" or a file that does not exist.
std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (!(file >> number) || number >= kNoLimit) return std::nullopt;
  return number;
}

// In a container its own group is usually the root of what is mounted there, whatever the path
// says.
std::optional<uint64_t> limit_of(const std::string& mount, std::string_view group,
                                 const std::string& file) {
  if (const auto own = number_in(mount + std::string(group) + "/" + file)) return own;
  return number_in(mount + "/" + file);
}

bool has_controller(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    list = comma == std::string_view::npos ? "" : list.substr(comma + 1);
  }
  return false;
}

void shrink_stacks() {
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  if (::pthread_attr_setstacksize(&attributes, kSmallStack) == 0) {
    ::pthread_setattr_default_np(&attributes);
  }
  ::pthread_attr_destroy(&attributes);
}

}  // namespace

std::optional<uint64_t> container_memory(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  std::optional<uint64_t> least;
  // "4:memory:/path" of v1, "0::/path" of v2; where both are in use memory is in one of them.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const auto group = std::string_view(line).substr(second + 1);
    std::optional<uint64_t> limit;
    if (controllers.empty()) limit = limit_of(mount, group, "memory.max");
    if (has_controller(controllers, "memory")) {
      limit = limit_of(mount + "/memory", group, "memory.limit_in_bytes");
    }
    if (limit) least = std::min(*limit, least.value_or(*limit));
  }
  return least;
}

uint64_t work_memory(uint64_t container) {
  const uint64_t margin = std::max(kMargin, container / kMarginShare);
  return container > 2 * margin ? container - margin : container / 2;
}

size_t compressor_memory(uint64_t work, size_t usual) {
  if (work >= usual + kBesideCompression) return usual;
  const uint64_t left = work > kBesideCompression ? work - kBesideCompression : 0;
  return std::min<size_t>(usual, std::max(left, kLeastForCompression));
}

std::optional<uint64_t> memory_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

void stay_below_container_memory() {
  const auto container = container_memory();
  if (!container) return;
  const uint64_t work = work_memory(*container);
  if (work < kPlenty) shrink_stacks();
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur <= work) return;
  limit.rlim_cur = work;
  if (::setrlimit(RLIMIT_DATA, &limit) != 0) {
    log_warn("the memory limit of the container could not be met beforehand", {});
  }
}

}  // namespace compilecache::agent
