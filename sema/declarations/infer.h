// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of compile-time parameters from the types and sizes of arguments.
#pragma once

#include "sema/context.h"

namespace dtile::sema {

class Checker;

/// Collects what is known about the generics of a declaration.
class GenericInference {
public:
  GenericInference(Context &context, ModuleInfo &home, llvm::ArrayRef<ast::GenericParam> generics)
      : context_(context), home_(home), generics_(generics), values_(generics.size()) {}

  /// Values written at the call (`f<f32, N = 4>`), evaluated by the caller's checker; false after
  /// reporting.
  bool takeGiven(Checker &caller, llvm::ArrayRef<ast::Arg> given, llvm::StringRef name,
                 SourceRange nameRange);
  /// Sets a generic by name; false when there is none or the kind differs.
  bool set(llvm::StringRef name, GenericValue value);
  /// What a generic of that name is, if there is one.
  [[nodiscard]] std::optional<GenericValue::Kind> kindOf(llvm::StringRef name) const;
  /// A parameter of element type `name` got an argument of `dtype`.
  void unifyDType(llvm::StringRef name, DType dtype);
  /// A parameter's size got a value: solves for a generic that stands in it alone. `numRanks` is W,
  /// 0 where that is not known.
  void unifySize(const ast::Expr *size, int64_t known, int64_t numRanks = 0);

  /// A parameter of shape `sizes` got an argument of shape `known`, both in order: the sizes before
  /// and after a `shape` stand for themselves, and that for the rest. False where they do not fit.
  bool unifyShape(llvm::ArrayRef<ast::Expr *> sizes, llvm::ArrayRef<int64_t> known);

  /// Whether some generic of these sizes has no value yet.
  [[nodiscard]] bool isOpen(llvm::ArrayRef<ast::Expr *> sizes) {
    return llvm::any_of(sizes, [&](const ast::Expr *size) { return countUnknown(size, 0) == 1; });
  }

  [[nodiscard]] const std::vector<std::optional<GenericValue>> &values() const { return values_; }
  /// Fills in defaults; false after reporting what is missing at `place`.
  bool finish(llvm::StringRef name, const ast::Ident &declared, SourceRange place,
              std::vector<GenericValue> &result);

private:
  [[nodiscard]] std::optional<size_t> indexOf(llvm::StringRef name) const;
  std::optional<int64_t> evaluate(const ast::Expr *e, int64_t numRanks);
  unsigned countUnknown(const ast::Expr *e, int64_t numRanks);

  Context &context_;
  ModuleInfo &home_;
  llvm::ArrayRef<ast::GenericParam> generics_;
  std::vector<std::optional<GenericValue>> values_;
};

} // namespace dtile::sema
