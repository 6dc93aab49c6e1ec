#pragma once

namespace compilecache::frameworks {

// What a loaded archive was worth to the pod.
//   full: a loaded entry was read, no new one made    partial: both
//   none: new entries, no loaded one read             unused: neither (yet)
//   unknown: reads cannot be seen on this file system
enum class Effect { kUnused, kFull, kPartial, kNone, kUnknown };

}  // namespace compilecache::frameworks
