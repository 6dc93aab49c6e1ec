#pragma once

namespace compilecache::frameworks {

// The effect of a load on the pod:
//   full: a loaded entry was read, no new one made    partial: both
//   none: new entries, no loaded one read             unused: neither (yet)
//   unknown: reads cannot be seen on this file system
enum class Effect { kUnused, kFull, kPartial, kNone, kUnknown };

}  // namespace compilecache::frameworks
