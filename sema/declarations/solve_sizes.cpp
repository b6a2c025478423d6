// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Solves the size names of a kernel from the sizes of its arguments. Each declared size is an
// equation: the argument's size in that dimension equals it. One with a single unknown name is
// undone operator by operator; what it gives may make others solvable. Launches compare all
// declared sizes with the passed ones, so one equation a name is enough.
#include "sema/checker.h"

namespace dtile::sema {

namespace {

class SizeSolver {
public:
  explicit SizeSolver(Checker &checker)
      : checker_(checker), kernel_(*checker.kernel), solutions_(kernel_.symbols.size()) {}

  void solve() {
    // What the caller passes in comes first: a test makes outputs from the sizes.
    for (bool outputs : {false, true}) {
      bool progress = true;
      while (progress && order_.size() < solutions_.size()) {
        progress = false;
        // Plain names first: they hold even when a division elsewhere rounds.
        for (bool plainOnly : {true, false})
          for (unsigned p = 0; p < kernel_.params.size() && !(progress && !plainOnly); ++p)
            progress |= solveFrom(p, outputs, plainOnly);
      }
    }
    for (auto [i, symbol] : llvm::enumerate(kernel_.symbols))
      if (!solutions_[i])
        reportUnsolved(symbol);
    renumber();
  }

private:
  bool isPassed(const KernelParam &param, bool outputs) const {
    if (param.type->kind != TypeKind::Region)
      return false;
    switch (param.mode) {
    case ast::ParamMode::In:
    case ast::ParamMode::InOut:
    case ast::ParamMode::Symm:
      return !outputs;
    case ast::ParamMode::Out:
      return outputs;
    case ast::ParamMode::Value:
    case ast::ParamMode::ScratchSymm:
      return false;
    }
    return false;
  }

  bool solveFrom(unsigned p, bool outputs, bool plainOnly) {
    const KernelParam &param = kernel_.params[p];
    if (!isPassed(param, outputs))
      return false;
    bool progress = false;
    for (auto [d, size] : llvm::enumerate(param.sizes)) {
      if (size->type->kind == TypeKind::Error)
        continue;
      if (plainOnly ? size->kind != TExprKind::SymbolRef : false)
        continue;
      if (unknowns(size) != 1)
        continue;
      TExpr *passed = checker_.ctx.makeExpr(TExprKind::LaunchDim, checker_.types.scalar(DType::I64),
                                            size->range);
      passed->param = p;
      passed->dim = d;
      progress |= invert(size, passed);
    }
    return progress;
  }

  // Unsolved names in a size, each time they stand in it.
  unsigned unknowns(const TExpr *e) const {
    if (e->kind == TExprKind::SymbolRef)
      return solutions_[e->symbol] ? 0 : 1;
    unsigned count = 0;
    for (const TExpr *operand : e->operands)
      count += unknowns(operand);
    return count;
  }

  TExpr *make(ElementwiseOp op, TExpr *a, TExpr *b) {
    return checker_.elementwise(op, {a, b}, a->range);
  }

  // Solves `size` = `value` for the one unknown.
  bool invert(const TExpr *size, TExpr *value) {
    while (size->kind == TExprKind::Elementwise) {
      const bool isLeft = unknowns(size->operands[0]) == 1;
      TExpr *other = size->operands.size() == 2 ? size->operands[isLeft ? 1 : 0] : nullptr;
      switch (size->op) {
      case ElementwiseOp::Add:
        value = make(ElementwiseOp::Sub, value, other);
        break;
      case ElementwiseOp::Sub:
        value = isLeft ? make(ElementwiseOp::Add, value, other)
                       : make(ElementwiseOp::Sub, other, value);
        break;
      case ElementwiseOp::Mul:
        value = make(ElementwiseOp::Div, value, other);
        break;
      case ElementwiseOp::Div:
        if (!isLeft)
          return false;
        value = make(ElementwiseOp::Mul, value, other);
        break;
      default:
        return false;
      }
      size = size->operands[isLeft ? 0 : 1];
    }
    if (size->kind != TExprKind::SymbolRef || value->type->kind == TypeKind::Error)
      return false;
    solutions_[size->symbol] = value;
    order_.push_back(size->symbol);
    return true;
  }

  void reportUnsolved(const SizeSymbol &symbol) {
    // A tensor whose type is unknown was reported, and may be what gives the size.
    if (llvm::any_of(checker_.kernel->params, [](const KernelParam &param) {
          return param.type->kind == TypeKind::Error && !param.sizes.empty();
        }))
      return;
    SpellingSuggestion suggestion(symbol.name);
    checker_.scope.forEachName([&](llvm::StringRef name) {
      if (checker_.scope.lookup(name)->kind != Symbol::Kind::Param)
        suggestion.consider(name);
    });
    for (const auto &entry : checker_.module.names)
      if (entry.second.kind == Symbol::Kind::Const)
        suggestion.consider(entry.first());
    auto message = checker_.report(symbol.range, diag::size_not_determined, symbol.name);
    if (suggestion.best().empty())
      message.note(symbol.range, diag::note_make_it_generic, symbol.name);
    else
      message.note(symbol.range, diag::note_did_you_mean, suggestion.best())
          .fix(symbol.range, suggestion.best());
  }

  // Puts the symbols in the order in which they were solved, so that each refers to earlier ones
  // only.
  void renumber() {
    std::vector<unsigned> newNumber(solutions_.size(), ~0u);
    for (unsigned i = 0; i < solutions_.size(); ++i)
      if (!solutions_[i])
        order_.push_back(i);
    std::vector<SizeSymbol> sorted;
    for (unsigned old : order_) {
      newNumber[old] = sorted.size();
      sorted.push_back(kernel_.symbols[old]);
      sorted.back().solution = solutions_[old];
    }
    kernel_.symbols = std::move(sorted);
    for (TExpr *use : checker_.symbolRefs)
      use->symbol = newNumber[use->symbol];
    checker_.symbolRefs.clear();
    for (const SizeSymbol &symbol : kernel_.symbols)
      if (Symbol *named = checker_.scope.lookup(symbol.name))
        if (named->kind == Symbol::Kind::Size)
          named->index = newNumber[named->index];
  }

  Checker &checker_;
  KernelInstance &kernel_;
  std::vector<TExpr *> solutions_;
  std::vector<unsigned> order_;
};

} // namespace

void Checker::solveSizes() { SizeSolver(*this).solve(); }

} // namespace dtile::sema
