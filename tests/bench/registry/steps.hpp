#pragma once

#include <string>
#include <vector>

// What is measured: ways to get a tree out of the registry or into it. Each is a command, so that
// starting its process counts.

namespace compilecache::bench {

struct Step {
  std::string name;
  // A shell command. $SRC is the tree, $DST something that does not exist, $URL and $HOST the
  // registry's, $CA its authority, $REPOSITORY where the archive lies, $DIGEST of its manifest,
  // $LAYER of this blob without "sha256:", $STORE a folder that has it, $NUMBER
  // another one each time.
  std::string command;
  // Done before, and not measured; what it prints is $PREPARED.
  std::string prepare;
  // Where the tree is then, to be compared; empty: it makes none.
  std::string tree;
};

// Names that the targets ask for.
inline constexpr const char* kLocalLoad = "load, local volume";
inline constexpr const char* kRegistryLoad = "load, registry";
inline constexpr const char* kOras = "oras pull, tar";
inline constexpr const char* kGet = "curl GET";
inline constexpr const char* kGetBoth = "curl GET of manifest and layer";
inline constexpr const char* kLocalSave = "save, local volume";
inline constexpr const char* kRegistrySave = "save, registry";
inline constexpr const char* kPut = "curl PUT";

struct Programs {
  std::string step;  // bench_registry_step
  std::string oras;  // empty: left out
};

std::vector<Step> steps(const Programs& programs);
// Those that are done by many at once.
std::vector<Step> crowd_steps(const Programs& programs);

}  // namespace compilecache::bench
