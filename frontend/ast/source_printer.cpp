// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Syntax trees to text, with the parentheses that precedences ask for and no others.
#include "frontend/ast/source_printer.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/mesh.h"

#include "llvm/Support/Format.h"

namespace dtile::ast {

namespace {

using llvm::raw_ostream;

// How tight an expression binds; the numbers of frontend/parse, and what is tighter.
enum : unsigned {
  kRange = 0,
  kConditional = 1,
  kBinary = 2,
  kPrefix = 20,
  kAfter = 21,
  kPostfix = 22
};

unsigned precedence(BinaryOp op) {
  switch (op) {
  case BinaryOp::Approx:
    return kRange;
  case BinaryOp::LogOr:
    return kBinary;
  case BinaryOp::LogAnd:
    return kBinary + 1;
  case BinaryOp::Eq:
  case BinaryOp::Ne:
  case BinaryOp::Lt:
  case BinaryOp::Le:
  case BinaryOp::Gt:
  case BinaryOp::Ge:
    return kBinary + 2;
  case BinaryOp::BitOr:
    return kBinary + 3;
  case BinaryOp::BitXor:
    return kBinary + 4;
  case BinaryOp::BitAnd:
    return kBinary + 5;
  case BinaryOp::Shl:
  case BinaryOp::Shr:
    return kBinary + 6;
  case BinaryOp::Add:
  case BinaryOp::Sub:
    return kBinary + 7;
  case BinaryOp::Mul:
  case BinaryOp::Div:
  case BinaryOp::Rem:
    return kBinary + 8;
  }
  DTILE_UNREACHABLE("not a binary operator");
}

struct Precedence {
  unsigned operator()(const UnaryExpr &) { return kPrefix; }
  unsigned operator()(const BinaryExpr &e) { return precedence(e.op); }
  unsigned operator()(const AfterExpr &) { return kAfter; }
  unsigned operator()(const RangeExpr &) { return kRange; }
  unsigned operator()(const StepExpr &) { return kRange; }
  unsigned operator()(const ConditionalExpr &) { return kConditional; }
  template <typename T> unsigned operator()(const T &) { return kPostfix; }
};

class SourcePrinter {
public:
  explicit SourcePrinter(raw_ostream &os) : os_(os) {}

  // ---- Expressions ----

  void expr(const Expr *e, unsigned atLeast = kRange) {
    const bool isOpen = visitExpr(*e, Precedence()) < atLeast;
    os_ << (isOpen ? "(" : "");
    visitExpr(*e, *this);
    os_ << (isOpen ? ")" : "");
  }

