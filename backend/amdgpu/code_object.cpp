// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Links code objects with lld and reads their notes. lld works on files, so both ends of it have
// names.
#include "backend/amdgpu/code_object.h"

#include "frontend/base/scratch_file.h"

#include "lld/Common/Driver.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Object/ELFObjectFile.h"

#include <cerrno>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

namespace dtile::backend::amdgpu {

namespace {

/// A name to write to. lld writes a file beside its output and renames it, unless that is a pipe.
class OutputPipe {
public:
  OutputPipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return;
    write_ = ends[1];
    path_ = "/proc/self/fd/" + std::to_string(write_);
    reader_ = std::thread([this, read = ends[0]] {
      char bytes[1 << 14];
      ssize_t count = 0;
      while ((count = ::read(read, bytes, sizeof(bytes))) > 0 || (count < 0 && errno == EINTR))
        text_.append(bytes, count > 0 ? size_t(count) : 0);
      ::close(read);
    });
  }
  ~OutputPipe() { finish(); }
  OutputPipe(const OutputPipe &) = delete;
  OutputPipe &operator=(const OutputPipe &) = delete;

  [[nodiscard]] bool isThere() const {
    return !path_.empty() && ::access(path_.c_str(), W_OK) == 0;
  }
  [[nodiscard]] const char *path() const { return path_.c_str(); }
  /// What was written.
  std::string finish() {
    if (write_ >= 0)
      ::close(std::exchange(write_, -1));
    if (reader_.joinable())
      reader_.join();
    return std::move(text_);
  }

private:
  int write_ = -1;
  std::string path_;
  std::string text_;
  std::thread reader_;
};

} // namespace

llvm::Expected<std::string> linkCodeObject(llvm::StringRef object) {
  auto input = ScratchFile::create(object);
  if (!input)
    return input.takeError();
  OutputPipe output;
  if (!output.isThere())
    return llvm::createStringError("cannot make a pipe for lld, in /proc/self/fd");
  std::string messages;
  llvm::raw_string_ostream os(messages);
  const char *arguments[] = {"ld.lld",      "--no-undefined",      "-shared",
                             "--threads=1", input->path().c_str(), "-o",
                             output.path()};
  const lld::Result result = lld::lldMain(arguments, os, os, {{lld::Gnu, &lld::elf::link}});
  std::string linked = output.finish();
  if (result.retCode != 0)
    return llvm::createStringError("lld cannot link the code object: " + messages);
  return linked;
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
