#pragma once

#include <span>
#include <string_view>

// The words with which loaders and savers say why they did not load or save, with what they mean
// for people and what to change. docs/troubleshoot/reasons.md has a row for each; a test compares
// the two.

namespace compilecache::cli {

struct OutcomeReason {
  std::string_view word;    // "no_archive"
  std::string_view why;     // continues "starts cold: " or "not saved: "
  std::string_view change;  // what to do; empty: nothing
};

std::span<const OutcomeReason> load_reasons();
std::span<const OutcomeReason> save_reasons();

// Returns nullptr for a word that this release does not know.
const OutcomeReason* find_load_reason(std::string_view word);
const OutcomeReason* find_save_reason(std::string_view word);

}  // namespace compilecache::cli
