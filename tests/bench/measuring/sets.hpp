#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The trees that are saved and loaded.

namespace compilecache::bench {

struct Set {
  std::string name;
  std::string directory;
  uint64_t files = 0;
  uint64_t bytes = 0;
};

// "small": a real Inductor cache; "vllm": a real vLLM cache; "large": 16 perturbed copies of a real
// vLLM cache; "many": 50,000 small files; "noise": 400 MB that hardly compress; "noise-88": 88 MB
// of these. The same bytes every time. Throws std::runtime_error with what went wrong.
Set make_set(const std::string& name, const std::string& below);
// All but "noise-88", which is for many at once.
std::vector<std::string> set_names();

// Changes the content of every hundredth file; done again, it is as before.
void change_one_percent(const std::string& directory);

}  // namespace compilecache::bench
