#include "targets.hpp"

#include <cstdio>
#include <cstdlib>

namespace compilecache::fuzz {
namespace {

// Created by the first caller: registrations of other files run before main, in any order.
std::map<std::string, Target>& known() {
  static std::map<std::string, Target> all;
  return all;
}

}  // namespace

const std::map<std::string, Target>& targets() { return known(); }

Registration::Registration(std::initializer_list<std::pair<const std::string, Target>> named) {
  known().insert(named);
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

std::string text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace compilecache::fuzz
