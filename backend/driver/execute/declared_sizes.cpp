// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates the declared sizes of a kernel's parameters, and compares them with what was passed.
#include "backend/driver/execute/declared_sizes.h"

#include "frontend/base/check.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace dtile::driver {

namespace {

// The IR's meaning: quotients floor, anything by 0 is 0.
int64_t floorDiv(int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  if (b == -1)
    return int64_t(-uint64_t(a));
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a % b < 0) != (b < 0));
}

/// Numbers as sema leaves them: constants, symbols, W and integer arithmetic.
class Numbers {
public:
  explicit Numbers(int64_t numRanks) : numRanks_(numRanks) {}
  virtual ~Numbers() = default;
  std::optional<int64_t> evaluate(const sema::TExpr &e);

protected:
  /// Symbols and what arguments say.
  virtual std::optional<int64_t> ofArguments(const sema::TExpr &e) = 0;

private:
  std::optional<int64_t> builtin(const sema::TExpr &e);
  std::optional<int64_t> elementwise(const sema::TExpr &e);
  int64_t numRanks_;
};

class SizeSolver : Numbers {
public:
  SizeSolver(const sema::KernelInstance &kernel, llvm::ArrayRef<std::optional<Sizes>> passed,
             llvm::ArrayRef<std::optional<int64_t>> scalars, int64_t numRanks)
      : Numbers(numRanks), kernel_(kernel), passed_(passed), scalars_(scalars),
        symbols_(kernel.symbols.size()) {}

  llvm::Expected<SolvedSizes> run() {
    for (size_t p = 0; p < kernel_.params.size(); ++p)
      if (llvm::Error error = checkRank(p))
        return error;
    std::vector<Sizes> sizes(kernel_.params.size());
    for (size_t p = 0; p < kernel_.params.size(); ++p)
      for (size_t d = 0; d < kernel_.params[p].sizes.size(); ++d) {
        const auto size = evaluate(*kernel_.params[p].sizes[d]);
        // Sizes of outputs that only their own argument could tell.
        if (!size && isLaunchArgument(kernel_.params[p]))
          return llvm::createStringError(
              "the size of dimension " + std::to_string(d) + " of `" + kernel_.params[p].name +
              "` does not follow from the arguments; add an input that has "
              "this size");
        if (llvm::Error error = checkSize(p, d, size.value_or(0)))
          return error;
        sizes[p].push_back(size.value_or(0));
      }
    for (unsigned i = 0; i < symbols_.size(); ++i)
      (void)symbol(i);
    return SolvedSizes{std::move(sizes), std::move(symbols_)};
  }

private:
  llvm::Error checkRank(size_t p) {
    const sema::KernelParam &param = kernel_.params[p];
    if (!passed_[p] || passed_[p]->size() == param.sizes.size())
      return llvm::Error::success();
    return llvm::createStringError("`" + param.name + "` of `" + kernel_.decl->name.name.str() +
                                   "` has " + std::to_string(param.sizes.size()) +
                                   " dimensions, and an array of sizes " + sizesText(*passed_[p]) +
                                   " was passed");
  }

  llvm::Error checkSize(size_t p, size_t d, int64_t size) {
    const sema::KernelParam &param = kernel_.params[p];
    if (size < 0 && isLaunchArgument(param))
      return llvm::createStringError("dimension " + std::to_string(d) + " of `" + param.name +
                                     "` has the negative size " + std::to_string(size));
    if (!passed_[p] || (*passed_[p])[d] == size)
      return llvm::Error::success();
    return llvm::createStringError("dimension " + std::to_string(d) + " of `" + param.name +
                                   "` of `" + kernel_.decl->name.name.str() + "` is " +
                                   std::to_string(size) + ", and an array of sizes " +
                                   sizesText(*passed_[p]) + " was passed");
  }

  std::optional<int64_t> symbol(unsigned index) {
    if (!symbols_[index]) {
      if (!kernel_.symbols[index].solution)
        return std::nullopt;
      symbols_[index] = evaluate(*kernel_.symbols[index].solution);
    }
    return symbols_[index];
  }

  std::optional<int64_t> ofArguments(const sema::TExpr &e) override {
    if (e.kind == sema::TExprKind::SymbolRef)
      return symbol(e.symbol);
    if (e.kind == sema::TExprKind::LaunchDim && passed_[e.param])
      return (*passed_[e.param])[e.dim];
    if (e.kind == sema::TExprKind::ParamRef && e.param < scalars_.size())
      return scalars_[e.param];
    return std::nullopt;
  }

  const sema::KernelInstance &kernel_;
  llvm::ArrayRef<std::optional<Sizes>> passed_;
  llvm::ArrayRef<std::optional<int64_t>> scalars_;
  std::vector<std::optional<int64_t>> symbols_;
};

