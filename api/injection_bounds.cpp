#include "api/injection_bounds.hpp"

#include <string>
#include <vector>

namespace compilecache::api {
namespace {

size_t memory_of(const std::vector<std::string>& texts) {
  size_t size = 0;
  for (const std::string& text : texts) size += sizeof(std::string) + text.size();
  return size;
}

}  // namespace

bool exceeds_bounds(const InjectionStatus& status) {
  const KeyBasis& key = status.key_basis;
  size_t size = memory_of(status.init_containers) + memory_of(status.volumes) +
                memory_of(status.containers) + memory_of(key.parts);
  if (key.claims) size += memory_of(*key.claims);
  for (const std::string* text :
       {&key.gpu_resource, &key.image, &key.workload, &key.version, &key.directories}) {
    size += text->size();
  }
  return status.containers.size() > kMostInjectedContainers || size > kMostInjectionMemory;
}

void drop_removal_lists(InjectionStatus& status) {
  status.version = {};
  status.hash = {};
  status.variables = {};
  status.mounts = {};
  status.frameworks = {};
  status.kit_left_off = {};
  for (auto* list :
       {&status.init_containers, &status.volumes, &status.containers, &status.key_basis.parts}) {
    list->shrink_to_fit();
  }
}

}  // namespace compilecache::api
