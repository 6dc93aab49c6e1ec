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

// Files that no archive can hold are left out, so that the rest can be saved.

namespace compilecache::archive {

// What the tools of one look are; all must outlive it. `chunk` is memory to read into.
struct TooLargeCheck {
  BlobStore& store;
  const WriteSettings& settings;
  const Checkpoint& checkpoint;
  std::span<uint8_t> chunk;
};

// Those that are alone more than all may be: before any work is done on the others. A file that is
// larger than an archive may be is packed for nothing, up to the limit, to see whether it fits.
Status leave_out_too_large(SourceList& sources, const TooLargeCheck& check);

// Those that pack into so little that no reader takes the layer, by their indices.
void leave_out_beyond_ratio(SourceList& sources, const std::vector<size_t>& indices,
                            uint64_t max_ratio);

}  // namespace compilecache::archive
