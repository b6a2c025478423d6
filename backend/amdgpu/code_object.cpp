// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Links code objects with lld and reads their notes. lld works on files, so both ends of it are
// temporary ones.
#include "backend/amdgpu/code_object.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"

LLD_HAS_DRIVER(elf)

namespace dtile::backend::amdgpu {

namespace {

/// A file that lives as long as this.
class TemporaryFile {
public:
  static llvm::Expected<TemporaryFile> create(llvm::StringRef suffix, llvm::StringRef bytes) {
    TemporaryFile file;
    int descriptor = -1;
    if (std::error_code error =
            llvm::sys::fs::createTemporaryFile("dtile", suffix, descriptor, file.path_))
      return llvm::createStringError(error, "cannot make a temporary file for lld: " +
                                                error.message());
    file.remover_.setFile(file.path_);
    llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/true);
    os << bytes;
    os.close();
    if (os.has_error()) {
      const std::error_code error = os.error();
      os.clear_error();
      return llvm::createStringError(error, "cannot write " + file.path_ + ": " + error.message());
    }
    return file;
  }
  TemporaryFile(TemporaryFile &&other) : path_(other.path_) {
    other.remover_.releaseFile();
    remover_.setFile(path_);
  }
  [[nodiscard]] const char *path() { return path_.c_str(); }

private:
  TemporaryFile() = default;
  llvm::SmallString<128> path_;
  llvm::FileRemover remover_;
};

} // namespace

llvm::Expected<std::string> linkCodeObject(llvm::StringRef object) {
  auto input = TemporaryFile::create("o", object);
  if (!input)
    return input.takeError();
  auto output = TemporaryFile::create("hsaco", "");
  if (!output)
    return output.takeError();
  std::string messages;
  llvm::raw_string_ostream os(messages);
  const char *arguments[] = {"ld.lld",       "--no-undefined", "-shared", "--threads=1",
                             input->path(), "-o",             output->path()};
  const lld::Result result =
      lld::lldMain(arguments, os, os, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return llvm::createStringError("lld cannot link the code object: " + messages);
  auto linked = llvm::MemoryBuffer::getFile(output->path());
  if (!linked)
    return llvm::createStringError(linked.getError(), "cannot read what lld wrote: " +
                                                          linked.getError().message());
  return (*linked)->getBuffer().str();
}

namespace {

/// The metadata of all kernels: a note of type 32, in MessagePack; LLVM's "User Guide for AMDGPU
/// Backend", "Code Object V3 and Above Metadata".
constexpr uint32_t kMetadataNote = 32;

using ElfFile = llvm::object::ELFFile<llvm::object::ELF64LE>;

llvm::Error addKernels(llvm::StringRef description, std::vector<gpu::KernelStats> &stats) {
  llvm::msgpack::Document document;
  if (!document.readFromBlob(description, /*Multi=*/false) || !document.getRoot().isMap())
    return llvm::createStringError("the metadata of a code object cannot be read");
  llvm::msgpack::DocNode &kernels = document.getRoot().getMap()["amdhsa.kernels"];
  if (!kernels.isArray())
    return llvm::Error::success();
  for (llvm::msgpack::DocNode &node : kernels.getArray()) {
    auto number = [&](llvm::StringRef key) {
      llvm::msgpack::DocNode &value = node.getMap()[key];
      return value.getKind() == llvm::msgpack::Type::UInt ? int64_t(value.getUInt()) : 0;
    };
    gpu::KernelStats &kernel = stats.emplace_back();
    kernel.entry = node.getMap()[".name"].getString().str();
    // On CDNA 2 and later accumulators are among them.
    kernel.registers = number(".vgpr_count");
    // A lane's registers are stored and loaded once at least.
    kernel.spillStores = kernel.spillLoads = 4 * number(".vgpr_spill_count");
    kernel.stack = number(".private_segment_fixed_size");
    kernel.shared = number(".group_segment_fixed_size");
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::vector<gpu::KernelStats>> readStats(llvm::StringRef object) {
  auto file = ElfFile::create(object);
  if (!file)
    return file.takeError();
  auto sections = file->sections();
  if (!sections)
    return sections.takeError();
  std::vector<gpu::KernelStats> stats;
  for (const ElfFile::Elf_Shdr &section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_NOTE)
      continue;
    llvm::Error error = llvm::Error::success();
    for (const ElfFile::Elf_Note &note : file->notes(section, error)) {
      if (note.getName() != "AMDGPU" || note.getType() != kMetadataNote)
        continue;
      if (llvm::Error bad = addKernels(note.getDescAsStringRef(section.sh_addralign), stats))
        return llvm::joinErrors(std::move(bad), std::move(error));
    }
    if (error)
      return error;
  }
  return stats;
}

} // namespace dtile::backend::amdgpu
