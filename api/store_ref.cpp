#include "api/store_ref.hpp"

#include "api/compile_cache.hpp"

namespace compilecache::api {

std::string StoreRef::id() const {
  return std::visit([](const auto& kind) { return kind.id(); }, *this);
}

std::optional<StoreRef> store_of(const CompileCache& cache) {
  const auto& storage = cache.spec.storage;
  if (!storage) return std::nullopt;
  const std::string parent = storage->sub_path.empty() ? "" : storage->sub_path + "/";
  return StoreRef{VolumeRef{cache.metadata.ns, storage->claim_name, parent + cache.metadata.name}};
}

}  // namespace compilecache::api
