// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds and runs ptxas, and reads what it says.
#include "backend/nvptx/ptxas.h"

#include "backend/gpu/launch_kinds.h"
#include "frontend/base/check.h"
#include "frontend/base/child_process.h"
#include "frontend/base/parallel.h"
#include "frontend/base/scratch_file.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

#include <cstring>

namespace dtile::backend::nvptx {

namespace {

/// Of processor time. Large kernels take a minute; more than this is a hang.
constexpr unsigned kSeconds = 300;

/// `DTILE_PTXAS_TIMEOUT`, in seconds, where one knows better.
unsigned timeout() {
  unsigned seconds = 0;
  const auto named = llvm::sys::Process::GetEnv("DTILE_PTXAS_TIMEOUT");
  return named && !llvm::StringRef(*named).getAsInteger(10, seconds) && seconds != 0 ? seconds
                                                                                     : kSeconds;
}

} // namespace

std::string findPtxas() {
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  llvm::SmallVector<std::string, 2> folders;
  if (auto home = llvm::sys::Process::GetEnv("CUDA_HOME"); home && !home->empty())
    folders.push_back(*home);
  folders.push_back("/usr/local/cuda");
  for (const std::string &folder : folders) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "bin", "ptxas");
    if (llvm::sys::fs::can_execute(path))
      return path.str().str();
  }
  return "";
}

namespace {

// Code for sources of one date and size. Where `.file "name"` does not say these (or says 0, 0)
// ptxas looks for the file and writes them into the cubin, which then differs for a copy.
std::string withFixedDates(llvm::StringRef ptx) {
  std::string text;
  for (llvm::StringRef line : llvm::split(ptx, '\n')) {
    if (!text.empty())
      text += '\n';
    text += line;
    if (line.ltrim().starts_with(".file") && line.ends_with("\""))
      text += ", 1, 0";
  }
  return text;
}

/// What ptxas says where a kernel that gives registers away (setmaxnreg) needs more than it has.
constexpr llvm::StringLiteral kNoRegisters = "Register allocation failed";

/// A run whose time was over, or that ran out of registers, is told apart from one that failed.
llvm::Expected<Assembled> runOnce(llvm::StringRef ptx, llvm::StringRef arch, std::string &whyNot) {
  PhaseScope phase("running ptxas");
  const std::string dated = withFixedDates(ptx);
  ptx = dated;
  const std::string program = findPtxas();
  if (program.empty())
    return llvm::createStringError(
        "ptxas of the CUDA toolkit was found neither in PATH, nor in $CUDA_HOME/bin, nor in "
        "/usr/local/cuda/bin; without it there is PTX only (--emit=ptx, or an object file, whose "
        "PTX the driver compiles)");
  const unsigned seconds = timeout();
  auto input = ScratchFile::create(ptx);
  if (!input)
    return input.takeError();
  auto output = ScratchFile::create();
  if (!output)
    return output.takeError();
  auto run =
      runChild(program, {"-v", "-O3", ("-arch=" + arch).str(), input->path(), "-o", output->path()},
               seconds);
  if (!run)
    return run.takeError();
  const std::string messages = "\n" + llvm::StringRef(run->output).trim().str();
  if (run->isTimedOut) {
    whyNot = program + " has not ended after " + std::to_string(seconds) +
             " seconds of processor time, or " + std::to_string(uint64_t(seconds) * kMostWaiting) +
             " in all, for " + arch.str();
    return Assembled{"", std::move(run->output)};
  }
  if (run->signal != 0)
    return llvm::createStringError(program + " did not end well: " + ::strsignal(run->signal) +
                                   messages);
  if (run->code != 0 && llvm::StringRef(run->output).contains(kNoRegisters)) {
    whyNot = program + " finds too few registers for it, for " + arch.str();
    return Assembled{"", std::move(run->output)};
  }
  // Places in a file that is gone help nobody.
  if (run->code != 0)
    return llvm::createStringError(program + " refused the code for " + arch.str() + messages);
  auto cubin = output->contents();
  if (!cubin)
    return cubin.takeError();
  if (cubin->empty())
    return llvm::createStringError(program + " wrote nothing" + messages);
  return Assembled{std::move(*cubin), std::move(run->output)};
}

/// A text with one of the entries of another, whose other lines it shares.
struct EntryText {
  std::string entry;
  std::string text;
};

/// Text by kernels, each with its functions for kinds of launches. LLVM prints entries as `.visible
/// .entry NAME(`, and ends them by a brace at the beginning of a line. A text with full debug
/// information, which speaks of all code, is one piece.
std::vector<EntryText> splitEntries(llvm::StringRef ptx) {
  constexpr llvm::StringLiteral kEntry = ".visible .entry ";
  struct Lines {
    std::string entry;
    llvm::StringRef text;
  };
  std::vector<Lines> pieces;
  size_t begin = 0;
  bool isEntry = false;
  for (size_t at = 0; at < ptx.size();) {
    const size_t end = std::min(ptx.find('\n', at), ptx.size() - 1) + 1;
    const llvm::StringRef line = ptx.slice(at, end);
    if (line.starts_with(kEntry)) {
      pieces.push_back({"", ptx.slice(begin, at)});
      pieces.push_back({line.drop_front(kEntry.size()).split('(').first.trim().str(), ""});
      begin = at;
      isEntry = true;
    } else if (isEntry && line.starts_with("}")) {
      pieces.back().text = ptx.slice(begin, end);
      begin = end;
      isEntry = false;
    }
    at = end;
  }
  pieces.push_back({"", ptx.substr(begin)});
  const bool isWhole = isEntry || ptx.contains(".debug_info");
  std::vector<EntryText> texts;
  for (const Lines &own : pieces) {
    const bool isOther = llvm::any_of(
        pieces, [&](const Lines &other) { return gpu::isEntryOf(own.entry, other.entry); });
    if (own.entry.empty() || isWhole || isOther)
      continue;
    EntryText &made = texts.emplace_back(EntryText{own.entry, ""});
    for (const Lines &piece : pieces)
      if (piece.entry.empty() || &piece == &own || gpu::isEntryOf(piece.entry, own.entry))
        made.text += piece.text;
  }
  if (texts.size() < 2)
    return {{"", ptx.str()}};
  return texts;
}

} // namespace

