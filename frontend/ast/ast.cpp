// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of the node kinds, and the bounds on node sizes.
#include "frontend/ast/ast.h"

#include "frontend/base/check.h"

namespace dtile::ast {

llvm::StringRef nodeKindName(NodeKind kind) {
  switch (kind) {
#define DECL(NAME)                                                                                 \
  case NodeKind::NAME:                                                                             \
    return #NAME;
#define STMT(NAME) DECL(NAME)
#define EXPR(NAME) DECL(NAME)
#include "frontend/ast/ast_nodes.def"
  }
  DTILE_UNREACHABLE("not a node kind");
}

llvm::StringRef spelling(UnaryOp op) {
  switch (op) {
  case UnaryOp::Neg:
    return "-";
  case UnaryOp::Not:
    return "!";
  case UnaryOp::BitNot:
    return "~";
  }
  DTILE_UNREACHABLE("not a unary operator");
}

llvm::StringRef spelling(BinaryOp op) {
  switch (op) {
  case BinaryOp::Approx:
    return "~=";
  case BinaryOp::LogOr:
    return "||";
  case BinaryOp::LogAnd:
    return "&&";
  case BinaryOp::Eq:
    return "==";
  case BinaryOp::Ne:
    return "!=";
  case BinaryOp::Lt:
    return "<";
  case BinaryOp::Le:
    return "<=";
  case BinaryOp::Gt:
    return ">";
  case BinaryOp::Ge:
    return ">=";
  case BinaryOp::BitOr:
    return "|";
  case BinaryOp::BitXor:
    return "^";
  case BinaryOp::BitAnd:
    return "&";
  case BinaryOp::Shl:
    return "<<";
  case BinaryOp::Shr:
    return ">>";
  case BinaryOp::Add:
    return "+";
  case BinaryOp::Sub:
    return "-";
  case BinaryOp::Mul:
    return "*";
  case BinaryOp::Div:
    return "/";
  case BinaryOp::Rem:
    return "%";
  }
  DTILE_UNREACHABLE("not a binary operator");
}

llvm::StringRef spelling(ParamMode mode) {
  switch (mode) {
  case ParamMode::Value:
    return "";
  case ParamMode::In:
    return "in";
  case ParamMode::Out:
    return "out";
  case ParamMode::InOut:
    return "inout";
  case ParamMode::Symm:
    return "symm";
  case ParamMode::ScratchSymm:
    return "scratch symm";
  }
  DTILE_UNREACHABLE("not a parameter mode");
}

const CallExpr *RemoteExpr::coordinates() const {
  const auto *call = llvm::dyn_cast<CallExpr>(rank);
  const auto *callee = call ? llvm::dyn_cast<NameExpr>(call->callee) : nullptr;
  const bool isCoordinates =
      callee && callee->name == "rank" && !call->args.empty() &&
      llvm::all_of(call->args, [](const Arg &arg) { return !arg.label.name.empty(); });
  return isCoordinates ? call : nullptr;
}

// Files of a million nodes are common enough to mind their size.
static_assert(sizeof(Node) <= 12);
static_assert(sizeof(NameExpr) <= 32);
static_assert(sizeof(BinaryExpr) <= 40);
static_assert(sizeof(CallExpr) <= 40);

} // namespace dtile::ast
