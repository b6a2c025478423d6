// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What to write in place of a region that is no tile, because a length of it is not known.
#include "sema/checker.h"

namespace dtile::sema {

namespace {

// `x[p + 0..B]` is `x[(p + 0)..B]`, and meant as B elements from p on.
bool noteShiftedRange(DiagBuilder &message, SourceRange region, llvm::StringRef text) {
  constexpr llvm::StringLiteral kShift = " + 0..";
  const size_t at = text.find(kShift);
  if (at == llvm::StringRef::npos)
    return false;
  const size_t begin = text.find_last_of("[,", at);
  const llvm::StringRef behind = text.substr(at + kShift.size());
  const llvm::StringRef length = behind.take_until([](char c) { return c == ',' || c == ']'; });
  if (begin == llvm::StringRef::npos || length.empty() || length.size() == behind.size())
    return false;
  const llvm::StringRef from = text.slice(begin + 1, at).trim();
  const std::string meant = (from + ".." + from + " + " + length).str();
  const auto place = [&](size_t offset) {
    return SourceLoc{region.begin.offset + uint32_t(offset)};
  };
  const SourceRange written{place(from.data() - text.data()),
                            place(at + kShift.size() + length.size())};
  message
      .note(written, diag::note_dtile_form,
            "`..` takes all of `" + from.str() + " + 0` as its begin; " + length.str() +
                " elements from there are `" + meant + "`")
      .fix(written, meant);
  return true;
}

/// `s[m, n.blocks(S)]`: the length of `n` is known, and so is how many blocks of S it has, if it
/// begins with one.
bool noteBlocks(DiagBuilder &message, SourceRange region, llvm::StringRef text) {
  constexpr llvm::StringLiteral kBlocks = ".blocks(";
  const size_t at = text.find(kBlocks);
  if (at == llvm::StringRef::npos)
    return false;
  const size_t begin = text.take_front(at).find_last_not_of(
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  const llvm::StringRef range = text.slice(begin == llvm::StringRef::npos ? 0 : begin + 1, at);
  const llvm::StringRef size =
      text.substr(at + kBlocks.size()).take_until([](char c) { return c == ')'; });
  message.note(region, diag::note_dtile_form,
               ("`" + range + kBlocks + size + ")` may have one block more where `" + range +
                "` begins within one; where it does not, `let g = " + range + ".lo / " + size +
                ";` and `g..g + " + range + ".len / " + size + "` are as many as are known")
                   .str());
  return true;
}

} // namespace

void Checker::noteHowToCut(DiagBuilder &message, SourceRange region) {
  const llvm::StringRef text = ctx.sources.text(region);
  // `x.T[m, n]`
  const SourceRange behind{region.end, {region.end.offset + 3}};
  if (ctx.sources.text(behind) == ".T[") {
    message.note(
        region, diag::note_dtile_form,
        ("what is held is transposed: `" + text + "[n, m].T` for `" + text + ".T[m, n]`").str());
    return;
  }
  if (noteShiftedRange(message, region, text) || noteBlocks(message, region, text))
    return;
  if (text.contains("[:") || text.contains(", :"))
    message.note(region, diag::note_dtile_form,
                 "`:` takes all of a dimension, of any length; a loop takes it in blocks: "
                 "`for k in K by 128 { … }` with `k` in the place of `:`, and what the blocks give "
                 "is put together in a `var`; whole tensors are copied by `put` and `get`");
}

} // namespace dtile::sema
