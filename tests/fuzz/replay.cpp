// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a fuzzer's function once on each file of the folders given: what libFuzzer does first with a
// saved corpus, in a build without its instrumentation.
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstddef>
#include <cstdint>
#include <system_error>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
  unsigned files = 0;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (llvm::sys::fs::directory_iterator it(argv[i], error), end; !error && it != end;
         it.increment(error)) {
      llvm::outs() << it->path() << "\n";
      llvm::outs().flush(); // before a crash
      const auto file = llvm::MemoryBuffer::getFile(it->path());
      if (!file) {
        llvm::errs() << it->path() << ": " << file.getError().message() << "\n";
        return 1;
      }
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>((*file)->getBufferStart()),
                             (*file)->getBufferSize());
      ++files;
    }
    if (error) {
      llvm::errs() << argv[i] << ": " << error.message() << "\n";
      return 1;
    }
  }
  llvm::outs() << files << " files\n";
  return files == 0;
}
