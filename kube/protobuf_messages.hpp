#pragma once

#include "kube/protobuf.hpp"

// The field numbers of messages that wrap the objects; internal to protobuf.cpp.

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
