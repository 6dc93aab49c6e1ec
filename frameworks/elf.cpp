#include "frameworks/elf.hpp"

#include <elf.h>

#include <bit>
#include <cstring>
#include <vector>

namespace compilecache::frameworks {
namespace {

// More than any real library has; bounds what a damaged header can make us read.
constexpr uint64_t kMaxTableEntries = 1 << 16;

struct Classes64 {
  using Header = Elf64_Ehdr;
  using Segment = Elf64_Phdr;
  using Section = Elf64_Shdr;
};
struct Classes32 {
  using Header = Elf32_Ehdr;
  using Segment = Elf32_Phdr;
  using Section = Elf32_Shdr;
};

template <typename Integer>
uint64_t number(Integer value, bool swap) {
  if (!swap) return value;
  Integer swapped = 0;
  for (size_t i = 0; i < sizeof(Integer); ++i) {
    swapped = static_cast<Integer>((swapped << 8) | ((value >> (8 * i)) & 0xff));
  }
  return swapped;
}

bool fits(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

template <typename Entry>
bool read_table(const ReadAt& read, uint64_t offset, uint64_t count, uint64_t size,
                std::vector<Entry>& table) {
  if (count > kMaxTableEntries || !fits(offset, count * sizeof(Entry), size)) return false;
  table.resize(count);
  if (count == 0) return true;
  return read(offset, {reinterpret_cast<uint8_t*>(table.data()), count * sizeof(Entry)});
}

template <typename Classes>
bool sections_fit(const ReadAt& read, const typename Classes::Header& header, uint64_t size,
                  bool swap) {
  const uint64_t offset = number(header.e_shoff, swap);
  if (offset == 0) return true;  // stripped of its section table
  if (number(header.e_shentsize, swap) != sizeof(typename Classes::Section)) return false;
  uint64_t count = number(header.e_shnum, swap);
  std::vector<typename Classes::Section> sections;
  if (count == 0) {  // more than 65279: the number is in the first section's size
    if (!read_table(read, offset, 1, size, sections)) return false;
    count = number(sections[0].sh_size, swap);
  }
  if (!read_table(read, offset, count, size, sections)) return false;
  for (size_t i = 1; i < sections.size(); ++i) {
    const uint64_t type = number(sections[i].sh_type, swap);
    if (type == SHT_NOBITS || type == SHT_NULL) continue;
    if (!fits(number(sections[i].sh_offset, swap), number(sections[i].sh_size, swap), size)) {
      return false;
    }
  }
  return true;
}

template <typename Classes>
bool whole(const ReadAt& read, uint64_t size, bool swap) {
  typename Classes::Header header;
  if (size < sizeof(header) || !read(0, {reinterpret_cast<uint8_t*>(&header), sizeof(header)})) {
    return false;
  }
  const uint64_t count = number(header.e_phnum, swap);
  if (count == 0 && header.e_shoff == 0) return false;  // nothing in it
  if (count != 0 && number(header.e_phentsize, swap) != sizeof(typename Classes::Segment)) {
    return false;
  }
  std::vector<typename Classes::Segment> segments;
  if (!read_table(read, number(header.e_phoff, swap), count, size, segments)) return false;
  for (const auto& segment : segments) {
    if (!fits(number(segment.p_offset, swap), number(segment.p_filesz, swap), size)) return false;
  }
  return sections_fit<Classes>(read, header, size, swap);
}

}  // namespace

bool elf_whole(const ReadAt& read, uint64_t size) {
  uint8_t ident[EI_NIDENT];
  if (size < sizeof(ident) || !read(0, ident)) return false;
  if (std::memcmp(ident, ELFMAG, SELFMAG) != 0) return false;
  const bool big = ident[EI_DATA] == ELFDATA2MSB;
  if (!big && ident[EI_DATA] != ELFDATA2LSB) return false;
  const bool swap = big != (std::endian::native == std::endian::big);
  switch (ident[EI_CLASS]) {
    case ELFCLASS64:
      return whole<Classes64>(read, size, swap);
    case ELFCLASS32:
      return whole<Classes32>(read, size, swap);
    default:
      return false;
  }
}

}  // namespace compilecache::frameworks
