#include "targets.hpp"

// One program for each target, linked with libFuzzer.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto target = compilecache::fuzz::targets().at(FUZZ_TARGET);
  target({data, size});
  return 0;
}
