// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Linear forms of index expressions.
#include "sema/tree/shapes.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::sema {

namespace {

// Above this many terms nobody means a constant difference.
constexpr size_t kMaxTerms = 16;

// constant + sum of factor * term
struct LinearForm {
  int64_t constant = 0;
  llvm::SmallVector<std::pair<const TExpr *, int64_t>, 8> terms;
  bool valid = true;

  void addTerm(const TExpr *term, int64_t factor) {
    for (auto &[known, sum] : terms)
      if (sameIndex(known, term)) {
        valid &= !__builtin_add_overflow(sum, factor, &sum);
        return;
      }
    if (terms.size() >= kMaxTerms)
      valid = false;
    else
      terms.push_back({term, factor});
  }

  void add(const TExpr *e, int64_t factor, unsigned depth = 0) {
    constexpr unsigned kMaxDepth = 64;
    if (!valid || depth > kMaxDepth) {
      valid = false;
      return;
    }
    if (e->kind == TExprKind::Const) {
      int64_t product = 0;
      valid &= !__builtin_mul_overflow(int64_t(e->bits), factor, &product) &&
               !__builtin_add_overflow(constant, product, &constant);
      return;
    }
    if (e->kind != TExprKind::Elementwise)
      return addTerm(e, factor);
    switch (e->op) {
    case ElementwiseOp::Add:
      add(e->operands[0], factor, depth + 1);
      add(e->operands[1], factor, depth + 1);
      return;
    case ElementwiseOp::Sub:
      add(e->operands[0], factor, depth + 1);
      add(e->operands[1], -factor, depth + 1);
      return;
    case ElementwiseOp::Neg:
      add(e->operands[0], -factor, depth + 1);
      return;
    case ElementwiseOp::Mul:
      for (unsigned i : {0u, 1u}) {
        const TExpr *scale = e->operands[i];
        int64_t product = 0;
        if (scale->kind == TExprKind::Const &&
            !__builtin_mul_overflow(int64_t(scale->bits), factor, &product))
          return add(e->operands[1 - i], product, depth + 1);
      }
      return addTerm(e, factor);
    default:
      return addTerm(e, factor);
    }
  }
};

} // namespace

bool sameIndex(const TExpr *a, const TExpr *b) {
  if (a == b)
    return true;
  if (a->kind != b->kind || a->type != b->type || a->operands.size() != b->operands.size())
    return false;
  switch (a->kind) {
  case TExprKind::Const:
    return a->bits == b->bits;
  case TExprKind::VarRef:
    return a->var == b->var && !a->var->isMutable;
  case TExprKind::ParamRef:
    return a->param == b->param;
  case TExprKind::SymbolRef:
    return a->symbol == b->symbol;
  case TExprKind::Elementwise:
    if (a->op != b->op)
      return false;
    break;
  case TExprKind::Builtin:
    if (a->builtin != b->builtin || a->ints != b->ints)
      return false;
    break;
  case TExprKind::RangeMember:
    if (a->member != b->member)
      return false;
    break;
  case TExprKind::Cast:
    break;
  default:
    // Loads and the like may differ from one evaluation to the next.
    return false;
  }
  return llvm::all_of(llvm::zip(a->operands, b->operands),
                      [](auto pair) { return sameIndex(std::get<0>(pair), std::get<1>(pair)); });
}

std::optional<int64_t> constantDifference(const TExpr *a, const TExpr *b) {
  LinearForm form;
  form.add(a, 1);
  form.add(b, -1);
  if (!form.valid || llvm::any_of(form.terms, [](const auto &t) { return t.second != 0; }))
    return std::nullopt;
  return form.constant;
}

} // namespace dtile::sema
