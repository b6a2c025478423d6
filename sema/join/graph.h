// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The steps of an overlap that has a body, and the tensors between them. Private to sema/join.
#pragma once

#include "sema/join/assembly.h"

namespace dtile::join {

/// A tensor of the overlap's parameters, or one that a step makes and others read.
struct GraphTensor {
  enum class Kind : uint8_t { Input, Output, Symm, Between };
  Kind kind = Kind::Between;
  llvm::StringRef name;
  SourceRange range;
  /// Its element type and shape in the joined kernel: empty until its step is unified.
  llvm::StringRef type;
  llvm::SmallVector<ast::Expr *, 4> shape;
  /// Which dimension is made of parts, where the first one stands for ranks.
  unsigned axis = 0;
  /// The step that makes it, and how many steps read it.
  std::optional<size_t> maker;
  unsigned readers = 0;

  /// An access by a parameter of a step that knows of no parts.
  struct Plain {
    size_t step;
    llvm::SmallVector<ast::Expr *, 4> shape;
    bool isMaker;
  };
  llvm::SmallVector<Plain, 2> plain;
};

/// What a step's parameter is: a tensor of the overlap, a value, or the step's own.
struct Binding {
  enum class Kind : uint8_t { Own, Reads, Makes, Value };
  Kind kind = Kind::Own;
  size_t tensor = 0;
  const ast::Expr *value = nullptr;
  SourceRange at;
};

/// A call of a kernel or plan.
struct Step {
  PlanSource source;
  const ast::CallExpr *call = nullptr;
  /// What names of the step begin with where they are taken.
  llvm::StringRef prefix;
  /// One a parameter.
  std::vector<Binding> bindings;
  /// Tensors of the overlap that are made of parts, and that the step takes whole.
  std::vector<PartedTensor> parted;
};

struct Graph {
  std::vector<Step> steps;
  std::vector<GraphTensor> tensors;
  /// Names of steps' sizes and element types, as they are in the joined kernel.
  llvm::StringSet<> sizes;
  llvm::StringSet<> types;
};

/// Finds steps and tensors in the overlap's body; false after reporting.
[[nodiscard]] bool readGraph(const GraphSource &source, Joint &joint, Graph &graph);

/// Solves for sizes and types along all tensors, in the order of steps; false after reporting.
/// `joint.stages` are those of the steps.
[[nodiscard]] bool unifyGraph(Joint &joint, Graph &graph);

} // namespace dtile::join
