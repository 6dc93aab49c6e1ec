#include "archive/write/too_large.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

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

namespace {

// An archive's counts; compared with Limits as check_limits() does.
struct Amount {
  uint64_t files = 0, path_bytes = 0, plain_bytes = 0;

  Amount& operator+=(const Amount& more) {
    files += more.files;
    path_bytes += more.path_bytes;
    plain_bytes += more.plain_bytes;
    return *this;
  }
  [[nodiscard]] bool within(const Limits& limits) const {
    return files <= limits.max_entries && path_bytes <= limits.max_path_bytes &&
           plain_bytes <= limits.max_plain_bytes;
  }
};

// Files of no unit are one each.
struct Unit {
  std::vector<size_t> indices;
  Amount added;  // to the parent's
  int64_t finished = 0;
};

// A file that replaces one of the parent's counts as if that stayed, which it may.
std::vector<Unit> units_of(const SourceList& sources, const Config& parent) {
  std::vector<Unit> units;
  std::map<uint32_t, size_t> numbers;
  for (size_t i = 0; i < sources.all().size(); ++i) {
    const Source& source = sources.all()[i];
    const auto [known, is_new] = numbers.emplace(source.file.unit, units.size());
    if (is_new || source.file.unit == 0) {
      known->second = units.size();
      units.emplace_back();
    }
    Unit& unit = units[known->second];
    unit.indices.push_back(i);
    unit.finished = std::max(unit.finished, source.stamp.modified_ns);
    unit.added += {parent.find(source.file.path) == nullptr ? 1U : 0U, 2 * source.file.path.size(),
                   source.stamp.size};
  }
  return units;
}

}  // namespace

void leave_out_too_many(SourceList& sources, const Config& parent, const Limits& limits) {
  Amount held{parent.files.size(), 0, parent.plain_bytes()};
  for (const FileEntry& file : parent.files) held.path_bytes += 2 * file.path.size();
  std::vector<Unit> units = units_of(sources, parent);
  Amount all = held;
  for (const Unit& unit : units) all += unit.added;
  if (all.within(limits)) return;
  std::stable_sort(units.begin(), units.end(),
                   [](const Unit& a, const Unit& b) { return a.finished < b.finished; });
  std::vector<std::vector<size_t>> beyond;
  for (Unit& unit : units) {
    Amount with = held;
    with += unit.added;
    if (with.within(limits)) {
      held = with;
    } else {
      beyond.push_back(std::move(unit.indices));
    }
  }
  sources.leave_out_units(beyond, "an archive has at most " + std::to_string(limits.max_entries) +
                                      " files and " + format_bytes(limits.max_plain_bytes));
  sources.drop_left_out();
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
