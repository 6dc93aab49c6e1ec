#include "archive/layer/tar_parser.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <string_view>

namespace compilecache::archive {
namespace {

constexpr size_t kMaxPaxBytes = 4 * kMaxPathBytes;
constexpr uint64_t kUstarMaxSize = 077777777777ULL;

tl::unexpected<Error> corrupt(const std::string& what) {
  return fail(ErrorCode::kCorrupt, "tar: " + what);
}

// Parses octal digits, ended by NUL, space or the field's end; refuses everything else.
std::optional<uint64_t> octal(std::string_view field) {
  uint64_t value = 0;
  size_t digits = 0;
  while (digits < field.size() && field[digits] >= '0' && field[digits] <= '7')
    value = value * 8 + static_cast<uint64_t>(field[digits++] - '0');
  for (char c : field.substr(digits)) {
    if (c != '\0' && c != ' ') return std::nullopt;
  }
  if (digits == 0) return std::nullopt;
  return value;
}

// Returns the text up to the first NUL, which only NULs may follow.
std::optional<std::string> text(std::string_view field) {
  const size_t length = std::min(field.find('\0'), field.size());
  if (field.find_first_not_of('\0', length) != std::string_view::npos) return std::nullopt;
  return std::string(field.substr(0, length));
}

bool all_zero(std::string_view block) {
  return block.find_first_not_of('\0') == std::string_view::npos;
}

bool checksum_fits(std::string_view block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < block.size(); ++i)
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(block[i]);
  return octal(block.substr(148, 8)) == sum;
}

uint64_t path_hash(const std::string& path) { return std::hash<std::string>{}(path); }

struct PaxRecord {
  std::string_view key;
  std::string_view value;
  size_t length = 0;
};

// Parses "<length> <key>=<value>\n" at the start of `records`.
std::optional<PaxRecord> next_record(std::string_view records) {
  size_t length = 0;
  const auto [end, problem] =
      std::from_chars(records.data(), records.data() + records.size(), length);
  const auto digits = static_cast<size_t>(end - records.data());
  if (problem != std::errc() || digits == 0 || length > records.size() || length < digits + 3)
    return std::nullopt;
  const std::string_view record = records.substr(digits, length - digits);
  const size_t equals = record.find('=');
  if (record.front() != ' ' || record.back() != '\n' || equals == std::string_view::npos)
    return std::nullopt;
  return PaxRecord{record.substr(1, equals - 1),
                   record.substr(equals + 1, record.size() - equals - 2), length};
}

}  // namespace

Status TarParser::feed(std::span<const uint8_t> bytes, const std::shared_ptr<const void>& owner) {
  while (!bytes.empty()) {
    size_t used = 0;
    switch (state_) {
      case State::kHeader:
        used = gather(bytes, kTarBlock);
        if (gathered_.size() == kTarBlock) {
          if (auto taken = take_header(); !taken) return taken;
        }
        break;
      case State::kPax:
        used = gather(bytes, remaining_);
        if (gathered_.size() == remaining_) {
          if (auto taken = take_pax(); !taken) return taken;
        }
        break;
      case State::kContent:
        used = static_cast<size_t>(std::min<uint64_t>(bytes.size(), remaining_));
        if (auto taken = sink_.data(bytes.first(used), owner); !taken) return taken;
        remaining_ -= used;
        if (remaining_ == 0) {
          state_ = padding_ > 0 ? State::kPadding : State::kHeader;
          remaining_ = padding_;
          if (auto ended = sink_.end_file(); !ended) return ended;
        }
        break;
      case State::kPadding:
      case State::kEnd:
        used = state_ == State::kEnd
                   ? bytes.size()
                   : static_cast<size_t>(std::min<uint64_t>(bytes.size(), remaining_));
        if (std::any_of(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(used),
                        [](uint8_t byte) { return byte != 0; }))
          return corrupt("bytes where there should be padding");
        if (state_ == State::kPadding) {
          remaining_ -= used;
          if (remaining_ == 0) state_ = State::kHeader;
        } else {
          remaining_ += used;
        }
        break;
    }
    bytes = bytes.subspan(used);
  }
  return {};
}

Status TarParser::finish() {
  if (state_ != State::kEnd || remaining_ < kTarBlock)
    return corrupt("it ends in the middle of an entry");
  return {};
}

size_t TarParser::gather(std::span<const uint8_t> bytes, size_t wanted) {
  const size_t count = std::min(bytes.size(), wanted - gathered_.size());
  gathered_.append(reinterpret_cast<const char*>(bytes.data()), count);
  return count;
}

