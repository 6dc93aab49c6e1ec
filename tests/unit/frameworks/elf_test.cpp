#include "frameworks/elf.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace compilecache::frameworks {
namespace {

using Bytes = std::vector<uint8_t>;

bool whole(const Bytes& bytes) {
  return elf_whole(
      [&](uint64_t offset, std::span<uint8_t> out) {
        if (offset > bytes.size() || out.size() > bytes.size() - offset) return false;
        std::memcpy(out.data(), bytes.data() + offset, out.size());
        return true;
      },
      bytes.size());
}

// This test itself: a real ELF file, with everything that a linker puts into one.
Bytes real_elf() {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  const std::string bytes = text.str();
  return {bytes.begin(), bytes.end()};
}

TEST(Elf, AWholeFileIsWhole) { EXPECT_TRUE(whole(real_elf())); }

TEST(Elf, ATornFileIsNot) {
  const Bytes elf = real_elf();
  for (const double part : {0.0, 0.0001, 0.01, 0.3, 0.5, 0.9, 0.999}) {
    const auto length = static_cast<ptrdiff_t>(static_cast<double>(elf.size()) * part);
    EXPECT_FALSE(whole(Bytes(elf.begin(), elf.begin() + length))) << part;
  }
  EXPECT_FALSE(whole(Bytes(elf.begin(), elf.end() - 1)));
}

TEST(Elf, HeadersNotYetWrittenAreNoElf) {
  Bytes elf = real_elf();
  std::fill_n(elf.begin(), sizeof(Elf64_Ehdr), 0);
  EXPECT_FALSE(whole(elf));
  EXPECT_FALSE(whole(Bytes(1000, 'x')));
}

TEST(Elf, AHeaderWithNothingBehindItIsNotWhole) {
  Bytes elf = real_elf();
  elf.resize(sizeof(Elf64_Ehdr));
  auto* header = reinterpret_cast<Elf64_Ehdr*>(elf.data());
  header->e_phnum = 0;
  header->e_shoff = 0;
  EXPECT_FALSE(whole(elf));
}

TEST(Elf, OffsetsThatOverflowDoNotFit) {
  Bytes elf = real_elf();
  reinterpret_cast<Elf64_Ehdr*>(elf.data())->e_shoff = ~uint64_t{0} - 8;
  EXPECT_FALSE(whole(elf));
}

TEST(Elf, WithoutSectionTableTheSegmentsDecide) {
  Bytes elf = real_elf();
  auto* header = reinterpret_cast<Elf64_Ehdr*>(elf.data());
  header->e_shoff = 0;
  header->e_shnum = 0;
  EXPECT_TRUE(whole(elf));
  auto* segments = reinterpret_cast<Elf64_Phdr*>(elf.data() + header->e_phoff);
  segments[header->e_phnum - 1].p_filesz = elf.size() + 1;
  EXPECT_FALSE(whole(elf));
}

TEST(Elf, BigEndian32Bit) {
  Bytes elf(sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr) + 16, 0);
  std::memcpy(elf.data(), ELFMAG, SELFMAG);
  elf[EI_CLASS] = ELFCLASS32;
  elf[EI_DATA] = ELFDATA2MSB;
  elf[offsetof(Elf32_Ehdr, e_phoff) + 3] = sizeof(Elf32_Ehdr);
  elf[offsetof(Elf32_Ehdr, e_phentsize) + 1] = sizeof(Elf32_Phdr);
  elf[offsetof(Elf32_Ehdr, e_phnum) + 1] = 1;
  const size_t segment = sizeof(Elf32_Ehdr);
  elf[segment + offsetof(Elf32_Phdr, p_filesz) + 3] = static_cast<uint8_t>(elf.size());
  EXPECT_TRUE(whole(elf));
  elf.pop_back();
  EXPECT_FALSE(whole(elf));
}

}  // namespace
}  // namespace compilecache::frameworks
