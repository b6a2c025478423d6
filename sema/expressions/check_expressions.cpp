// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names, literals and operators.
#include "sema/checker.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/base/check.h"

#include <limits>

namespace dtile::sema {

llvm::StringRef operatorText(ast::BinaryOp op) {
  static constexpr llvm::StringLiteral kTexts[] = {
      "~=", "||", "&&", "==", "!=", "<", "<=", ">", ">=", "|",
      "^",  "&",  "<<", ">>", "+",  "-", "*",  "/", "%"};
  return kTexts[size_t(op)];
}

namespace {

ElementwiseOp elementwiseOp(ast::BinaryOp op) {
  switch (op) {
  case ast::BinaryOp::Add:
    return ElementwiseOp::Add;
  case ast::BinaryOp::Sub:
    return ElementwiseOp::Sub;
  case ast::BinaryOp::Mul:
    return ElementwiseOp::Mul;
  case ast::BinaryOp::Div:
    return ElementwiseOp::Div;
  case ast::BinaryOp::Rem:
    return ElementwiseOp::Rem;
  case ast::BinaryOp::LogAnd:
  case ast::BinaryOp::BitAnd:
    return ElementwiseOp::And;
  case ast::BinaryOp::LogOr:
  case ast::BinaryOp::BitOr:
    return ElementwiseOp::Or;
  case ast::BinaryOp::BitXor:
    return ElementwiseOp::Xor;
  case ast::BinaryOp::Shl:
    return ElementwiseOp::Shl;
  case ast::BinaryOp::Shr:
    return ElementwiseOp::Shr;
  case ast::BinaryOp::Eq:
    return ElementwiseOp::Eq;
  case ast::BinaryOp::Ne:
    return ElementwiseOp::Ne;
  case ast::BinaryOp::Lt:
    return ElementwiseOp::Lt;
  case ast::BinaryOp::Le:
    return ElementwiseOp::Le;
  case ast::BinaryOp::Gt:
    return ElementwiseOp::Gt;
  case ast::BinaryOp::Ge:
    return ElementwiseOp::Ge;
  case ast::BinaryOp::Approx:
    break;
  }
  DTILE_UNREACHABLE("`~=` stands in expectations only");
}

// Whether the operator has a meaning for elements of a type.
bool isDefinedFor(ast::BinaryOp op, DType dtype) {
  const bool isBool = dtype == DType::Bool;
  switch (op) {
  case ast::BinaryOp::Add:
  case ast::BinaryOp::Sub:
  case ast::BinaryOp::Mul:
  case ast::BinaryOp::Div:
  case ast::BinaryOp::Rem:
  case ast::BinaryOp::Lt:
  case ast::BinaryOp::Le:
  case ast::BinaryOp::Gt:
  case ast::BinaryOp::Ge:
    return !isBool;
  case ast::BinaryOp::LogAnd:
  case ast::BinaryOp::LogOr:
    return isBool;
  case ast::BinaryOp::BitAnd:
  case ast::BinaryOp::BitOr:
  case ast::BinaryOp::BitXor:
    return isBool || isInteger(dtype);
  case ast::BinaryOp::Shl:
  case ast::BinaryOp::Shr:
    return isInteger(dtype);
  case ast::BinaryOp::Eq:
  case ast::BinaryOp::Ne:
    return true;
  case ast::BinaryOp::Approx:
    return false;
  }
  return false;
}

// Names that mean something everywhere, unless something else is so called.
enum class PredeclaredName : uint8_t { None, Done, World, Infinity, NotANumber };

PredeclaredName predeclaredName(llvm::StringRef name) {
  if (name == "done")
    return PredeclaredName::Done;
  if (name == "W")
    return PredeclaredName::World;
  if (name == "inf")
    return PredeclaredName::Infinity;
  if (name == "nan")
    return PredeclaredName::NotANumber;
  return PredeclaredName::None;
}

} // namespace

bool isNumberName(llvm::StringRef name) {
  const PredeclaredName known = predeclaredName(name);
  return known == PredeclaredName::Infinity || known == PredeclaredName::NotANumber;
}

Symbol *Checker::lookup(llvm::StringRef name) {
  if (Symbol *local = scope.lookup(name)) {
    local->used = true;
    return local;
  }
  auto found = module.names.find(name);
  if (found == module.names.end())
    return nullptr;
  found->second.used = true;
  return &found->second;
}

namespace {

// The first declaration of a name after a place, in the order of the text.
struct DefinitionAfter : ast::Walker<DefinitionAfter> {
  DefinitionAfter(llvm::StringRef name, SourceLoc place) : name(name), place(place) {}

