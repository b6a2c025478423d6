// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the operand, result and attribute columns of the tables.
#include "ir/core/op_rows.h"

#include "frontend/base/check.h"

#include <array>

namespace dtile::ir {

namespace {

/// The kinds of keys, so that rows of ops find theirs by name.
struct KeyKinds {
#define KEY(NAME, TYPE) static constexpr AttrKind NAME = AttrKind::TYPE;
#include "ir/core/attributes.def"
};

constexpr AttrRow kAttrs[] = {
#define ATTR(OP, NAME, PRESENCE, WRITER, DOC)                                                      \
  {OpKind::OP, #NAME, KeyKinds::NAME, AttrPresence::PRESENCE},
#include "ir/core/attributes.def"
};

/// The operand column, taken apart.
struct OperandSpec {
  llvm::SmallVector<llvm::StringRef, 4> classes;
  bool repeatsLast = false;
  bool lastIsOptional = false;
};

std::vector<OperandSpec> readOperandSpecs() {
  std::vector<OperandSpec> specs;
  for (const OpInfo &info : allOps()) {
    OperandSpec &spec = specs.emplace_back();
    llvm::StringRef(info.operands).split(spec.classes, ',', -1, false);
    if (spec.classes.empty())
      continue;
    spec.repeatsLast = spec.classes.back().consume_back("*");
    spec.lastIsOptional = spec.classes.back().consume_back("?");
  }
  return specs;
}

const OperandSpec &operandSpec(OpKind kind) {
  static const std::vector<OperandSpec> specs = readOperandSpecs();
  return specs[size_t(kind)];
}

bool isInClass(Type type, llvm::StringRef name) {
  if (!type)
    return false;
  if (name == "ev")
    return true;
  if (name == "idx")
    return type.isIndex();
  if (name == "int")
    return type.isIntLike();
  if (name == "val")
    return type.isIndex() || type.isScalar() || type.isTile();
  if (name == "tile")
    return type.isTile();
  if (name == "view")
    return type.isView();
  if (name == "sig")
    return type.isSignal();
  if (name == "tok")
    return type.isToken();
  if (name == "acq")
    return type.isAcquire();
  if (name == "any")
    return type.isToken() || type.isAcquire();
  DTILE_UNREACHABLE("ops.def names an unknown class");
}

llvm::StringRef classText(llvm::StringRef name) {
  if (name == "idx")
    return "an index";
  if (name == "int")
    return "an index or integer";
  if (name == "val")
    return "an index, scalar or tile";
  if (name == "tile")
    return "a tile";
  if (name == "view")
    return "a view";
  if (name == "sig")
    return "a signal";
  if (name == "tok")
    return "a token";
  if (name == "acq")
    return "an acquire";
  if (name == "any")
    return "a token or acquire";
  return "a value";
}

} // namespace

llvm::ArrayRef<AttrRow> attrRows(OpKind kind) {
  // The table is sorted by op, as ops.def is; the ends of each op's rows are found once.
  static const auto ranges = [] {
    std::vector<std::pair<unsigned, unsigned>> found(allOps().size());
    for (unsigned i = 0; i < std::size(kAttrs); ++i) {
      auto &[first, end] = found[size_t(kAttrs[i].op)];
      if (end == 0)
        first = i;
      DTILE_CHECK(end == 0 || end == i, "rows of one op must stand together in attributes.def");
      end = i + 1;
    }
    return found;
  }();
  const auto [first, end] = ranges[size_t(kind)];
  return llvm::ArrayRef(kAttrs).slice(first, end - first);
}

llvm::StringRef attrKindText(AttrKind kind) {
  switch (kind) {
  case AttrKind::Scalar:
    return "a bool, integer or float";
  case AttrKind::Bool:
    return "a bool";
  case AttrKind::Int:
    return "an integer";
  case AttrKind::Str:
    return "a string";
  case AttrKind::Ints:
    return "a list of integers";
  case AttrKind::Strs:
    return "a list of strings";
  case AttrKind::ParamMode:
    return "in, out, inout, symm or scratch";
  case AttrKind::LoadPath:
    return "tma, scalars, rows, threads or epilogue";
  }
  return "";
}

bool hasAttrKind(const Attr &attr, AttrKind kind) {
  const auto *ints = std::get_if<std::vector<int64_t>>(&attr);
  const auto *text = std::get_if<std::string>(&attr);
  switch (kind) {
  case AttrKind::Scalar:
    return std::holds_alternative<bool>(attr) || std::holds_alternative<int64_t>(attr) ||
           std::holds_alternative<double>(attr);
  case AttrKind::Bool:
    return std::holds_alternative<bool>(attr);
  case AttrKind::Int:
    return std::holds_alternative<int64_t>(attr);
  case AttrKind::Str:
    return std::holds_alternative<std::string>(attr);
  case AttrKind::Ints:
    return ints != nullptr;
  case AttrKind::Strs:
    return std::holds_alternative<std::vector<std::string>>(attr) || (ints && ints->empty());
  case AttrKind::ParamMode:
    return text && enumFromText<ParamMode>(*text);
  case AttrKind::LoadPath:
    return text && enumFromText<LoadPath>(*text);
  }
  return false;
}

std::string checkAttrKinds(const Op &op) {
  for (const AttrRow &row : attrRows(op.kind())) {
    const Attr *attr = op.attr(row.name);
    if (!attr && row.presence == AttrPresence::Required)
      return ("has no attribute `" + row.name + "`").str();
    if (attr && !hasAttrKind(*attr, row.kind))
      return ("attribute `" + row.name + "` is not " + attrKindText(row.kind)).str();
  }
  return "";
}

std::string checkOperandClasses(const Op &op) {
  const OperandSpec &spec = operandSpec(op.kind());
  const size_t most = spec.classes.size();
  const size_t least = most - (spec.repeatsLast || spec.lastIsOptional ? 1 : 0);
  const size_t given = op.numOperands();
  if (given < least || (given > most && !spec.repeatsLast)) {
    std::string wanted = std::to_string(least);
    if (spec.repeatsLast)
      wanted = "at least " + wanted;
    else if (spec.lastIsOptional)
      wanted += " or " + std::to_string(most);
    return "has " + std::to_string(given) + (given == 1 ? " operand" : " operands") + ", not " +
           wanted;
  }
  for (size_t i = 0; i < given; ++i) {
    const llvm::StringRef wanted = spec.classes[std::min(i, most - 1)];
    if (!isInClass(op.operand(i)->type(), wanted))
      return ("operand " + llvm::Twine(i) + " is " + op.operand(i)->type().str() + ", not " +
              classText(wanted))
          .str();
  }
  return "";
}

std::string checkResultClasses(const Op &op) {
  const llvm::StringRef wanted = op.info().results;
  if (wanted == "any*")
    return "";
  const unsigned count = wanted == "none" ? 0 : 1;
  if (op.numResults() != count)
    return ("has " + llvm::Twine(op.numResults()) +
            (op.numResults() == 1 ? " result, not " : " results, not ") + llvm::Twine(count))
        .str();
  if (count == 0 || wanted == "any")
    return "";
  const Type type = op.result()->type();
  if (wanted == "same") {
    if (op.numOperands() == 0 || type == op.operand(0)->type())
      return "";
    return "result is " + type.str() + ", not " + op.operand(0)->type().str() + " like operand 0";
  }
  if (!isInClass(type, wanted))
    return "result is " + type.str() + ", not " + classText(wanted).str();
  return "";
}

} // namespace dtile::ir
