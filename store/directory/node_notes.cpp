#include "store/directory/node_notes.hpp"

#include "archive/fs.hpp"
#include "base/strings.hpp"
#include "store/directory/layout.hpp"
#include "store/directory/small_file.hpp"
#include "store/node_name.hpp"

namespace compilecache::store {

Status note_node_product(const std::string& store, const std::string& node,
                         const std::string& product) {
  if (auto usable = check_node_note(node, product); !usable) return usable;
  return write_if_different(nodes_directory(store), node, product + "\n");
}

Result<std::string> read_node_product(const std::string& store, const std::string& node) {
  if (auto usable = check_node_name(node); !usable) return unexpected(usable.error());
  auto text = archive::read_small_file(nodes_directory(store) + "/" + node, kMaxSmallFile);
  if (!text) return unexpected(text.error().with("reading the GPU product of node " + node));
  const std::string product(trim(*text));
  if (product.empty())
    return fail(ErrorCode::kNotFound, "the note of node " + node + " in " + store + " is empty");
  return product;
}

}  // namespace compilecache::store
