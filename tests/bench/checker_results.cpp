// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checker_results.h"

#include "checker_mutants.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <array>
#include <map>

namespace dtile::bench {

namespace {

constexpr std::array<llvm::StringLiteral, 5> kVerdicts = {"not built", "refused", "undecided",
                                                          "checked", "proved"};
constexpr std::array<llvm::StringLiteral, 3> kTruths = {"right", "wrong", "unsafe"};

template <typename Enum, size_t N>
Enum parse(const std::array<llvm::StringLiteral, N> &names, llvm::StringRef name) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == name)
      return Enum(i);
  return Enum(0);
}

std::string keyOf(const Result &result) {
  return result.file + '\n' + result.kernel + '\n' + llvm::join(result.mutations, "+");
}

/// One result; a program as it stands is a row of its own.
Result fromJson(const llvm::json::Object &line) {
  Result result;
  const auto text = [&](llvm::StringRef name) { return line.getString(name).value_or("").str(); };
  result.file = text("file");
  result.kernel = text("kernel");
  if (const auto *mutations = line.getArray("mutations"))
    for (const llvm::json::Value &mutation : *mutations)
      result.mutations.push_back(mutation.getAsString().value_or("").str());
  for (const std::string &mutation : result.mutations)
    result.kinds.push_back(llvm::StringRef(mutation).split('@').first.str());
  result.verdict = parse<Verdict>(kVerdicts, text("verdict"));
  result.truth = parse<Truth>(kTruths, text("truth"));
  result.isSame = line.getBoolean("same").value_or(false);
  result.runs = line.getInteger("runs").value_or(0);
  result.checkSeconds = line.getNumber("seconds").value_or(0);
  result.program = uint64_t(line.getInteger("program").value_or(0));
  result.message = text("message");
  result.evidence = text("evidence");
  return result;
}

/// By verdict and truth.
using Counts = std::array<std::array<unsigned, 3>, 5>;

} // namespace

std::string toJson(const Result &result) {
  llvm::json::Object line{{"file", result.file},
                          {"kernel", result.kernel},
                          {"mutations", llvm::json::Array(result.mutations)},
                          {"verdict", kVerdicts[size_t(result.verdict)]},
                          {"truth", kTruths[size_t(result.truth)]},
                          {"runs", result.runs},
                          {"program", int64_t(result.program)},
                          {"seconds", result.checkSeconds}};
  if (result.isSame)
    line["same"] = true;
  if (!result.message.empty())
    line["message"] = result.message;
  if (!result.evidence.empty())
    line["evidence"] = result.evidence;
  return llvm::formatv("{0}", llvm::json::Value(std::move(line))).str();
}

Results::Results(const std::string &path) : path_(path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (path.empty() || !file)
    return;
  llvm::SmallVector<llvm::StringRef> lines;
  (*file)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (const llvm::StringRef line : lines) {
    auto value = llvm::json::parse(line);
    // A run that was ended has written a part of its last line.
    if (!value) {
      llvm::consumeError(value.takeError());
      continue;
    }
    if (const llvm::json::Object *object = value->getAsObject()) {
      all_.push_back(fromJson(*object));
      known_.insert(keyOf(all_.back()));
    }
  }
}

bool Results::has(const Result &result) const { return known_.contains(keyOf(result)); }

void Results::add(Result result) {
  if (!known_.insert(keyOf(result)).second)
    return;
  if (!path_.empty()) {
    std::error_code error;
    llvm::raw_fd_ostream os(path_, error, llvm::sys::fs::OF_Append);
    if (!error)
      os << toJson(result) << '\n';
  }
  all_.push_back(std::move(result));
}

std::set<uint64_t> Results::programsOf(const Result &base) const {
  std::set<uint64_t> programs;
  for (const Result &result : all_)
    if (result.file == base.file && result.kernel == base.kernel && result.program != 0)
      programs.insert(result.program);
  return programs;
}

bool Results::hasFailed() const {
  return llvm::any_of(all_, [](const Result &result) {
    const bool isRightOneRefused =
        result.mutations.empty() && result.isCounted() && result.verdict == Verdict::Refused;
    return (result.isFalseAccept() && result.verdict != Verdict::Undecided) || isRightOneRefused;
  });
}

void Results::print(llvm::raw_ostream &os) const {
  std::map<std::string, Counts> byKind;
  Counts all{};
  unsigned notBuilt = 0, same = 0, rightRefused = 0;
  int64_t runs = 0;
  for (const Result &result : all_) {
    runs += result.runs;
    if (result.mutations.empty()) {
      rightRefused += result.verdict == Verdict::Refused && result.truth != Truth::Unsafe;
      continue;
    }
    notBuilt += result.verdict == Verdict::NotBuilt;
    same += result.isSame;
    if (!result.isCounted())
      continue;
    const std::string kind = result.kinds.size() == 1 ? result.kinds.front() : "two of them";
    ++byKind[kind][size_t(result.verdict)][size_t(result.truth)];
    ++all[size_t(result.verdict)][size_t(result.truth)];
  }
  const auto row = [&](llvm::StringRef name, const Counts &counts) {
    os << llvm::left_justify(name, 18);
    for (const Truth truth : {Truth::Unsafe, Truth::WrongAlways, Truth::Right}) {
      os << " |";
      for (const Verdict verdict :
           {Verdict::Refused, Verdict::Undecided, Verdict::Checked, Verdict::Proved})
        os << llvm::right_justify(std::to_string(counts[size_t(verdict)][size_t(truth)]), 6);
    }
    os << '\n';
  };
  os << '\n' << llvm::left_justify("", 18);
  for (const char *truth : {"unsafe in a run", "always wrong", "always right"})
    os << " | " << llvm::left_justify(truth, 23);
  os << '\n' << llvm::left_justify("mistake", 18);
  for (unsigned i = 0; i < kTruths.size(); ++i)
    os << " |  ref.  und. check proved";
  os << '\n';
  for (const auto &[kind, counts] : byKind)
    row(kind, counts);
  row("all", all);
  const auto unsafe = [&](Verdict verdict) { return all[size_t(verdict)][size_t(Truth::Unsafe)]; };
  os << "no program: " << notBuilt << ", the same program as another: " << same
     << ", runs: " << runs << '\n'
     << "right programs refused: " << rightRefused << '\n'
     << "proved and unsafe in a run: " << unsafe(Verdict::Proved)
     << ", checked and unsafe: " << unsafe(Verdict::Checked)
     << ", undecided and unsafe: " << unsafe(Verdict::Undecided) << '\n';
}

} // namespace dtile::bench