std::optional<int64_t> Numbers::evaluate(const sema::TExpr &e) {
  switch (e.kind) {
  case sema::TExprKind::Const:
    return int64_t(e.bits);
  case sema::TExprKind::Cast:
    return evaluate(*e.operands[0]);
  case sema::TExprKind::Builtin:
    return builtin(e);
  case sema::TExprKind::Elementwise:
    return elementwise(e);
  default:
    return ofArguments(e);
  }
}

std::optional<int64_t> Numbers::builtin(const sema::TExpr &e) {
  if (e.builtin == sema::BuiltinId::NumRanks)
    return numRanks_;
  if (e.builtin != sema::BuiltinId::Blocks)
    return std::nullopt;
  const auto size = evaluate(*e.operands[0]);
  const auto block = evaluate(*e.operands[1]);
  if (!size || !block)
    return std::nullopt;
  return -floorDiv(-*size, *block);
}

std::optional<int64_t> Numbers::elementwise(const sema::TExpr &e) {
  llvm::SmallVector<int64_t, 3> v;
  for (const sema::TExpr *operand : e.operands) {
    const auto value = evaluate(*operand);
    if (!value)
      return std::nullopt;
    v.push_back(*value);
  }
  using Op = sema::ElementwiseOp;
  switch (e.op) {
  case Op::Add:
    return int64_t(uint64_t(v[0]) + uint64_t(v[1]));
  case Op::Sub:
    return int64_t(uint64_t(v[0]) - uint64_t(v[1]));
  case Op::Mul:
    return int64_t(uint64_t(v[0]) * uint64_t(v[1]));
  case Op::Div:
    return floorDiv(v[0], v[1]);
  case Op::Rem:
    return int64_t(uint64_t(v[0]) - uint64_t(floorDiv(v[0], v[1])) * uint64_t(v[1]));
  case Op::Min:
    return std::min(v[0], v[1]);
  case Op::Max:
    return std::max(v[0], v[1]);
  case Op::Neg:
    return int64_t(-uint64_t(v[0]));
  case Op::Eq:
    return v[0] == v[1];
  case Op::Ne:
    return v[0] != v[1];
  case Op::Lt:
    return v[0] < v[1];
  case Op::Le:
    return v[0] <= v[1];
  case Op::Gt:
    return v[0] > v[1];
  case Op::Ge:
    return v[0] >= v[1];
  case Op::Select:
    return v[0] ? v[1] : v[2];
  default:
    return std::nullopt;
  }
}

/// What is solved already, and scalars.
class LaunchNumbers : public Numbers {
public:
  LaunchNumbers(const SolvedSizes &sizes, llvm::ArrayRef<std::optional<int64_t>> scalars,
                int64_t numRanks)
      : Numbers(numRanks), sizes_(sizes), scalars_(scalars) {}

private:
  std::optional<int64_t> ofArguments(const sema::TExpr &e) override {
    if (e.kind == sema::TExprKind::SymbolRef)
      return sizes_.symbols[e.symbol];
    return e.kind == sema::TExprKind::ParamRef ? scalars_[e.param] : std::nullopt;
  }

  const SolvedSizes &sizes_;
  llvm::ArrayRef<std::optional<int64_t>> scalars_;
};

} // namespace

std::optional<int64_t> launchNumber(const sema::TExpr &e, const SolvedSizes &sizes,
                                    llvm::ArrayRef<std::optional<int64_t>> scalars,
                                    int64_t numRanks) {
  return LaunchNumbers(sizes, scalars, numRanks).evaluate(e);
}

std::string sizesText(llvm::ArrayRef<int64_t> sizes) {
  return "[" +
         llvm::join(llvm::map_range(sizes, [](int64_t n) { return std::to_string(n); }), ", ") +
         "]";
}

llvm::Expected<SolvedSizes> solveSizes(const sema::KernelInstance &kernel,
                                       llvm::ArrayRef<std::optional<Sizes>> passed,
                                       llvm::ArrayRef<std::optional<int64_t>> scalars,
                                       int64_t numRanks) {
  DTILE_CHECK(passed.size() == kernel.params.size(), "one entry a parameter");
  return SizeSolver(kernel, passed, scalars, numRanks).run();
}

bool isLaunchArgument(const sema::KernelParam &param) {
  return param.mode != ast::ParamMode::ScratchSymm && param.type->kind != sema::TypeKind::Signal;
}

bool isInput(const sema::KernelParam &param) {
  return isLaunchArgument(param) && param.mode != ast::ParamMode::Out;
}

bool isWritten(const sema::KernelParam &param) {
  if (!isLaunchArgument(param))
    return false;
  switch (param.mode) {
  case ast::ParamMode::Value:
  case ast::ParamMode::In:
  case ast::ParamMode::ScratchSymm:
    return false;
  case ast::ParamMode::Out:
  case ast::ParamMode::InOut:
  case ast::ParamMode::Symm:
    return true;
  }
  return false;
}

} // namespace dtile::driver
