#pragma once

#include <string>
#include <vector>

// Ways to save and load a tree. Each is a command, so that starting the process counts.

namespace compilecache::bench {

struct Peer {
  std::string name;
  // Shell commands; $SRC is the tree, $ARC a directory for the archive, $DST one that does not
  // exist.
  std::string save;
  std::string load;
  bool slow = false;  // many times slower than the others: fewer rounds
};

// "cp", the measure of all, comes first. `agent` is compilecache-agent; `b10_python` a Python that
// has the package b10-transfer, or empty.
std::vector<Peer> peers(const std::string& agent, const std::string& b10_python);

}  // namespace compilecache::bench
