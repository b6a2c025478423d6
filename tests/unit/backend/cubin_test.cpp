// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file like those of ptxas, without what objects do not keep.
#include "backend/nvptx/cubin.h"

#include "llvm/BinaryFormat/ELF.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace dtile::backend::nvptx {
namespace {

using namespace llvm::ELF;

struct Section {
  std::string name, bytes;
  uint64_t alignment = 1;
};

/// Sections one behind the other, their headers, and a segment of the last one.
std::string elf(const std::vector<Section> &sections) {
  std::string file(sizeof(Elf64_Ehdr), '\0'), names(1, '\0');
  std::vector<Elf64_Shdr> headers(1, Elf64_Shdr{});
  const auto add = [&](const Section &section) {
    file.resize((file.size() + section.alignment - 1) / section.alignment * section.alignment);
    Elf64_Shdr header{};
    header.sh_name = Elf64_Word(names.size());
    header.sh_type = SHT_PROGBITS;
    header.sh_offset = file.size();
    header.sh_size = section.bytes.size();
    header.sh_addralign = section.alignment;
    names += section.name + '\0';
    file += section.bytes;
    headers.push_back(header);
  };
  for (const Section &section : sections)
    add(section);
  const Elf64_Shdr last = headers.back();
  names += std::string(".shstrtab") + '\0';
  const std::string all = names;
  add({".shstrtab", all});
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ElfMagic, 4);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shoff = file.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = Elf64_Half(headers.size());
  header.e_shstrndx = Elf64_Half(headers.size() - 1);
  for (const Elf64_Shdr &one : headers)
    file.append(reinterpret_cast<const char *>(&one), sizeof one);
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_offset = last.sh_offset;
  segment.p_filesz = last.sh_size;
  header.e_phoff = file.size();
  header.e_phentsize = sizeof segment;
  header.e_phnum = 1;
  file.append(reinterpret_cast<const char *>(&segment), sizeof segment);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

template <typename T> T at(const std::string &file, uint64_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

std::string contents(const std::string &file, unsigned section) {
  const auto header = at<Elf64_Ehdr>(file, 0);
  const auto found = at<Elf64_Shdr>(file, header.e_shoff + section * sizeof(Elf64_Shdr));
  return file.substr(found.sh_offset, found.sh_size);
}

TEST(Cubin, LosesTheTextOfItsPtxAndNothingElse) {
  const std::string text(5000, 't'), lines(700, 'l'), code(1000, 'c');
  const std::string before = elf({{".debug_line", "own lines"},
                                  {".nv_debug_line_sass", lines},
                                  {".nv_debug_ptx_txt", text},
                                  {".nv.info", "facts", 4},
                                  {".text.k", code, 128}});
  const std::string after = withoutPtxText(before);
  EXPECT_LT(after.size() + 5600, before.size() + 128);
  const auto header = at<Elf64_Ehdr>(after, 0);
  EXPECT_EQ(header.e_shnum, at<Elf64_Ehdr>(before, 0).e_shnum);
  EXPECT_EQ(contents(after, 1), "own lines");
  EXPECT_EQ(contents(after, 2), "");
  EXPECT_EQ(contents(after, 3), "");
  EXPECT_EQ(contents(after, 4), "facts");
  EXPECT_EQ(contents(after, 5), code);
  EXPECT_EQ(contents(after, 6), contents(before, 6));
  const auto segment = at<Elf64_Phdr>(after, header.e_phoff);
  EXPECT_EQ(after.substr(segment.p_offset, segment.p_filesz), code);
  EXPECT_EQ(segment.p_offset % 128, 0u);
}

TEST(Cubin, WithoutSuchTextIsAsItWas) {
  const std::string file = elf({{".text.k", "code", 128}});
  EXPECT_EQ(withoutPtxText(file), file);
}

TEST(Cubin, WhatIsNoneIsAsItWas) {
  const std::string file = elf({{".nv_debug_ptx_txt", std::string(500, 't')}, {".text.k", "code"}});
  EXPECT_LT(withoutPtxText(file).size(), file.size());
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_EQ(withoutPtxText(file.substr(0, size)), file.substr(0, size));
  EXPECT_EQ(withoutPtxText("no ELF"), "no ELF");
}

} // namespace
} // namespace dtile::backend::nvptx