  void operator()(const IntLit &e) { os_ << e.value; }
  void operator()(const FloatLit &e) { number(e.value); }
  void operator()(const BoolLit &e) { os_ << (e.value ? "true" : "false"); }
  void operator()(const StringLit &e) { quoted(e.value); }
  void operator()(const NameExpr &e) { os_ << e.name; }
  void operator()(const ErrorExpr &) { os_ << "<error>"; }
  void operator()(const UnaryExpr &e) {
    os_ << spelling(e.op);
    expr(e.operand, kPrefix);
  }
  void operator()(const BinaryExpr &e) {
    const unsigned own = precedence(e.op);
    expr(e.lhs, std::max(own, unsigned(kConditional)));
    os_ << ' ' << spelling(e.op) << ' ';
    expr(e.rhs, own + 1);
  }
  void operator()(const CallExpr &e) {
    expr(e.callee, kPostfix);
    os_ << '(';
    args(e.args, ": ");
    os_ << ')';
  }
  void operator()(const GenericExpr &e) {
    expr(e.base, kPostfix);
    os_ << '<';
    for (size_t i = 0; i < e.args.size(); ++i) {
      os_ << (i > 0 ? ", " : "");
      if (!e.args[i].label.name.empty())
        os_ << e.args[i].label.name << " = ";
      // Comparisons and shifts would end the list.
      expr(e.args[i].value, kBinary + 7);
    }
    os_ << '>';
  }
  void operator()(const IndexExpr &e) {
    expr(e.base, kPostfix);
    os_ << '[';
    for (size_t i = 0; i < e.indices.size(); ++i) {
      os_ << (i > 0 ? ", " : "");
      expr(e.indices[i]);
    }
    os_ << ']';
  }
  void operator()(const MemberExpr &e) {
    expr(e.base, kPostfix);
    os_ << '.' << e.member.name;
  }
  void operator()(const RemoteExpr &e) {
    expr(e.base, kPostfix);
    if (const auto *coordinates = e.coordinates()) {
      os_ << "@(";
      args(coordinates->args, ": ");
      os_ << ')';
      return;
    }
    const bool isPlain = llvm::isa<NameExpr>(e.rank) || llvm::isa<IntLit>(e.rank);
    os_ << (isPlain ? "@" : "@(");
    expr(e.rank);
    os_ << (isPlain ? "" : ")");
  }
  void operator()(const AfterExpr &e) {
    expr(e.value, kAfter);
    os_ << " after ";
    expr(e.token, kPostfix);
  }
  void operator()(const StepExpr &e) {
    expr(e.whole, kRange);
    os_ << " by ";
    expr(e.step, kConditional);
  }
  void operator()(const RangeExpr &e) {
    if (e.lo == nullptr && e.hi == nullptr) {
      os_ << ':';
      return;
    }
    if (e.lo != nullptr)
      expr(e.lo, kConditional);
    os_ << "..";
    if (e.hi != nullptr)
      expr(e.hi, kConditional);
  }
  void operator()(const ConditionalExpr &e) {
    expr(e.condition, kBinary);
    os_ << " ? ";
    expr(e.whenTrue, kConditional);
    os_ << " : ";
    expr(e.whenFalse, kConditional);
  }

  // ---- Statements ----

  void operator()(const LetStmt &s) {
    os_ << "let ";
    if (s.names.size() > 1)
      os_ << '(';
    for (size_t i = 0; i < s.names.size(); ++i)
      os_ << (i > 0 ? ", " : "") << s.names[i].name;
    if (s.names.size() > 1)
      os_ << ')';
    defined(s.type, s.value);
  }
  void operator()(const VarStmt &s) {
    os_ << "var " << s.name.name;
    defined(s.type, s.value);
  }
  void operator()(const AssignStmt &s) {
    expr(s.target);
    os_ << ' ' << (s.isCompound ? spelling(s.op) : "") << "= ";
    expr(s.value);
    os_ << ";\n";
  }
  void operator()(const ExprStmt &s) {
    expr(s.value);
    os_ << ";\n";
  }
  void operator()(const BlockStmt &s) {
    os_ << "{\n";
    statements(s.statements);
    os_ << "}\n";
  }
  void operator()(const ForStmt &s) {
    os_ << "for ";
    dim(s.dim);
    os_ << (s.isUnordered ? " unordered {" : " {");
    braced(s.body->statements);
    os_ << '\n';
  }
  void operator()(const BreakStmt &s) { os_ << (s.isContinue ? "continue;\n" : "break;\n"); }
  void operator()(const WhileStmt &s) {
    os_ << "while ";
    expr(s.condition);
    os_ << ' ';
    (*this)(*s.body);
  }
  void operator()(const IfStmt &s) {
    os_ << "if ";
    expr(s.condition);
    os_ << " {\n";
    statements(s.then->statements);
    os_ << "}";
    if (s.otherwise != nullptr) {
      os_ << " else ";
      visitStmt(*s.otherwise, *this);
    } else {
      os_ << '\n';
    }
  }
  void operator()(const ReturnStmt &s) { keyword("return", s.values); }
  void operator()(const YieldStmt &s) { keyword("yield", s.values); }
  void operator()(const AwaitStmt &s) { keyword("await", s.token); }
  void operator()(const RequiresStmt &s) { keyword("requires", s.conditions); }
  void operator()(const MeshStmt &s) {
    axes(s);
    os_ << ";\n";
  }
  void axes(const MeshStmt &s) {
    os_ << "mesh (";
    for (const auto [i, axis] : llvm::enumerate(s.axes)) {
      os_ << (i > 0 ? ", " : "") << axis.name.name << ": ";
      expr(axis.extent);
    }
    os_ << ")";
  }
  void operator()(const AssumeStmt &s) {
    os_ << "assume ";
    expr(s.condition);
    os_ << " because ";
    quoted(s.because);
    os_ << ";\n";
  }
  void operator()(const ExpectStmt &s) {
    os_ << (s.isEnsures ? "ensures " : "expect ");
    expr(s.condition);
    tolerance(" rtol ", s.rtol);
    tolerance(" atol ", s.atol);
    os_ << ";\n";
  }

