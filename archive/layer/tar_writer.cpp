#include "archive/layer/tar_writer.hpp"

#include <cstdio>
#include <cstring>
#include <numeric>

namespace compilecache::archive {
namespace {

constexpr uint64_t kUstarMaxSize = 077777777777ULL;  // eleven octal digits
constexpr size_t kNameBytes = 100;
constexpr size_t kPrefixBytes = 155;

// The fields of a POSIX ustar header.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char typeflag;
  char linkname[100];
  char magic[6];
  char version[2];
  char uname[32];
  char gname[32];
  char devmajor[8];
  char devminor[8];
  char prefix[155];
  char padding[12];
};
static_assert(sizeof(Header) == kTarBlock);

template <size_t N>
void put_octal(char (&field)[N], uint64_t value) {
  for (size_t i = N - 1; i-- > 0; value >>= 3) field[i] = static_cast<char>('0' + (value & 7));
  field[N - 1] = '\0';
}

template <size_t N>
void put_text(char (&field)[N], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), N));
}

// Writes the path, split at a slash into prefix and name if needed. False: it does not fit.
bool put_path(Header& header, const std::string& path) {
  if (path.size() <= kNameBytes) {
    put_text(header.name, path);
    return true;
  }
  // The slash itself is not stored; a directory's trailing slash stays with the name.
  const size_t first = path.size() - 1 > kNameBytes ? path.size() - 1 - kNameBytes : 0;
  const size_t slash = path.find('/', first);
  if (slash == std::string::npos || slash == 0 || slash > kPrefixBytes ||
      slash + 1 == path.size()) {
    return false;
  }
  put_text(header.prefix, path.substr(0, slash));
  put_text(header.name, path.substr(slash + 1));
  return true;
}

std::string finish(Header& header) {
  std::memset(header.checksum, ' ', sizeof header.checksum);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  const unsigned sum = std::accumulate(bytes, bytes + sizeof header, 0U);
  std::snprintf(header.checksum, sizeof header.checksum, "%06o", sum);
  header.checksum[7] = ' ';
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

Header blank(char typeflag, unsigned mode, uint64_t size) {
  Header header{};
  put_octal(header.mode, mode);
  put_octal(header.uid, 0);
  put_octal(header.gid, 0);
  put_octal(header.size, size);
  put_octal(header.mtime, 0);
  put_octal(header.devmajor, 0);
  put_octal(header.devminor, 0);
  header.typeflag = typeflag;
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  return header;
}

// Makes "<length> <key>=<value>\n", where the length includes itself.
std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  size_t length = rest.size();
  size_t digits = 0;
  while (digits != std::to_string(length).size()) {
    digits = std::to_string(length).size();
    length = rest.size() + digits;
  }
  return std::to_string(length) + rest;
}

std::string pax_header(const std::string& records) {
  Header header = blank('x', 0644, records.size());
  put_text(header.name, "PaxHeader");
  return finish(header) + records + std::string(tar_padding(records.size()), '\0');
}

char typeflag(TarType type) {
  switch (type) {
    case TarType::kFile:
      return '0';
    case TarType::kHardLink:
      return '1';
    case TarType::kDirectory:
      return '5';
  }
  return '0';
}

}  // namespace

std::string tar_header(const TarEntry& entry) {
  const bool directory = entry.type == TarType::kDirectory;
  const uint64_t size = entry.type == TarType::kFile ? entry.size : 0;
  const bool big = size > kUstarMaxSize;
  Header header =
      blank(typeflag(entry.type), directory || entry.executable ? 0755 : 0644, big ? 0 : size);
  put_octal(header.mtime, entry.variation);
  std::string records;
  const std::string path = directory ? entry.path + "/" : entry.path;
  if (!put_path(header, path)) {
    put_text(header.name, "long");
    records += pax_record("path", path);
  }
  if (entry.link_target.size() <= kNameBytes) {
    put_text(header.linkname, entry.link_target);
  } else {
    records += pax_record("linkpath", entry.link_target);
  }
  if (big) records += pax_record("size", std::to_string(size));
  const std::string block = finish(header);
  return records.empty() ? block : pax_header(records) + block;
}

}  // namespace compilecache::archive
