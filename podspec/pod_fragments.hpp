#pragma once

#include <string>
#include <vector>

// The parts that are added to a pod, and their JSON.

namespace compilecache::podspec {

struct Variable {
  std::string name, value;
};

struct Mount {
  std::string volume, path;
  bool read_only = false;
  bool operator==(const Mount&) const = default;
};

struct Volume {
  std::string name;
  std::string json;  // the whole volume
};

std::string to_json(const Variable& variable);
std::string to_json(const Mount& mount);

template <typename Piece>
std::vector<std::string> to_json(const std::vector<Piece>& pieces) {
  std::vector<std::string> texts;
  texts.reserve(pieces.size());
  for (const Piece& piece : pieces) texts.push_back(to_json(piece));
  return texts;
}
inline std::string to_json(const Volume& volume) { return volume.json; }

}  // namespace compilecache::podspec
