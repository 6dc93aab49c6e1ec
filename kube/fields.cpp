#include "kube/fields.hpp"

#include <algorithm>
#include <utility>

namespace compilecache::kube {
namespace {

std::string unescape(std::string_view token) {
  std::string name;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size()) {
      name += token[++i] == '1' ? '/' : '~';
    } else {
      name += token[i];
    }
  }
  return name;
}

}  // namespace

std::string escaped(std::string_view name) {
  std::string token;
  for (const char c : name) {
    if (c == '~') {
      token += "~0";
    } else if (c == '/') {
      token += "~1";
    } else {
      token += c;
    }
  }
  return token;
}

const Fields::Part& Fields::Part::whole() {
  static const Part kWhole(Others::kKept);
  return kWhole;
}

const Fields::Part* Fields::Part::member(std::string_view name) const {
  const auto found = named_.find(name);
  if (found != named_.end()) {
    const Part& part = found->second;
    return part.others_ == Others::kDropped && part.named_.empty() ? nullptr : &part;
  }
  return others_ == Others::kKept ? &whole() : nullptr;
}

Fields::Fields() : root_(Part::Others::kKept) {
  Part metadata(Part::Others::kKept);
  metadata.named_.emplace("managedFields", Part(Part::Others::kDropped));
  root_.named_.emplace("metadata", std::move(metadata));
}

Fields::Fields(std::initializer_list<std::string_view> pointers) : root_(Part::Others::kDropped) {
  for (const char* always :
       {"/kind", "/metadata/namespace", "/metadata/name", "/metadata/resourceVersion"}) {
    add(always);
  }
  for (const std::string_view pointer : pointers) add(pointer);
}

void Fields::add(std::string_view pointer) {
  Part* at = &root_;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);  // the slash
    const size_t end = std::min(pointer.find('/'), pointer.size());
    const auto added =
        at->named_.try_emplace(unescape(pointer.substr(0, end)), Part(Part::Others::kDropped));
    at = &added.first->second;
    if (at->others_ == Part::Others::kKept) return;  // a part of what is wanted whole
    pointer.remove_prefix(end);
  }
  at->others_ = Part::Others::kKept;
  at->named_.clear();
}

Fields Fields::with_elements(size_t count) const {
  Fields bounded = *this;
  bounded.most_elements_ = count;
  return bounded;
}

Fields Fields::within(std::string_view name,
                      std::initializer_list<std::string_view> pointers) const {
  Fields outer;
  outer.root_ = Part(Part::Others::kDropped);
  outer.root_.named_.emplace(std::string(name), root_);
  for (const std::string_view pointer : pointers) outer.add(pointer);
  outer.most_elements_ = most_elements_;
  return outer;
}

}  // namespace compilecache::kube
