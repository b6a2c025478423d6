// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cuts sections out of a cubin. Their headers stay, with a size of zero.
#include "backend/nvptx/cubin.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/BinaryFormat/ELF.h"

#include <cstring>
#include <optional>

namespace dtile::backend::nvptx {

namespace {

using namespace llvm::ELF;

constexpr llvm::StringLiteral kLeftOut[] = {".nv_debug_ptx_txt", ".nv_debug_line_sass",
                                            ".rela.nv_debug_line_sass"};

/// What is after a cut moves by a multiple of this, so that it stays as aligned as it was.
constexpr uint64_t kSectionAlignment = 128;

struct Cut {
  uint64_t begin, bytes;
};

template <typename T> std::optional<T> read(llvm::StringRef file, uint64_t at) {
  if (at > file.size() || file.size() - at < sizeof(T))
    return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + at, sizeof(T));
  return value;
}

template <typename T> void write(std::string &file, uint64_t at, const T &value) {
  std::memcpy(file.data() + at, &value, sizeof(T));
}

std::optional<llvm::SmallVector<Elf64_Shdr>> sectionsOf(llvm::StringRef file,
                                                        const Elf64_Ehdr &header) {
  llvm::SmallVector<Elf64_Shdr> sections;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = read<Elf64_Shdr>(file, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (!section)
      return std::nullopt;
    const uint64_t bytes = section->sh_type == SHT_NOBITS ? 0 : section->sh_size;
    if (section->sh_offset > file.size() || file.size() - section->sh_offset < bytes)
      return std::nullopt;
    sections.push_back(*section);
  }
  return sections;
}

llvm::StringRef nameOf(llvm::StringRef file, const Elf64_Shdr &names, const Elf64_Shdr &section) {
  return file.substr(names.sh_offset, names.sh_size)
      .drop_front(std::min<uint64_t>(section.sh_name, names.sh_size))
      .split('\0')
      .first;
}

} // namespace

std::string withoutPtxText(llvm::StringRef cubin) {
  const auto header = read<Elf64_Ehdr>(cubin, 0);
  if (!header || !header->checkMagic() || header->getFileClass() != ELFCLASS64 ||
      header->getDataEncoding() != ELFDATA2LSB || header->e_shentsize != sizeof(Elf64_Shdr) ||
      header->e_shstrndx >= header->e_shnum ||
      (header->e_phnum != 0 && header->e_phentsize != sizeof(Elf64_Phdr)))
    return cubin.str();
  auto sections = sectionsOf(cubin, *header);
  if (!sections)
    return cubin.str();
  const Elf64_Shdr names = (*sections)[header->e_shstrndx];
  llvm::SmallVector<Cut> cuts;
  for (Elf64_Shdr &section : *sections)
    if (section.sh_type != SHT_NOBITS &&
        llvm::is_contained(kLeftOut, nameOf(cubin, names, section))) {
      cuts.push_back({section.sh_offset, section.sh_size / kSectionAlignment * kSectionAlignment});
      section.sh_size = 0;
    }
  llvm::sort(cuts, [](const Cut &a, const Cut &b) { return a.begin < b.begin; });
  const auto moved = [&](uint64_t at) {
    uint64_t before = 0;
    for (const Cut &cut : cuts)
      if (cut.begin < at)
        before += cut.bytes;
    return at - before;
  };
  std::string made;
  uint64_t end = 0;
  for (const Cut &cut : cuts) {
    made += cubin.slice(end, cut.begin);
    end = cut.begin + cut.bytes;
  }
  made += cubin.substr(end);

  Elf64_Ehdr changed = *header;
  changed.e_shoff = moved(header->e_shoff);
  changed.e_phoff = moved(header->e_phoff);
  write(made, 0, changed);
  for (auto [i, section] : llvm::enumerate(*sections)) {
    section.sh_offset = moved(section.sh_offset);
    write(made, changed.e_shoff + i * sizeof(Elf64_Shdr), section);
  }
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    auto segment = read<Elf64_Phdr>(cubin, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment)
      return cubin.str();
    segment->p_offset = moved(segment->p_offset);
    write(made, changed.e_phoff + i * sizeof(Elf64_Phdr), *segment);
  }
  return made;
}

} // namespace dtile::backend::nvptx
