#pragma once

#include <string>
#include <string_view>

// Which release a program is of, and from which commit it was built. A library of its own
// (cc_version), for programs alone: it is recompiled with each commit.

namespace compilecache {

// Twelve digits, with "-dirty" where the tree had changes; or "unknown". See cmake/commit.cmake.
const char* build_commit();

// What --version prints: "compilecache-agent 0.1.0 (commit 0123456789ab)".
std::string version_line(std::string_view program);

}  // namespace compilecache
