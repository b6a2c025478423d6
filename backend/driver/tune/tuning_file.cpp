// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes tuning files.
#include "backend/driver/tune/tuning_file.h"

#include "backend/driver/choose/size_ranges.h"
#include "backend/driver/output/output_file.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

namespace dtile::driver {

namespace {

constexpr llvm::StringLiteral kMagic = "dtile tuning ";
constexpr int64_t kVersion = 1;
constexpr llvm::StringLiteral kAlternative = "alternative=";

/// `M=512 N=512`; nothing where it is not that.
std::optional<Constants> readConstants(llvm::StringRef text) {
  Constants constants;
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(text, words);
  for (llvm::StringRef word : words) {
    const auto [name, value] = word.split('=');
    int64_t number = 0;
    if (name.empty() || value.getAsInteger(10, number) || number < 0 ||
        llvm::any_of(constants, [&, &name = name](const auto &one) { return one.first == name; }))
      return std::nullopt;
    constants.emplace_back(name.str(), number);
  }
  return constants;
}

class Parser {
public:
  Parser(const SourceManager &sources, FileId file, Diagnostics &diagnostics)
      : sources_(sources), file_(file), diagnostics_(diagnostics), text_(sources.text(file)) {}

  std::optional<TuningFile> run() {
    llvm::StringRef line;
    if (!next(line) || !line.consume_front(kMagic))
      return fail("begins with another line than `dtile tuning 1`");
    int64_t version = 0;
    if (line.getAsInteger(10, version) || version < 1)
      return fail("has no version in its first line");
    if (version > kVersion)
      return fail("is of version " + std::to_string(version) + ", and this dtilec reads version " +
                  std::to_string(kVersion));
    while (next(line)) {
      if (line.consume_front("end ")) {
        if (!readEnd(line))
          return std::nullopt;
        return std::move(made_);
      }
      if (!readLine(line))
        return std::nullopt;
    }
    return fail("ends early: its last line is not `end` with the number of its choices");
  }

private:
  /// The next line that is neither empty nor a comment.
  bool next(llvm::StringRef &line) {
    while (at_ < text_.size()) {
      const size_t begin = at_;
      const size_t end = std::min(text_.find('\n', begin), text_.size());
      at_ = end + 1;
      line_ = uint32_t(begin);
      line = text_.slice(begin, end).trim();
      if (!line.empty() && line.front() != '#')
        return true;
    }
    line_ = uint32_t(text_.size());
    return false;
  }

  [[nodiscard]] SourceLoc here() const { return sources_.locAt(file_, line_); }

  std::nullopt_t fail(const std::string &why) {
    diagnostics_.report(here(), diag::bad_tuning, why);
    return std::nullopt;
  }

  bool readEnd(llvm::StringRef line) {
    size_t said = 0, are = 0;
    for (const TuningSection &section : made_.sections)
      are += section.choices.size();
    if (line.getAsInteger(10, said) || said != are) {
      fail("says that it has " + line.str() + " choices, and has " + std::to_string(are));
      return false;
    }
    llvm::StringRef rest;
    if (next(rest)) {
      fail("goes on behind its `end`");
      return false;
    }
    return true;
  }

  bool readLine(llvm::StringRef line) {
    if (line.consume_front("target ")) {
      const auto [target, arch] = line.trim().split(' ');
      target_ = target.str();
      arch_ = arch.trim().str();
      return true;
    }
    if (line.consume_front("machine ")) {
      machine_ = line.trim().str();
      return true;
    }
    if (line.consume_front("kernel ")) {
      const auto [kernel, hash] = line.trim().split(' ');
      if (target_.empty() || machine_.empty() || hash.trim().empty()) {
        fail("names a kernel without a hash, or before `target` and `machine`");
        return false;
      }
      made_.sections.push_back(
          {here(), target_, arch_, machine_, kernel.str(), hash.trim().str(), {}});
      return true;
    }
    return readChoice(line);
  }

  bool readChoice(llvm::StringRef line) {
    llvm::SmallVector<llvm::StringRef> parts;
    line.split(parts, ':');
    const auto sizes = readConstants(parts[0]);
    TunedChoice choice;
    choice.loc = here();
    llvm::StringRef chosen = parts.size() == 3 ? parts[1].trim() : "";
    if (chosen.consume_front(kAlternative)) {
      const auto [name, rest] = chosen.split(' ');
      choice.alternative = name.str();
      chosen = rest;
    }
    const auto constants = readConstants(chosen);
    if (made_.sections.empty() || !sizes || sizes->empty() || sizes->front().first != kRanks ||
        sizes->front().second < 1 || !constants ||
        (constants->empty() && choice.alternative.empty()) || parts.size() != 3 ||
        !readTimes(parts[2].trim(), choice)) {
      fail("has a line that is no choice, as `W=1 M=512 : BM=64 : 12.5 us instead of 14.0` is one");
      return false;
    }
    choice.ranks = sizes->front().second;
    choice.sizes.assign(sizes->begin() + 1, sizes->end());
    choice.constants = *constants;
    made_.sections.back().choices.push_back(std::move(choice));
    return true;
  }