  using Walker::visit;
  bool visit(const ast::LetStmt &s) {
    for (const ast::Ident &ident : s.names)
      take(ident);
    return false;
  }
  bool visit(const ast::VarStmt &s) {
    take(s.name);
    return false;
  }
  void take(const ast::Ident &ident) {
    if (found == nullptr && ident.name == name && ident.range.begin > place)
      found = &ident;
  }

  llvm::StringRef name;
  SourceLoc place;
  const ast::Ident *found = nullptr;
};

} // namespace

SourceRange Checker::laterDefinition(llvm::StringRef name, SourceLoc place) const {
  DefinitionAfter search(name, place);
  if (fn && fn->decl->body)
    search.walk(fn->decl->body);
  if (kernel) {
    search.walk(kernel->decl->prologue);
    for (const ast::Role *role : kernel->decl->roles)
      // Another role's names are no candidates.
      if (role->body && role->body->range.begin <= place && place < role->body->range.end)
        search.walk(role->body);
  }
  return search.found ? search.found->range : SourceRange{};
}

// Says dtile's form of what another language calls so.
bool Checker::noteHabit(DiagBuilder &message, SourceRange range, const habits::Word *word) {
  if (word == nullptr)
    return false;
  message.note(range, diag::note_dtile_form, word->advice);
  if (!word->replacement.empty())
    message.fix(range, word->replacement);
  return true;
}

// The library of `tl.load` and `torch.nn.functional.relu`, or null where dtile has the name.
const ast::NameExpr *Checker::foreignModule(const ast::MemberExpr *e) {
  const ast::Expr *root = e->base;
  while (const auto *inner = llvm::dyn_cast<ast::MemberExpr>(root))
    root = inner->base;
  const auto *library = llvm::dyn_cast<ast::NameExpr>(root);
  const bool isForeign = library && habits::isModule(library->name) && !lookup(library->name);
  return isForeign ? library : nullptr;
}

// Functions of other libraries, which have no prefix here.
bool Checker::reportForeignModule(const ast::MemberExpr *e) {
  const ast::NameExpr *library = foreignModule(e);
  if (library == nullptr)
    return false;
  auto message = report(library->range, diag::unknown_name, library->name);
  const llvm::StringRef function = e->member.name;
  const llvm::StringRef dtype = habits::elementType(function);
  auto declared = module.names.find(function);
  if (noteHabit(message, e->range, habits::findName(function)))
    return true;
  if (isNumberName(function) || callHandler(function) || declared != module.names.end())
    message.note(e->range, diag::note_did_you_mean, function).fix(e->range, function);
  else if (!dtype.empty())
    message.note(e->range, diag::note_did_you_mean, dtype).fix(e->range, dtype);
  return true;
}

// Whether `range` stands in the type of a parameter of the function that is checked.
bool Checker::isInParameters(SourceRange range) const {
  return fn && llvm::any_of(fn->decl->params, [&](const ast::Param &param) {
           return param.type && param.type->range.begin <= range.begin &&
                  range.begin < param.type->range.end;
         });
}

void Checker::reportUnknown(SourceRange range, llvm::StringRef name, llvm::StringRef otherwise) {
  if (ctx.suggestionsLeft == 0) {
    report(range, diag::unknown_name, name);
    return;
  }
  --ctx.suggestionsLeft;
  const SourceRange later = laterDefinition(name, range.begin);
  if (later.isValid()) {
    report(range, diag::used_before_definition, name).note(later, diag::note_declared_here, name);
    return;
  }
  if (isInParameters(range)) {
    auto message = report(range, diag::unknown_name, name);
    message.note(fn->decl->name.range, diag::note_dtile_form,
                 ("sizes of its tiles are compile-time parameters of a function: `fn " +
                  fn->decl->name.name + "<" + name + ">(…)`")
                     .str());
    return;
  }
  SpellingSuggestion suggestion(name);
  scope.forEachName([&](llvm::StringRef n) { suggestion.consider(n); });
  for (const auto &entry : module.names)
    suggestion.consider(entry.first());
  forEachCall([&](llvm::StringRef n) { suggestion.consider(n); });
  auto message = report(range, diag::unknown_name, name);
  if (noteHabit(message, range, habits::findName(name)))
    return;
  if (!suggestion.best().empty())
    message.note(range, diag::note_did_you_mean, suggestion.best()).fix(range, suggestion.best());
  else if (!otherwise.empty())
    message.note(range, diag::note_dtile_form, otherwise);
}

TExpr *Checker::symbolValue(const Symbol &symbol, SourceRange range) {
  switch (symbol.kind) {
  case Symbol::Kind::Local: {
    if (symbol.constant) {
      TExpr *copy = ctx.makeExpr(TExprKind::Const, symbol.constant->type, range);
      copy->bits = symbol.constant->bits;
      copy->adaptable = symbol.constant->adaptable;
      copy->literal = symbol.constant->literal;
      return copy;
    }
    TExpr *e = ctx.makeExpr(TExprKind::VarRef, symbol.var->type, range);
    e->var = symbol.var;
    e->coordinate = symbol.var->coordinate;
    return e;
  }
  case Symbol::Kind::Param: {
    TExpr *e = ctx.makeExpr(TExprKind::ParamRef, kernel->params[symbol.index].type, range);
    e->param = symbol.index;
    return e;
  }
  case Symbol::Kind::Size: {
    TExpr *e = ctx.makeExpr(TExprKind::SymbolRef, types.scalar(DType::I64), range);
    e->symbol = symbol.index;
    symbolRefs.push_back(e);
    return e;
  }
  case Symbol::Kind::Generic:
    switch (symbol.value.kind) {
    case GenericValue::Kind::Int:
      return intConst(symbol.value.intValue, range, DType::I64, /*adaptable=*/true);
    case GenericValue::Kind::Bool:
      return boolConst(symbol.value.intValue != 0, range);
    case GenericValue::Kind::DType:
      report(range, diag::type_is_no_value, symbol.name);
      return error(range);
    case GenericValue::Kind::Shape:
      report(range, diag::name_is_no_value, symbol.name, "shape");
      return error(range);
    }
    break;
  case Symbol::Kind::Const:
    return constValue(symbol, range);
  case Symbol::Kind::Fn:
  case Symbol::Kind::Kernel:
  case Symbol::Kind::Plan:
  case Symbol::Kind::Overlap:
    report(range, diag::name_is_no_value, symbol.name,
           symbol.kind == Symbol::Kind::Fn     ? "function"
           : symbol.kind == Symbol::Kind::Plan ? "plan"
                                               : "kernel")
        .note(symbol.range, diag::note_declared_here, symbol.name);
    return error(range);
  case Symbol::Kind::Module:
    if (symbol.module)
      report(range, diag::name_is_no_value, symbol.name, "module");
    return error(range);
  }
  return error(range);
}

const Symbol *Checker::moduleMember(const ast::MemberExpr *e, bool &failed) {
  if (reportForeignModule(e)) {
    failed = true;
    return nullptr;
  }
  const auto *base = llvm::dyn_cast<ast::NameExpr>(e->base);
  if (!base)
    return nullptr;
  // A local of the same name hides the module.
  const Symbol *symbol = lookup(base->name);
  if (!symbol || symbol->kind != Symbol::Kind::Module)
    return nullptr;
  failed = true;
  // The import was reported.
  if (!symbol->module)
    return nullptr;
  auto found = symbol->module->names.find(e->member.name);
  if (found != symbol->module->names.end() && found->second.kind != Symbol::Kind::Module) {
    failed = false;
    return &found->second;
  }
  SpellingSuggestion suggestion(e->member.name);
  for (const auto &entry : symbol->module->names)
    suggestion.consider(entry.first());
  auto message = report(e->member.range, diag::unknown_module_member, base->name, e->member.name);
  const llvm::StringRef member = e->member.name;
  if (callHandler(member) || isNumberName(member))
    message.note(e->range, diag::note_dtile_form, ("`" + member + "` is built in").str())
        .fix(e->range, member);
  else if (const habits::Word *word = habits::findName(member))
    message.note(e->member.range, diag::note_dtile_form, word->advice);
  else if (!suggestion.best().empty())
    message.note(e->member.range, diag::note_did_you_mean, suggestion.best())
        .fix(e->member.range, suggestion.best());
  return nullptr;
}

TExpr *Checker::expr(const ast::Expr *e) {
  switch (e->kind) {
  case ast::NodeKind::IntLit: {
    const uint64_t literal = llvm::cast<ast::IntLit>(e)->value;
    const bool isLarge = literal > uint64_t(std::numeric_limits<int64_t>::max());
    return intConst(int64_t(literal), e->range, isLarge ? DType::U64 : DType::I64, !isLarge);
  }
  case ast::NodeKind::FloatLit:
    return floatConst(llvm::cast<ast::FloatLit>(e)->value, e->range, DType::F32,
                      /*adaptable=*/true);
  case ast::NodeKind::BoolLit:
    return boolConst(llvm::cast<ast::BoolLit>(e)->value, e->range);
  case ast::NodeKind::StringLit:
    report(e->range, diag::string_is_no_value);
    return error(e->range);
  case ast::NodeKind::NameExpr: {
    const llvm::StringRef name = llvm::cast<ast::NameExpr>(e)->name;
    // What the parser has put in place of a form that it reported.
    if (name.empty())
      return error(e->range);
    if (const Symbol *symbol = lookup(name))
      return symbolValue(*symbol, e->range);
    switch (predeclaredName(name)) {
    case PredeclaredName::Done:
      return ctx.makeExpr(TExprKind::TokenDone, types.token(), e->range);
    case PredeclaredName::World:
      return builtin(BuiltinId::NumRanks, {}, types.scalar(DType::I64), e->range);
    case PredeclaredName::Infinity:
      return floatConst(std::numeric_limits<double>::infinity(), e->range, DType::F32, true);
    case PredeclaredName::NotANumber:
      return floatConst(std::numeric_limits<double>::quiet_NaN(), e->range, DType::F32, true);
    case PredeclaredName::None:
      break;
    }
    if (dtypeFromName(name))
      report(e->range, diag::type_is_no_value, name)
          .note(e->range, diag::note_dtile_form,
                ("a tile of zeros is `zeros<" + name + ">[M, N]`, and a conversion `cast<" + name +
                 ">(x)`")
                    .str());
    else if (callHandler(name))
      reportUncalled(e->range, name);
    else
      reportUnknown(e->range, name);
    return error(e->range);
  }
  case ast::NodeKind::UnaryExpr:
    return unaryExpr(llvm::cast<ast::UnaryExpr>(e));
  case ast::NodeKind::BinaryExpr:
    return binaryExpr(llvm::cast<ast::BinaryExpr>(e));
  case ast::NodeKind::CallExpr:
    return callExpr(e);
  case ast::NodeKind::IndexExpr:
    return indexExpr(llvm::cast<ast::IndexExpr>(e));
  case ast::NodeKind::MemberExpr:
    return memberExpr(llvm::cast<ast::MemberExpr>(e));
  case ast::NodeKind::RemoteExpr:
    return remoteExpr(llvm::cast<ast::RemoteExpr>(e));
  case ast::NodeKind::AfterExpr:
    return afterExpr(llvm::cast<ast::AfterExpr>(e));
  case ast::NodeKind::RangeExpr:
    return rangeExpr(llvm::cast<ast::RangeExpr>(e), nullptr, 0);
  case ast::NodeKind::ConditionalExpr:
    return conditionalExpr(llvm::cast<ast::ConditionalExpr>(e));
  default:
    // ErrorExpr, and compile-time arguments of nothing: the parser said what is wrong.
    return error(e->range);
  }
}

TExpr *Checker::value(const ast::Expr *e) {
  TExpr *checked = toValue(expr(e));
  if (checked->type->isValue() || checked->type->kind == TypeKind::Error)
    return checked;
  report(e->range, diag::type_mismatch, "a value", typeText(checked->type));
  return error(e->range);
}

TExpr *Checker::position(const ast::Expr *e) {
  TExpr *checked = value(e);
  if (checked->type->kind == TypeKind::Error)
    return checked;
  if (checked->type->kind == TypeKind::Scalar && isInteger(checked->type->dtype))
    return checked->type->dtype == DType::I64 ? checked : cast(checked, DType::I64, e->range);
  report(e->range, diag::type_mismatch, "an integer", typeText(checked->type));
  return error(e->range);
}

TExpr *Checker::condition(const ast::Expr *e) {
  TExpr *checked = value(e);
  if (checked->type->kind == TypeKind::Error)
    return checked;
  if (checked->type == types.scalar(DType::Bool))
    return checked;
  reportCondition(e->range, checked->type);
  return error(e->range);
}

void Checker::reportCondition(SourceRange range, Type type) {
  auto message = report(range, diag::condition_not_bool, typeText(type));
  if (type->dtype != DType::Bool)
    message.note(range, diag::note_dtile_form, "a number is compared: `x != 0`");
  else
    message.note(range, diag::note_dtile_form,
                 "a branch is taken or not: `any(c)` and `all(c)` are one `bool`; "
                 "`where(c, a, b)` chooses for each element");
}

// What has no arguments is often written without parentheses.
void Checker::reportUncalled(SourceRange range, llvm::StringRef name) {
  auto message = report(range, diag::name_is_no_value, name, "built-in function");
  constexpr llvm::StringLiteral kWithout[] = {"rank",  "num_ranks", "epoch",
                                              "quiet", "fence",     "barrier"};
  if (llvm::is_contained(kWithout, name))
    message.note(range, diag::note_dtile_form, ("it is called: `" + name + "()`").str())
        .fix({range.end, range.end}, "()");
}

TExpr *Checker::token(const ast::Expr *e) {
  TExpr *checked = expr(e);
  const TypeKind kind = checked->type->kind;
  if (kind == TypeKind::Token || kind == TypeKind::Acquire || kind == TypeKind::Error)
    return checked;
  auto message = report(e->range, diag::not_a_token, typeText(checked->type));
  if (kind == TypeKind::Signal)
    message.fix({e->range.begin, e->range.begin}, "wait(").fix({e->range.end, e->range.end}, ")");
  return error(e->range);
}

TExpr *Checker::unaryExpr(const ast::UnaryExpr *e) {
  TExpr *operand = value(e->operand);
  if (operand->type->kind == TypeKind::Error)
    return error(e->range);
  const DType dtype = operand->type->dtype;
  const auto undefined = [&](llvm::StringRef op) {
    report(e->range, diag::operator_not_defined, op, typeText(operand->type));
    return error(e->range);
  };
  switch (e->op) {
  case ast::UnaryOp::Neg:
    if (dtype == DType::Bool)
      return undefined("-");
    return elementwise(ElementwiseOp::Neg, {operand}, e->range);
  case ast::UnaryOp::Not:
    if (dtype != DType::Bool) {
      report(e->range, diag::operator_not_defined, "!", typeText(operand->type))
          .note(e->range, diag::note_dtile_form, "a number is compared: `x == 0`");
      return error(e->range);
    }
    return elementwise(ElementwiseOp::Not, {operand}, e->range);
  case ast::UnaryOp::BitNot:
    if (!isInteger(dtype))
      return undefined("~");
    return elementwise(ElementwiseOp::Not, {operand}, e->range);
  }
  return error(e->range);
}

TExpr *Checker::binaryExpr(const ast::BinaryExpr *e) {
  // A long sum nests to the left: walk down to its start and build back up, without recursion.
  llvm::SmallVector<const ast::BinaryExpr *, 8> spine;
  const ast::Expr *first = e;
  while (const auto *binary = llvm::dyn_cast<ast::BinaryExpr>(first)) {
    spine.push_back(binary);
    first = binary->lhs;
  }
  TExpr *result = expr(first);
  while (!spine.empty()) {
    const ast::BinaryExpr *next = spine.pop_back_val();
    TExpr *rhs = expr(next->rhs);
    result = arithmetic(next->op, result, rhs, next->range, next->opRange);
  }
  return result;
}

// `a <= x < b`, which compares a truth value with a number.
static bool comparesTruth(ast::BinaryOp op, const TExpr *lhs, const TExpr *rhs) {
  const auto isComparison = [](ElementwiseOp one) {
    return one >= ElementwiseOp::Eq && one <= ElementwiseOp::Ge;
  };
  const bool isOrdered = op >= ast::BinaryOp::Lt && op <= ast::BinaryOp::Ge;
  return isOrdered && lhs->kind == TExprKind::Elementwise && isComparison(lhs->op) &&
         rhs->type->dtype != DType::Bool;
}

static bool isToken(const TExpr *e) {
  return e->type->kind == TypeKind::Token || e->type->kind == TypeKind::Acquire;
}

TExpr *Checker::arithmetic(ast::BinaryOp op, TExpr *lhs, TExpr *rhs, SourceRange range,
                           SourceRange opRange) {
  lhs = toValue(lhs);
  rhs = toValue(rhs);
  const TypeKind left = lhs->type->kind;
  const TypeKind right = rhs->type->kind;
  if (left == TypeKind::Error || right == TypeKind::Error)
    return error(range);
  const auto undefined = [&] {
    auto message = report(opRange, diag::operator_not_defined_for_both, operatorText(op),
                          typeText(lhs->type), typeText(rhs->type));
    if (left == TypeKind::Signal || right == TypeKind::Signal)
      message.note(opRange, diag::note_dtile_form, habits::info(habits::Form::SignalValue).advice);
    else if (isToken(lhs) && isToken(rhs))
      message.note(opRange, diag::note_dtile_form, "tokens are joined by `&`").fix(opRange, "&");
    else if (isToken(lhs))
      message.note(opRange, diag::note_dtile_form,
                   "a token has no value: `await t;` and `x[i] after t` are behind it");
    else if (op == ast::BinaryOp::BitXor && lhs->type->isValue() && isFloat(lhs->type->dtype))
      message.note(opRange, diag::note_dtile_form, habits::info(habits::Form::Power).advice);
    return error(range);
  };
  if (isToken(lhs) && left == right && op == ast::BinaryOp::BitAnd) {
    TExpr *join = ctx.makeExpr(TExprKind::TokenJoin, lhs->type, range);
    join->operands = {lhs, rhs};
    return join;
  }
  if (left == TypeKind::Range || right == TypeKind::Range)
    return shiftedRange(op, lhs, rhs, range, opRange);
  if (!lhs->type->isValue() || !rhs->type->isValue() || op == ast::BinaryOp::Approx)
    return undefined();
  if (comparesTruth(op, lhs, rhs)) {
    report(opRange, diag::dtype_mismatch, dtypeName(lhs->type->dtype), dtypeName(rhs->type->dtype))
        .note(opRange, diag::note_dtile_form, "each comparison has two sides: `a <= x && x < b`");
    return error(range);
  }
  if (!unify(lhs, rhs, opRange))
    return error(range);
  if (!isDefinedFor(op, lhs->type->dtype))
    return undefined();
  TExpr *result = elementwise(elementwiseOp(op), {lhs, rhs}, range);
  result->coordinate = coordinateOf(op, lhs, rhs);
  return result;
}

TExpr *Checker::shiftedRange(ast::BinaryOp op, TExpr *lhs, TExpr *rhs, SourceRange range,
                             SourceRange opRange) {
  const bool isSum = op == ast::BinaryOp::Add;
  TExpr *base = lhs->type->kind == TypeKind::Range ? lhs : rhs;
  TExpr *distance = base == lhs ? rhs : lhs;
  const bool isInteger64 =
      distance->type->kind == TypeKind::Scalar && isInteger(distance->type->dtype);
  if (!isInteger64 || !(isSum || (op == ast::BinaryOp::Sub && base == lhs))) {
    auto message = report(opRange, diag::operator_not_defined_for_both, operatorText(op),
                          typeText(lhs->type), typeText(rhs->type));
    message.note(opRange, diag::note_dtile_form,
                 "`base + m` moves a range; its first position is `m.lo`, and its positions are "
                 "`iota(m)`");
    return error(range);
  }
  distance = cast(distance, DType::I64, distance->range);
  if (!isSum)
    distance = elementwise(ElementwiseOp::Neg, {distance}, distance->range);
  if (distance->type->kind == TypeKind::Error)
    return distance;
  TExpr *shift = ctx.makeExpr(TExprKind::RangeShift, base->type, range);
  shift->operands = {base, distance};
  return shift;
}

TExpr *Checker::conditionalExpr(const ast::ConditionalExpr *e) {
  TExpr *chooser = value(e->condition);
  TExpr *whenTrue = value(e->whenTrue);
  TExpr *whenFalse = value(e->whenFalse);
  for (const TExpr *part : {chooser, whenTrue, whenFalse})
    if (part->type->kind == TypeKind::Error)
      return error(e->range);
  if (chooser->type->dtype != DType::Bool) {
    reportCondition(e->condition->range, chooser->type);
    return error(e->range);
  }
  return select(chooser, whenTrue, whenFalse, e->range);
}

TExpr *Checker::select(TExpr *chooser, TExpr *whenTrue, TExpr *whenFalse, SourceRange range) {
  if (!unify(whenTrue, whenFalse, range))
    return error(range);
  llvm::SmallVector<int64_t, 4> shape;
  if (!broadcastShape(chooser->type->shape, whenTrue->type->shape, shape)) {
    report(range, diag::shape_mismatch, shapeText(chooser->type->shape),
           shapeText(whenTrue->type->shape));
    return error(range);
  }
  if (valueType(whenTrue->type->dtype, shape, range)->kind == TypeKind::Error)
    return error(range);
  chooser = shapedAs(chooser, shape);
  whenTrue = shapedAs(whenTrue, shape);
  whenFalse = shapedAs(whenFalse, shape);
  return elementwise(ElementwiseOp::Select, {chooser, whenTrue, whenFalse}, range);
}

} // namespace dtile::sema
