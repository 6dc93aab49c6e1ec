#pragma once

#include <memory>
#include <string>

#include "base/error.hpp"
#include "store/store.hpp"

// The one place that knows which kinds of stores there are.

namespace compilecache::store {

// The store at `path`, a directory on a volume. Nothing is looked at yet: whether it is there tells
// the first call.
std::unique_ptr<Store> open_store(const std::string& path);

// By hand: where nobody has put anything yet a store is made, that belongs to nobody; any other
// place has to be one. Whoever names it knows where the links on the way lead.
Result<std::unique_ptr<Store>> open_or_make_store(const std::string& path);

}  // namespace compilecache::store