  static bool readTimes(llvm::StringRef text, TunedChoice &choice) {
    const auto [own, usual] = text.split(" us instead of ");
    return !own.getAsDouble(choice.microseconds) && !usual.trim().getAsDouble(choice.usually);
  }

  const SourceManager &sources_;
  FileId file_;
  Diagnostics &diagnostics_;
  llvm::StringRef text_;
  size_t at_ = 0;
  /// Where the current line begins.
  uint32_t line_ = 0;
  std::string target_, arch_, machine_;
  TuningFile made_;
};

void sort(std::vector<TunedChoice> &choices) {
  const auto key = [](const TunedChoice &choice) { return std::tie(choice.ranks, choice.sizes); };
  llvm::sort(choices, [&](const auto &a, const auto &b) { return key(a) < key(b); });
}

} // namespace

std::optional<TuningFile> parseTuningFile(const SourceManager &sources, FileId file,
                                          Diagnostics &diagnostics) {
  return Parser(sources, file, diagnostics).run();
}

std::optional<TuningFile> readTuningFile(Session &session, llvm::StringRef path) {
  const std::optional<FileId> file = session.load(path);
  return file ? parseTuningFile(session.sources, *file, session.diagnostics) : std::nullopt;
}

void addToTuningFile(TuningFile &file, TuningSection section) {
  const auto known =
      llvm::find_if(file.sections, [&](const TuningSection &one) { return one.isOf(section); });
  if (known != file.sections.end()) {
    if (known->hash == section.hash)
      for (TunedChoice &choice : known->choices)
        if (llvm::none_of(section.choices, [&](const TunedChoice &one) {
              return one.ranks == choice.ranks && one.sizes == choice.sizes;
            }))
          section.choices.push_back(std::move(choice));
    file.sections.erase(known);
  }
  sort(section.choices);
  file.sections.push_back(std::move(section));
  const auto key = [](const TuningSection &one) {
    return std::tie(one.target, one.arch, one.machine, one.kernel);
  };
  llvm::sort(file.sections, [&](const auto &a, const auto &b) { return key(a) < key(b); });
}

namespace {

/// Others that write files of the folder of `path`, and ask for this, wait until it ends.
class FolderLock {
public:
  explicit FolderLock(llvm::StringRef path) {
    const std::string folder = llvm::sys::path::parent_path(path).str();
    folder_ = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Where a file system has no locks, a file may miss what was written at the same moment.
    if (folder_ >= 0)
      (void)flock(folder_, LOCK_EX);
  }
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;
  ~FolderLock() {
    if (folder_ >= 0)
      close(folder_);
  }

private:
  int folder_ = -1;
};

/// The file as it is now; nothing where it is none.
std::optional<TuningFile> readAgain(const std::string &path) {
  SourceManager sources;
  Diagnostics silent(sources);
  llvm::Expected<FileId> file = sources.load(path);
  if (!file) {
    llvm::consumeError(file.takeError());
    return std::nullopt;
  }
  return parseTuningFile(sources, *file, silent);
}

} // namespace

llvm::Error addToTuningFileAt(const std::string &path, TuningFile known,
                              llvm::ArrayRef<TuningSection> sections) {
  std::optional<FolderLock> lock;
  if (path != "-") {
    lock.emplace(realPath(path));
    if (auto now = readAgain(path))
      known = std::move(*now);
  }
  for (const TuningSection &section : sections)
    addToTuningFile(known, section);
  return writeFile(path, tuningFileText(known));
}

std::string chosenText(const TunedChoice &choice) {
  if (choice.alternative.empty())
    return text(choice.constants);
  const std::string alternative = kAlternative.str() + choice.alternative;
  return choice.constants.empty() ? alternative : alternative + " " + text(choice.constants);
}

std::string tuningFileText(const TuningFile &file) {
  std::string text = (kMagic + llvm::Twine(kVersion) + "\n").str();
  text += "# Choices that `dtilec tune` measured; `dtilec build --tuning` reads them.\n";
  std::string before;
  size_t count = 0;
  for (const TuningSection &section : file.sections) {
    const std::string machine = "target " + section.target +
                                (section.arch.empty() ? "" : " " + section.arch) + "\nmachine " +
                                section.machine + "\n";
    if (machine != before)
      text += machine;
    before = machine;
    text += "kernel " + section.kernel + " " + section.hash + "\n";
    for (const TunedChoice &choice : section.choices) {
      text += (kRanks + "=" + llvm::Twine(choice.ranks)).str();
      if (!choice.sizes.empty())
        text += " " + driver::text(choice.sizes);
      text +=
          " : " + chosenText(choice) + " : " +
          llvm::formatv("{0:f1} us instead of {1:f1}\n", choice.microseconds, choice.usually).str();
      ++count;
    }
  }
  return text + "end " + std::to_string(count) + "\n";
}

} // namespace dtile::driver
