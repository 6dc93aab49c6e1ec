#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "api/archive_key.hpp"

// Prepares agents' texts for statuses, Events and logs. They are bounded, since agents are users'
// pods and one object holds the texts of many; and they are made safe for terminals
// (base/printable.hpp), which kubectl shows them on. Pure; safe from any thread.

namespace compilecache::controller {

// How many bytes of agents' texts are kept: of a reason, an archive's name, a message. The last is
// of a message in statuses, which hold hundreds of pods: a pod's own words are below 3 KB there.
inline constexpr size_t kReasonLength = 64, kArchiveNameLength = 253, kMessageLength = 512;
inline constexpr size_t kStatusMessageLength = 256;
// Of a workload, "Deployment/llama", as the CompileCacheArchive's schema takes.
inline constexpr size_t kWorkloadLength = 512;
// How many names of a report's lists are kept.
inline constexpr size_t kToldNames = 6, kToldDiffering = 12;

// At most that many bytes of it, and no part of a character, as one printable line.
std::string cut(const std::string& text, size_t length);
// At most that many texts, each cut to 100 bytes.
std::vector<std::string> cut(const std::vector<std::string>& texts, size_t count);

// The count to which the load adds.
api::LoadOutcome load_outcome(const api::LoadedReport& report);
// For what a loader waited, if it is one of our own words; else empty.
std::string wait_word(const std::string& said);

// "GPUProduct=NVIDIA-H100, Image=app:1"
std::string key_text(const api::ArchiveKey& key);

// "3 entries were compiled again, torch/fxgraph/ab/fab among them; what differs in the framework's
// key: VLLM_PORT"
std::string compiled_anew(const api::EffectReport& report);

}  // namespace compilecache::controller