  // ---- Declarations ----

  void operator()(const ImportDecl &d) {
    os_ << "import ";
    if (d.isString) {
      quoted(d.path);
    } else {
      for (char c : d.path)
        os_ << (c == '/' ? '.' : c);
    }
    const llvm::StringRef last =
        d.path.rsplit('/').second.empty() ? d.path : d.path.rsplit('/').second;
    if (d.isString || last != d.alias.name)
      os_ << " as " << d.alias.name;
    os_ << ";\n";
  }
  void operator()(const ConstDecl &d) {
    doc(d.doc);
    os_ << "const " << d.name.name;
    defined(d.type, d.value);
  }
  void operator()(const FnDecl &d) {
    doc(d.doc);
    os_ << (d.isExtern ? "extern fn " : "fn ") << d.name.name;
    generics(d.generics);
    params(d.params);
    if (!d.results.empty())
      os_ << " -> " << (d.results.size() > 1 ? "(" : "");
    for (size_t i = 0; i < d.results.size(); ++i) {
      os_ << (i > 0 ? ", " : "");
      type(*d.results[i]);
    }
    os_ << (d.results.size() > 1 ? ") " : " ");
    for (size_t i = 0; i < d.instructions.size(); ++i) {
      os_ << (i > 0 ? "| " : "= ") << d.instructions[i].target.name << '(';
      quoted(d.instructions[i].text);
      os_ << ") ";
    }
    if (d.body == nullptr) {
      os_ << ";\n";
      return;
    }
    (*this)(*d.body);
  }
  void operator()(const KernelDecl &d) {
    doc(d.doc);
    os_ << "kernel " << d.name.name;
    generics(d.generics);
    params(d.params);
    if (!d.alternatives.empty()) {
      for (size_t i = 0; i < d.alternatives.size(); ++i)
        os_ << (i > 0 ? " | " : " = ") << d.alternatives[i].name;
      os_ << ";\n";
      return;
    }
    const bool isBare = d.roles.size() == 1 && d.roles.front()->name.name.empty();
    if (isBare)
      over(d.roles.front()->over);
    os_ << " {\n";
    statements(d.clauses);
    statements(d.prologue);
    if (isBare)
      statements(d.roles.front()->body->statements);
    else
      for (const Role *one : d.roles)
        role(*one);
    for (const ExpectStmt *one : d.ensures)
      (*this)(*one);
    os_ << "}\n";
  }
  void operator()(const PlanDecl &d) {
    doc(d.doc);
    os_ << "plan " << d.name.name;
    generics(d.generics);
    params(d.params);
    if (!d.alternatives.empty()) {
      for (size_t i = 0; i < d.alternatives.size(); ++i) {
        os_ << (i > 0 ? " | " : " = ");
        expr(d.alternatives[i], kPostfix);
      }
      os_ << ";\n";
      return;
    }
    os_ << " {\n";
    statements(d.clauses);
    statements(d.prologue);
    for (const Role *one : d.roles)
      role(*one);
    for (const ExpectStmt *one : d.ensures)
      (*this)(*one);
    os_ << "}\n";
  }
  void operator()(const OverlapDecl &d) {
    doc(d.doc);
    os_ << "overlap " << d.name.name;
    if (d.kernel == nullptr)
      return graph(d);
    os_ << " = ";
    expr(d.kernel, kPostfix);
    os_ << " with { ";
    if (const MeshStmt *mesh = meshIn(d.clauses)) {
      axes(*mesh);
      os_ << ", ";
    }
    for (size_t i = 0; i < d.joins.size(); ++i) {
      os_ << (i > 0 ? ", " : "") << d.joins[i].tensor.name
          << (d.joins[i].isProducer ? " -> " : " <- ");
      expr(d.joins[i].plan, kPostfix);
    }
    os_ << " };\n";
  }
  void graph(const OverlapDecl &d) {
    generics(d.generics);
    params(d.params);
    os_ << " {\n";
    statements(d.clauses);
    for (const OverlapStep &step : d.steps) {
      os_ << (step.isLet ? "let " : "") << (step.names.size() > 1 ? "(" : "");
      for (size_t i = 0; i < step.names.size(); ++i)
        os_ << (i > 0 ? ", " : "") << step.names[i].name;
      os_ << (step.names.size() > 1 ? ") = " : " = ");
      expr(step.value);
      os_ << ";\n";
    }
    for (const ExpectStmt *one : d.ensures)
      (*this)(*one);
    os_ << "}\n";
  }
  void operator()(const TestDecl &d) { test("test", d.name, d.ranks, *d.body); }
  void operator()(const BenchDecl &d) { test("bench", d.name, d.ranks, *d.body); }

private:
  // A float has a digit after its point, or an exponent.
  void number(double value) {
    std::string text;
    for (int digits = 1; digits <= 17; ++digits) {
      text.clear();
      llvm::raw_string_ostream os(text);
      os << llvm::format("%.*g", digits, value);
      double back = 0;
      if (!llvm::StringRef(text).getAsDouble(back) && back == value)
        break;
    }
    os_ << text;
    if (text.find_first_of(".e") == std::string::npos)
      os_ << ".0";
  }
  void quoted(llvm::StringRef text) {
    os_ << '"';
    for (char c : text) {
      if (c == '\n')
        os_ << "\\n";
      else if (c == '\t')
        os_ << "\\t";
      else if (c == '\r')
        os_ << "\\r";
      else if (c == '\0')
        os_ << "\\0";
      else if (c == '"' || c == '\\')
        os_ << '\\' << c;
      else
        os_ << c;
    }
    os_ << '"';
  }
  void args(llvm::ArrayRef<Arg> list, llvm::StringRef separator) {
    for (size_t i = 0; i < list.size(); ++i) {
      os_ << (i > 0 ? ", " : "");
      if (!list[i].label.name.empty())
        os_ << list[i].label.name << separator;
      expr(list[i].value);
    }
  }
  void keyword(llvm::StringRef word, llvm::ArrayRef<Expr *> values) {
    os_ << word;
    for (size_t i = 0; i < values.size(); ++i) {
      os_ << (i > 0 ? ", " : " ");
      expr(values[i]);
    }
    os_ << ";\n";
  }
  void tolerance(llvm::StringRef word, const Expr *value) {
    if (value == nullptr)
      return;
    os_ << word;
    expr(value);
  }
  // What follows `{`: one simple statement stays on its line.
  void braced(llvm::ArrayRef<Stmt *> list) {
    const bool isInline = list.size() == 1 &&
                          (llvm::isa<AssignStmt>(list.front()) ||
                           llvm::isa<ExprStmt>(list.front()) || llvm::isa<AwaitStmt>(list.front()));
    std::string text;
    llvm::raw_string_ostream os(text);
    SourcePrinter(os).statements(list);
    os_ << (isInline ? " " : "\n") << (isInline ? llvm::StringRef(text).rtrim() : text)
        << (isInline ? " }" : "}");
  }
  void statements(llvm::ArrayRef<Stmt *> list) {
    for (const Stmt *one : list)
      visitStmt(*one, *this);
  }
  void doc(llvm::StringRef text) {
    if (text.empty())
      return;
    llvm::SmallVector<llvm::StringRef, 8> lines;
    text.split(lines, '\n');
    for (llvm::StringRef one : lines)
      os_ << "///" << (one.empty() ? "" : " ") << one << '\n';
  }
  void type(const TypeRef &t) {
    os_ << t.name.name;
    if (!t.hasShape)
      return;
    os_ << '[';
    for (size_t i = 0; i < t.shape.size(); ++i) {
      os_ << (i > 0 ? ", " : "");
      expr(t.shape[i]);
    }
    os_ << ']';
  }
  void defined(const TypeRef *annotation, const Expr *value) {
    if (annotation != nullptr) {
      os_ << ": ";
      type(*annotation);
    }
    os_ << " = ";
    expr(value);
    os_ << ";\n";
  }
  void generics(llvm::ArrayRef<GenericParam> list) {
    if (list.empty())
      return;
    // Many stand on lines of their own.
    const bool isLong = list.size() > 6;
    os_ << (isLong ? "<\n" : "<");
    for (size_t i = 0; i < list.size(); ++i) {
      const GenericParam &one = list[i];
      os_ << (i > 0 ? ", " : "");
      // A bare name would parse as well; `const` says what it is.
      if (one.type == nullptr && one.defaultValue == nullptr)
        os_ << "const ";
      os_ << one.name.name;
      if (one.type != nullptr) {
        os_ << ": ";
        type(*one.type);
      }
      if (one.defaultValue != nullptr) {
        os_ << " = ";
        expr(one.defaultValue, kBinary + 7);
      }
    }
    os_ << (isLong ? ",\n>" : ">");
  }
  // One a line, so that the formatter makes a table of them.
  void params(llvm::ArrayRef<Param> list) {
    os_ << '(';
    for (const Param &one : list) {
      os_ << '\n'
          << one.name.name << ": " << spelling(one.mode)
          << (one.mode == ParamMode::Value ? "" : " ");
      type(*one.type);
      if (one.init != nullptr) {
        os_ << " = ";
        expr(one.init);
      }
      os_ << ',';
    }
    os_ << (list.empty() ? ")" : "\n)");
  }
  void dim(const IterDim &d) {
    os_ << d.name.name << " in ";
    expr(d.domain);
    if (d.step != nullptr) {
      os_ << " by ";
      expr(d.step);
    }
  }
  void over(const OverClause *clause) {
    if (clause == nullptr)
      return;
    os_ << " over (";
    for (size_t i = 0; i < clause->dims.size(); ++i) {
      os_ << (i > 0 ? ", " : "");
      dim(clause->dims[i]);
    }
    os_ << (clause->ordered ? ") ordered" : ")");
    if (clause->programs != nullptr) {
      os_ << " programs(";
      expr(clause->programs);
      os_ << ')';
    }
    if (clause->copyEngine)
      os_ << " copy_engine";
    if (clause->copyEngineIf != nullptr) {
      os_ << '(';
      expr(clause->copyEngineIf);
      os_ << ')';
    }
  }
  void role(const Role &one) {
    if (!one.name.name.empty())
      os_ << "role " << one.name.name;
    body(one);
  }
  void body(const Role &one) {
    over(one.over);
    os_ << " {";
    braced(one.body->statements);
    if (one.whenAll == nullptr) {
      os_ << '\n';
      return;
    }
    os_ << " when all (";
    for (size_t i = 0; i < one.whenAll->joined.size(); ++i)
      os_ << (i > 0 ? ", " : "") << one.whenAll->joined[i].name;
    os_ << ')';
    body(*one.whenAll);
  }
  void test(llvm::StringRef word, llvm::StringRef name, llvm::ArrayRef<Expr *> ranks,
            const BlockStmt &body) {
    os_ << word << ' ';
    quoted(name);
    for (size_t i = 0; i < ranks.size(); ++i) {
      os_ << (i > 0 ? ", " : " ranks (");
      expr(ranks[i]);
    }
    os_ << (ranks.empty() ? " " : ") ");
    (*this)(body);
  }

  raw_ostream &os_;
};

} // namespace

void printSource(const Expr *expr, raw_ostream &os) { SourcePrinter(os).expr(expr); }
void printSource(const Decl *decl, raw_ostream &os) { visitDecl(*decl, SourcePrinter(os)); }

std::string textOf(const Expr *expr) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printSource(expr, os);
  return text;
}

} // namespace dtile::ast