llvm::Expected<Assembled> runPtxas(llvm::StringRef ptx, llvm::StringRef arch) {
  std::string whyNot;
  auto made = runOnce(ptx, arch, whyNot);
  if (made && !whyNot.empty())
    return llvm::createStringError(whyNot + "\n" + llvm::StringRef(made->messages).trim().str());
  return made;
}

llvm::Expected<std::vector<AssembledEntry>> assembleEntries(llvm::StringRef ptx,
                                                            llvm::StringRef arch) {
  const std::vector<EntryText> texts = splitEntries(ptx);
  std::vector<AssembledEntry> made(texts.size());
  std::vector<std::string> failures(texts.size());
  inParallel(texts.size(), [&](size_t i) {
    made[i].entry = texts[i].entry;
    if (auto one = runOnce(texts[i].text, arch, made[i].whyNot))
      made[i].made = std::move(*one);
    else
      failures[i] = llvm::toString(one.takeError());
  });
  for (const std::string &failure : failures)
    if (!failure.empty())
      return llvm::createStringError(failure);
  return made;
}

std::vector<gpu::KernelStats> parseStats(llvm::StringRef messages) {
  std::vector<gpu::KernelStats> all;
  // The number before some words.
  auto before = [](llvm::StringRef line, llvm::StringRef words) {
    int64_t number = 0;
    const size_t at = line.find(words);
    if (at == llvm::StringRef::npos)
      return number;
    llvm::StringRef head = line.take_front(at).rtrim();
    head.drop_front(head.find_last_not_of("0123456789") + 1).getAsInteger(10, number);
    return number;
  };
  llvm::SmallVector<llvm::StringRef> lines;
  messages.split(lines, '\n');
  // Functions that entries call follow them, with properties of their own.
  llvm::StringRef function;
  // Said before all kernels: `… Potential Performance Loss: words in the function 'name'`.
  std::vector<std::pair<llvm::StringRef, llvm::StringRef>> losses;
  for (llvm::StringRef line : lines) {
    if (const llvm::StringRef loss = line.split("Potential Performance Loss: ").second;
        !loss.empty()) {
      const auto [words, name] = loss.split(" in the function '");
      losses.emplace_back(name.split('\'').first, words);
    }
    if (line.contains("Compiling entry function '")) {
      all.emplace_back().entry = line.split('\'').second.split('\'').first.str();
      continue;
    }
    if (line.contains("Function properties for "))
      function = line.split("Function properties for ").second.trim();
    if (all.empty())
      continue;
    gpu::KernelStats &stats = all.back();
    if (line.contains("bytes stack frame") && function == stats.entry) {
      stats.stack = before(line, "bytes stack frame");
      stats.spillStores = before(line, "bytes spill stores");
      stats.spillLoads = before(line, "bytes spill loads");
    }
    if (size_t at = line.find("Used "); at != llvm::StringRef::npos) {
      stats.registers = before(line.drop_front(at), "registers");
      stats.shared = before(line, "bytes smem");
    }
  }
  for (gpu::KernelStats &stats : all)
    for (const auto &[name, words] : losses)
      if (name == stats.entry && stats.loss.empty())
        stats.loss = words.str();
  return all;
}

} // namespace dtile::backend::nvptx
