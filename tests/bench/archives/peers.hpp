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
};

// "cp", the measure of all, comes first.
std::vector<Peer> peers(const std::string& this_program);

// What this program does when it is the peer: `save STORE TREE` (on top of what STORE has) and
// `load STORE DIRECTORY`. Returns the exit status.
int run_as_peer(const std::vector<std::string>& arguments);

}  // namespace compilecache::bench
