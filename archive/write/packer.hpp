#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "archive/layer/large_bytes.hpp"
#include "archive/layer/layer_writer.hpp"
#include "archive/layer/ratio.hpp"
#include "archive/write/plan.hpp"
#include "archive/write/source.hpp"
#include "base/error.hpp"

namespace compilecache::archive {

// Packs the new contents of a plan into a layer, each of several equal ones once.
//
//   Packer packer(chunk);
//   auto packed = packer.pack(layer, sources, plan);
//   if (!packed && packer.changed()) ...   // try again without that file
//   if (auto ended = layer.end(); !ended) {
//     const auto useless = packer.beyond_ratio(layer, limits.max_ratio);
//     ...                                  // try again without these
//   }
//   packer.forget();                       // before the next attempt; its memory stays
//
// Not thread-safe.
class Packer {
 public:
  // `chunk` is memory to read into; it must outlive the packer.
  explicit Packer(std::span<uint8_t> chunk) : chunk_(chunk) {}

  // A file that changed while it was packed, which makes the layer useless.
  struct Changed {
    size_t source;
    LeftOut why;
  };

  // Sets the digests of the plan's files and the places of their contents. kUnavailable: a file
  // changed, see changed().
  Status pack(LayerWriter& layer, const std::vector<Source>& sources, Plan& plan);
  // Call it before another pack().
  void forget();
  // The file that changed since the last forget().
  [[nodiscard]] const std::optional<Changed>& changed() const { return changed_; }
  // The sources because of which no reader would accept the packed layer.
  [[nodiscard]] std::vector<size_t> beyond_ratio(const LayerWriter& layer,
                                                 uint64_t max_ratio) const;

 private:
  // The contents of a layer. Each is known by the index of a file of the plan that has it, as there
  // may be as many contents as files.
  class Packed {
   public:
    // Returns the index of an earlier file with the same content, or else that of this one.
    size_t add(const std::vector<FileEntry>& files, size_t file);
    void clear() { known_.clear(); }

   private:
    std::unordered_multimap<uint64_t, size_t> known_;  // by a part of the digest
  };
  // The arguments of pack().
  struct Work {
    LayerWriter& layer;
    const std::vector<Source>& sources;
    Plan& plan;
  };

  Status pack_all(const Work& work);
  Status pack_large(const Work& work, const Plan::Pack& item);
  Status read_whole(const Work& work, const Plan::Pack& item, std::span<uint8_t> bytes);
  Status pack_whole(const Work& work, const Plan::Pack& item, std::span<const uint8_t> bytes,
                    const ContentHash& hash);
  Status end_pack(const Work& work, const Plan::Pack& item, const ContentHash& hash);
  Status changed(size_t source, const LeftOut& why);
  void note_place(const LayerWriter& layer, size_t source, uint64_t size);

  const std::span<uint8_t> chunk_;
  std::array<LargeBytes, 2> whole_;  // for files that are read before packing
  // The state of one pack().
  std::optional<Changed> changed_;
  Packed packed_;
  std::vector<Placed> placed_;          // in the layer
  std::vector<size_t> placed_sources_;  // the sources of placed_
};

}  // namespace compilecache::archive
