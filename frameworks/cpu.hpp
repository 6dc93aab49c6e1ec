#pragma once

#include <string>
#include <string_view>
#include <vector>

// Names the kinds of CPUs for which compiled code is kept apart.
//
//   const HostCpu host = host_cpu(cpuinfo, 0, {"ATEN_CPU_CAPABILITY=avx2"});
//   host.name;       // "avx512-as-avx2-1f0c9a2e"
//   host.features;   // "abm", "adx", "aes", "avx", ...
//
// Frameworks compile for the CPU that they run on: compilers by -march=native, Inductor for the
// widest vectors of the CPU. Their width is written into its C++ and is no part of its keys.
// On another CPU such code ends the process, or, worse, computes something else. Two hosts have the
// same name only where everything is the same that compilers look at. Pure; safe from any thread.

namespace compilecache::frameworks {

struct HostCpu {
  // The widest vectors, what the variables make of them, and a digest of all that counts; empty
  // where nothing is known. Lower-case letters, digits and '-'; at most 63.
  std::string name;
  std::vector<std::string> features;  // sorted; of x86 and ARM only those that compilers use
};

// `cpuinfo` is the text of /proc/cpuinfo. `sve_bits` is the length of the scalable vectors, 0:
// there are none. `variables` are the application's that change for which CPU is compiled
// (NAME=value).
HostCpu host_cpu(std::string_view cpuinfo, int sve_bits, const std::vector<std::string>& variables);

}  // namespace compilecache::frameworks
