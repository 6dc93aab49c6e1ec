#pragma once

#include "kube/protobuf.hpp"

// What protobuf.cpp needs besides the objects themselves: what wraps them.

namespace compilecache::kube::protobuf {

extern const Message kStatus;

// metav1.WatchEvent, runtime.RawExtension, runtime.Unknown, runtime.TypeMeta, metav1.Time
inline constexpr unsigned kEventType = 1, kEventObject = 2;
inline constexpr unsigned kExtensionRaw = 1;
inline constexpr unsigned kUnknownType = 1, kUnknownRaw = 2;
inline constexpr unsigned kTypeKind = 2;
inline constexpr unsigned kTimeSeconds = 1;
inline constexpr unsigned kEntryKey = 1, kEntryValue = 2;

}  // namespace compilecache::kube::protobuf
