// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects messages and fills the holes of their texts.
#include "frontend/base/diagnostics.h"

#include "frontend/base/check.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace dtile {

namespace {

constexpr std::array<DiagInfo, diag::kCount> kInfos = {{
#define DIAG(ID, CODE, SEVERITY, TEXT) {#ID, CODE, Severity::SEVERITY, TEXT},
#include "frontend/base/diagnostics.def"
}};

// The index of a message that was counted but not kept.
constexpr size_t kDropped = ~size_t(0);

// Replaces {0}, {1} … A brace that no argument fits stands for itself.
std::string fillHoles(std::string_view text, const std::vector<DiagArg> &args) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool isHole = text[i] == '{' && i + 2 < text.size() && text[i + 2] == '}' &&
                        text[i + 1] >= '0' && size_t(text[i + 1] - '0') < args.size();
    if (!isHole) {
      result += text[i];
      continue;
    }
    result += args[text[i + 1] - '0'].text;
    i += 2;
  }
  return result;
}

} // namespace

const DiagInfo &diagInfo(diag::Id id) {
  DTILE_CHECK(id < diag::kCount, "not a diagnostic");
  return kInfos[id];
}

DiagBuilder &DiagBuilder::fix(SourceRange range, llvm::StringRef text) {
  if (index_ != kDropped)
    engine_.all_[index_].fixes.push_back({range, text.str()});
  return *this;
}

DiagBuilder &DiagBuilder::addNote(SourceRange range, diag::Id id,
                                  const std::vector<DiagArg> &args) {
  DTILE_CHECK(diagInfo(id).severity == Severity::Note, "only a note can follow a message");
  if (index_ != kDropped)
    engine_.all_[index_].notes.push_back({range, fillHoles(diagInfo(id).text, args)});
  return *this;
}

DiagBuilder Diagnostics::add(SourceRange range, diag::Id id, const std::vector<DiagArg> &args) {
  Severity severity = diagInfo(id).severity;
  DTILE_CHECK(severity != Severity::Note, "a note needs a message to follow");
  if (severity == Severity::Warning && warningsAsErrors_)
    severity = Severity::Error;
  if (severity == Severity::Error) {
    ++errors_;
    if (errorLimit_ != 0 && errors_ > errorLimit_)
      return {*this, kDropped};
  }
  if (severity == Severity::Warning)
    ++warnings_;
  all_.push_back({id, severity, range, fillHoles(diagInfo(id).text, args), {}, {}});
  return {*this, all_.size() - 1};
}

void Diagnostics::append(const Diagnostics &other) {
  for (const Diagnostic &d : other.all_) {
    const bool isWarning = d.severity == Severity::Warning;
    const Severity severity = isWarning && warningsAsErrors_ ? Severity::Error : d.severity;
    if (severity == Severity::Warning)
      ++warnings_;
    if (severity == Severity::Error && ++errors_ > errorLimit_ && errorLimit_ != 0)
      continue;
    all_.push_back(d);
    all_.back().severity = severity;
  }
}

void Diagnostics::removeIf(llvm::function_ref<bool(const Diagnostic &)> isOut) {
  std::erase_if(all_, [&](const Diagnostic &one) {
    const bool goes = isOut(one);
    errors_ -= goes && one.severity == Severity::Error;
    warnings_ -= goes && one.severity == Severity::Warning;
    return goes;
  });
}

void Diagnostics::sortAndUnique() {
  std::vector<size_t> order(all_.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(all_[a].range.begin, a) < std::pair(all_[b].range.begin, b);
  });
  // Repeats need not be neighbours: two messages at one place may alternate.
  std::vector<Diagnostic> kept;
  size_t placeBegin = 0;
  for (size_t index : order) {
    Diagnostic &next = all_[index];
    if (!kept.empty() && kept.back().range.begin != next.range.begin)
      placeBegin = kept.size();
    auto isRepeat = [&](const Diagnostic &old) {
      return old.id == next.id && old.range == next.range && old.message == next.message;
    };
    if (std::none_of(kept.begin() + placeBegin, kept.end(), isRepeat))
      kept.push_back(std::move(next));
    else if (next.severity == Severity::Error)
      --errors_;
    else if (next.severity == Severity::Warning)
      --warnings_;
  }
  all_ = std::move(kept);
}

void Diagnostics::clear() {
  all_.clear();
  errors_ = 0;
  warnings_ = 0;
}

} // namespace dtile
