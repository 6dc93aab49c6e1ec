#include "store/node_name.hpp"

#include <algorithm>

namespace compilecache::store {
namespace {

// Node names are DNS subdomains.
bool is_node_name(const std::string& node) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !node.empty() && node.size() <= 253 && node.front() != '.' &&
         std::all_of(node.begin(), node.end(), allowed);
}

}  // namespace

Status check_node_name(const std::string& node) {
  if (is_node_name(node)) return {};
  return fail(ErrorCode::kInvalid, "not a node name: \"" + node + "\"");
}

Status check_node_note(const std::string& node, const std::string& product) {
  if (is_node_name(node) && !product.empty() && product.find('\n') == std::string::npos) return {};
  return fail(ErrorCode::kInvalid,
              "noting product \"" + product + "\" of node \"" + node + "\": not usable as names");
}

}  // namespace compilecache::store
