#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "archive/blob_store.hpp"
#include "archive/checkpoint.hpp"
#include "archive/layer/write_settings.hpp"
#include "archive/write/source_list.hpp"
#include "base/error.hpp"

// Leaves out files that no archive can hold, so that the rest can be saved.

namespace compilecache::archive {

// The check's inputs; all must outlive it. `chunk` is memory to read into.
struct TooLargeCheck {
  BlobStore& store;
  const WriteSettings& settings;
  const Checkpoint& checkpoint;
  std::span<uint8_t> chunk;
};

// Leaves out files that alone exceed the archive's limit, before any work is done on the others. A
// file that is larger than an archive may be is compressed on trial, up to the limit, to see
// whether it fits.
Status leave_out_too_large(SourceList& sources, const TooLargeCheck& check);

// Leaves out whole units until an archive of the parent's files and the others is within the limits
// of files, paths and bytes. Those that were finished last are left out, since every start needs
// the first ones.
void leave_out_too_many(SourceList& sources, const Config& parent, const Limits& limits);

// Leaves out the sources with these indices, which compress so well that no reader would accept the
// layer (Limits::max_ratio).
void leave_out_beyond_ratio(SourceList& sources, const std::vector<size_t>& indices,
                            uint64_t max_ratio);

}  // namespace compilecache::archive
