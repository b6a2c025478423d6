// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/clauses.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::ir {

namespace {

/// Before the condition of an `assume` in its message.
constexpr llvm::StringLiteral kAssumed = "what is assumed does not hold: ";

void addOnce(std::vector<std::string> &texts, std::string text) {
  if (!llvm::is_contained(texts, text))
    texts.push_back(std::move(text));
}

} // namespace

std::string refusalOf(const Op &require) {
  std::string text = "`" + require.get(attr::text).str() + "` is " +
                     (isAssumption(require) ? "assumed" : "required");
  if (!require.has(attr::names))
    return text + ", and false";
  unsigned hole = 0;
  for (const std::string &name : require.get(attr::names))
    text += (hole == 0 ? ", and " : ", ") + name + " = {" + std::to_string(hole) + "}", ++hole;
  return text;
}

bool decode(const Op &elements, ElementClause &clause) {
  if (!clauses::parseKind(elements.get(attr::kind).str().c_str(), clause.kind))
    return false;
  if (elements.has(attr::pred))
    clauses::parsePredicate(elements.get(attr::pred).str().c_str(), clause.predicate);
  return true;
}

std::vector<Op *> clausesOf(Op &kernel) {
  std::vector<Op *> found;
  for (Op &op : kernel.body().ops())
    if (isClause(op))
      found.push_back(&op);
  return found;
}

std::vector<std::string> requirementsOf(const Op &kernel) {
  std::vector<std::string> texts;
  for (const Op &op : kernel.body().ops())
    if (isClause(op) && !isAssumption(op))
      addOnce(texts, "`" + op.get(attr::text).str() + "`");
  return texts;
}

std::vector<std::string> assumptionsOf(const Op &kernel) {
  std::vector<std::string> texts;
  walk(const_cast<Op &>(kernel), [&](const Op &op) {
    if (!isAssumption(op))
      return;
    llvm::StringRef what = op.is(OpKind::Assert) ? op.get(attr::message) : op.get(attr::text);
    what.consume_front(kAssumed);
    addOnce(texts, ("`" + what + "`, because " + op.get(attr::because)).str());
  });
  return texts;
}

} // namespace dtile::ir