Status TarParser::take_header() {
  const std::string block = std::exchange(gathered_, {});
  const std::string_view view = block;
  if (all_zero(view)) {
    if (pax_pending_) return corrupt("a PAX header without its entry");
    state_ = State::kEnd;
    remaining_ = 0;
    return {};
  }
  if (!checksum_fits(view)) return corrupt("a header's checksum is wrong");
  if (view.substr(257, 8) != std::string_view("ustar\00000", 8)) return corrupt("it is not ustar");
  if (++entries_ > max_entries_) {
    return fail(ErrorCode::kTooLarge,
                "tar: more than " + std::to_string(max_entries_) + " entries");
  }
  const auto size = octal(view.substr(124, 12));
  const auto name = text(view.substr(0, 100));
  const auto link = text(view.substr(157, 100));
  const auto prefix = text(view.substr(345, 155));
  if (!size || !name || !link || !prefix) return corrupt("a header field is malformed");

  const char type = view[156];
  if (type == 'x') {
    if (pax_pending_) return corrupt("two PAX headers in a row");
    if (*size == 0 || *size > kMaxPaxBytes) return corrupt("a PAX header of impossible size");
    remaining_ = *size;
    padding_ = tar_padding(*size);
    state_ = State::kPax;
    return {};
  }
  TarEntry entry;
  entry.path = !pax_path_.empty() ? pax_path_ : prefix->empty() ? *name : *prefix + "/" + *name;
  entry.size = *size;
  if (pax_size_ != 0) {
    // With two different sizes, two readers could see different files.
    if (*size != 0 || pax_size_ <= kUstarMaxSize) return corrupt("PAX and ustar size disagree");
    entry.size = pax_size_;
  }
  entry.link_target = pax_linkpath_.empty() ? *link : pax_linkpath_;
  entry.executable = (octal(view.substr(100, 8)).value_or(0) & 0111) != 0;
  pax_pending_ = false;
  pax_path_.clear();
  pax_linkpath_.clear();
  pax_size_ = 0;
  switch (type) {
    case '0':
      entry.type = TarType::kFile;
      break;
    case '1':
      entry.type = TarType::kHardLink;
      break;
    case '5':
      entry.type = TarType::kDirectory;
      break;
    default:
      return corrupt("an entry that is no file, directory or hard link (type " +
                     std::to_string(static_cast<unsigned char>(type)) + ")");
  }
  return take_entry(std::move(entry));
}

Status TarParser::take_pax() {
  const std::string records = std::exchange(gathered_, {});
  for (std::string_view rest = records; !rest.empty();) {
    const auto record = next_record(rest);
    if (!record) return corrupt("a malformed PAX record");
    const bool first = record->key == "path"       ? pax_path_.empty()
                       : record->key == "linkpath" ? pax_linkpath_.empty()
                                                   : pax_size_ == 0;
    if (record->value.empty() || !first) return corrupt("an empty or repeated PAX record");
    if (record->key == "path") {
      pax_path_ = record->value;
    } else if (record->key == "linkpath") {
      pax_linkpath_ = record->value;
    } else if (record->key == "size") {
      const char* last = record->value.data() + record->value.size();
      const auto [end, problem] = std::from_chars(record->value.data(), last, pax_size_);
      if (problem != std::errc() || end != last) return corrupt("a malformed PAX size");
    } else {
      return corrupt("a PAX record that our writers never make");
    }
    rest.remove_prefix(record->length);
  }
  pax_pending_ = true;
  state_ = padding_ > 0 ? State::kPadding : State::kHeader;
  remaining_ = padding_;
  return {};
}

Status TarParser::check_path(const std::string& path) {
  if (auto good = check_archive_path(path); !good) return corrupt(good.error().message);
  return {};
}

Status TarParser::take_entry(TarEntry entry) {
  state_ = State::kHeader;
  if (entry.type == TarType::kDirectory && entry.path.ends_with('/')) entry.path.pop_back();
  if (auto good = check_path(entry.path); !good) return good;
  if (entry.type != TarType::kFile && entry.size != 0)
    return corrupt("a directory or link with content");
  if (!seen_.insert(path_hash(entry.path)).second)
    return corrupt("two entries with the path " + entry.path);
  if (entry.type == TarType::kHardLink) {
    if (auto good = check_path(entry.link_target); !good) return good;
    if (entry.link_target == entry.path || !seen_.contains(path_hash(entry.link_target)))
      return corrupt("a hard link to what is not an earlier entry of the layer");
    return {};
  }
  if (!entry.link_target.empty()) return corrupt("a link target where there is no link");
  if (entry.type == TarType::kDirectory) return {};

  if (auto begun = sink_.begin_file(entry); !begun) return begun;
  if (entry.size == 0) return sink_.end_file();
  state_ = State::kContent;
  remaining_ = entry.size;
  padding_ = tar_padding(entry.size);
  return {};
}

}  // namespace compilecache::archive
