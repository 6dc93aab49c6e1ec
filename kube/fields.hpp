#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

// Names the wanted parts of an object, so that the others are never built in memory.
//
//   const Fields fields{"/status/phase", "/status/containerStatuses/name",
//                       "/metadata/labels/compilecache.dev~1cache"};
//
// A field is a JSON pointer (RFC 6901: "/" in a name is "~1", "~" is "~0") and includes all that is
// below it. Arrays on the way are passed through: the second one above is the name of every
// element. Namespace, name and resourceVersion are always included.
//
// Does not change once made: thread-safe.

namespace compilecache::kube {

class Fields {
 public:
  // Wants all but metadata.managedFields, which are a third of an object and of no use to us.
  Fields();
  Fields(std::initializer_list<std::string_view> pointers);
  // Adds a field.
  void add(std::string_view pointer);

  // The wanted parts of one value: members of an object, or parts of every element of an array.
  class Part {
   public:
    // Returns nullptr for a member that is not wanted.
    [[nodiscard]] const Part* member(std::string_view name) const;

   private:
    friend class Fields;
    enum class Others { kKept, kDropped };
    explicit Part(Others others) : others_(others) {}
    static const Part& whole();

    Others others_;  // the members that named_ lacks; dropped, with no names: nothing is wanted
    std::map<std::string, Part, std::less<>> named_;
  };
  [[nodiscard]] const Part& root() const { return root_; }

  // The same fields, of which a list keeps its first `count` elements. For objects that anyone may
  // write: a megabyte of small elements takes fifty in a tree.
  [[nodiscard]] Fields with_elements(size_t count) const;
  [[nodiscard]] size_t most_elements() const { return most_elements_; }

  // These fields of the object at "/NAME" of a larger one, as in {"type": ..., "object": {...}},
  // for which `pointers` are the fields.
  [[nodiscard]] Fields within(std::string_view name,
                              std::initializer_list<std::string_view> pointers) const;

 private:
  Part root_;
  size_t most_elements_ = SIZE_MAX;
};

// A member's name as part of a pointer: "a/b" is "a~1b".
std::string escaped(std::string_view name);

}  // namespace compilecache::kube
