#include "archive/write/too_large.hpp"

#include <algorithm>
#include <string>

#include "archive/layer/layer_writer.hpp"
#include "archive/write/source.hpp"
#include "base/quantity.hpp"

namespace compilecache::archive {
namespace {

// The most bytes that a layer has beside the content of its only file.
constexpr uint64_t kAroundAFile = 64ULL << 10;

// Only called for files that are larger than an archive may be.
Result<bool> fits_alone(const Source& source, const TooLargeCheck& check) {
  auto layer = LayerWriter::create(check.store, check.settings, check.checkpoint, 0);
  if (!layer) return unexpected(layer.error());
  auto reader = SourceReader::open(source);
  if (!reader) return true;  // packing it reports the error
  const FileStamp& stamp = source.stamp;
  Status packed = (*layer)->begin_file(source.file.path, stamp.size, stamp.executable);
  for (uint64_t left = stamp.size; packed && left > 0;) {
    const auto piece =
        check.chunk.first(static_cast<size_t>(std::min<uint64_t>(left, check.chunk.size())));
    if (!reader->read(piece)) return true;
    packed = (*layer)->data(piece);
    left -= piece.size();
  }
  if (packed) packed = (*layer)->end_file();
  if (packed) packed = (*layer)->end();
  if (!packed && packed.error().code != ErrorCode::kTooLarge) return unexpected(packed.error());
  return packed.has_value();
}

}  // namespace

Status leave_out_too_large(SourceList& sources, const TooLargeCheck& check) {
  const uint64_t most_plain = check.settings.limits.max_plain_bytes;
  const uint64_t most = check.settings.max_archive_bytes;
  const std::string keep_out = "keep the file out of the cache directory";
  for (size_t i = 0; i < sources.all().size(); ++i) {
    const Source& source = sources.all()[i];
    const uint64_t size = source.stamp.size;
    if (sources.is_left_out(i) ||
        size <= std::min(most, most_plain - std::min(most_plain, kAroundAFile))) {
      continue;
    }
    const std::string what = source.file.path + " of " + format_bytes(size);
    if (size + kAroundAFile > most_plain) {
      sources.leave_out_with_unit(i, what + ": all files of an archive have at most " +
                                         format_bytes(most_plain) + "; " + keep_out);
      continue;
    }
    const auto fits = fits_alone(source, check);
    if (!fits) return unexpected(fits.error());
    if (*fits) continue;
    sources.leave_out_with_unit(i, what + " would alone be more than the " + format_bytes(most) +
                                       " of save.maxArchiveSize: raise it, or " + keep_out);
  }
  sources.drop_left_out();
  return {};
}

void leave_out_beyond_ratio(SourceList& sources, const std::vector<size_t>& indices,
                            uint64_t max_ratio) {
  for (const size_t i : indices) {
    if (sources.is_left_out(i)) continue;
    const Source& source = sources.all()[i];
    sources.leave_out_with_unit(
        i, source.file.path + " of " + format_bytes(source.stamp.size) +
               " packs into less than 1/" + std::to_string(max_ratio) +
               " of that, which no loader takes; keep the file out of the cache directory");
  }
}

}  // namespace compilecache::archive
