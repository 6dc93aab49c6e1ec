#include "kube/resource.hpp"

#include "kube/client.hpp"

namespace compilecache::kube {

std::string Resource::api_version() const {
  return group.empty() ? version : group + "/" + version;
}

std::string Resource::path(std::string_view ns, std::string_view name,
                           std::string_view subresource) const {
  std::string path = (group.empty() ? "/api/" : "/apis/") + api_version();
  if (namespaced && !ns.empty()) path += "/namespaces/" + percent_encode(ns);
  path += "/" + plural;
  if (!name.empty()) path += "/" + percent_encode(name);
  if (!subresource.empty()) path += "/" + std::string(subresource);
  return path;
}

std::string object_key(std::string_view ns, std::string_view name) {
  if (ns.empty()) return std::string(name);
  std::string key(ns);
  key += '/';
  key += name;
  return key;
}

NamespacedName split_key(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return {"", std::string(key)};
  return {std::string(key.substr(0, slash)), std::string(key.substr(slash + 1))};
}

}  // namespace compilecache::kube
