// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints syntax trees: what was understood, one line a statement, expressions fully parenthesized.
#include "frontend/ast/ast_printer.h"

#include "frontend/ast/ast_visitor.h"

#include "llvm/Support/Format.h"

namespace dtile::ast {

namespace {

using llvm::raw_ostream;

// In quotes, on one line, all else as it is.
void printQuoted(llvm::StringRef text, raw_ostream &os) {
  os << '"';
  for (char c : text) {
    switch (c) {
    case '\n':
      os << "\\n";
      break;
    case '\t':
      os << "\\t";
      break;
    case '\r':
      os << "\\r";
      break;
    case '\0':
      os << "\\0";
      break;
    case '"':
    case '\\':
      os << '\\' << c;
      break;
    default:
      os << c;
    }
  }
  os << '"';
}

class ExprPrinter {
public:
  explicit ExprPrinter(raw_ostream &os) : os_(os) {}

  void print(const Expr *expr) {
    if (expr == nullptr)
      os_ << "_";
    else
      visitExpr(*expr, *this);
  }

  void operator()(const IntLit &e) { os_ << e.value; }
  void operator()(const FloatLit &e) { os_ << llvm::format("%.17g", e.value) << 'f'; }
  void operator()(const BoolLit &e) { os_ << (e.value ? "true" : "false"); }
  void operator()(const StringLit &e) { printQuoted(e.value, os_); }
  void operator()(const NameExpr &e) { os_ << e.name; }
  void operator()(const UnaryExpr &e) { list(spelling(e.op), e.operand); }
  void operator()(const BinaryExpr &e) { list(spelling(e.op), e.lhs, e.rhs); }
  void operator()(const CallExpr &e) { list("call", e.callee, e.args); }
  void operator()(const GenericExpr &e) { list("generic", e.base, e.args); }
  void operator()(const IndexExpr &e) { list("index", e.base, e.indices); }
  void operator()(const MemberExpr &e) { list("member", e.base, e.member); }
  void operator()(const RemoteExpr &e) { list("remote", e.base, e.rank); }
  void operator()(const AfterExpr &e) { list("after", e.value, e.token); }
  void operator()(const RangeExpr &e) { list("range", e.lo, e.hi); }
  void operator()(const StepExpr &e) { list("by", e.whole, e.step); }
  void operator()(const ConditionalExpr &e) { list("?", e.condition, e.whenTrue, e.whenFalse); }
  void operator()(const ErrorExpr &) { os_ << "<error>"; }

private:
  template <typename... Items> void list(llvm::StringRef head, const Items &...items) {
    os_ << '(' << head;
    (item(items), ...);
    os_ << ')';
  }
  void item(const Expr *expr) {
    os_ << ' ';
    print(expr);
  }
  void item(const Ident &ident) { os_ << " ." << ident.name; }
  void item(const Arg &arg) {
    if (arg.label.name.empty())
      return item(arg.value);
    os_ << ' ' << arg.label.name << ':';
    print(arg.value);
  }
  template <typename T> void item(llvm::ArrayRef<T> items) {
    for (const T &one : items)
      item(one);
  }

  raw_ostream &os_;
};

class TreePrinter {
public:
  explicit TreePrinter(raw_ostream &os) : os_(os) {}

  void print(const Module &module) {
    line() << "module\n";
    Indent inner(*this);
    doc(module.doc);
    for (const Decl *decl : module.decls)
      visitDecl(*decl, *this);
  }

  void operator()(const ImportDecl &d) {
    line() << "import ";
    if (d.isString)
      printQuoted(d.path, os_);
    else
      os_ << d.path;
    os_ << " as " << d.alias.name << '\n';
  }
  void operator()(const ConstDecl &d) {
    line() << "const " << d.name.name;
    annotation(d.type);
    assigned(d.value);
    os_ << '\n';
    Indent inner(*this);
    doc(d.doc);
  }
  void operator()(const FnDecl &d) {
    line() << (d.isExtern ? "extern fn " : "fn ") << d.name.name << '\n';
    Indent inner(*this);
    doc(d.doc);
    parameters(d.generics, d.params);
    for (const TypeRef *result : d.results) {
      line() << "result ";
      type(result);
      os_ << '\n';
    }
    for (const Instructions &one : d.instructions) {
      line() << "instructions " << one.target.name << ' ';
      printQuoted(one.text, os_);
      os_ << '\n';
    }
    body(d.body);
  }
  void operator()(const KernelDecl &d) {
    line() << "kernel " << d.name.name << '\n';
    Indent inner(*this);
    doc(d.doc);
    parameters(d.generics, d.params);
    for (const Ident &alternative : d.alternatives)
      line() << "alternative " << alternative.name << '\n';
    statements(d.clauses);
    statements(d.prologue);
    for (const Role *one : d.roles)
      role("role", one);
    for (const ExpectStmt *one : d.ensures)
      (*this)(*one);
  }
  void operator()(const PlanDecl &d) {
    line() << "plan " << d.name.name << '\n';
    Indent inner(*this);
    doc(d.doc);
    parameters(d.generics, d.params);
    statements(d.clauses);
    statements(d.prologue);
    for (const Role *one : d.roles)
      role("role", one);
    for (const ExpectStmt *one : d.ensures)
      (*this)(*one);
    if (!d.alternatives.empty())
      keyword("one of", d.alternatives);
  }
  void operator()(const OverlapDecl &d) {
    line() << "overlap " << d.name.name;
    if (d.kernel == nullptr)
      return graph(d);
    os_ << " = ";
    expr(d.kernel);
    os_ << '\n';
    Indent inner(*this);
    doc(d.doc);
    statements(d.clauses);
    for (const OverlapJoin &join : d.joins) {
      line() << "join " << join.tensor.name << (join.isProducer ? " -> " : " <- ");
      expr(join.plan);
      os_ << '\n';
    }
  }
  void graph(const OverlapDecl &d) {
    os_ << '\n';
    Indent inner(*this);
    doc(d.doc);
    parameters(d.generics, d.params);
    statements(d.clauses);
    for (const OverlapStep &step : d.steps) {
      line() << (step.isLet ? "let" : "output");
      for (const Ident &name : step.names)
        os_ << ' ' << name.name;
      assigned(step.value);
      os_ << '\n';
    }
    for (const ExpectStmt *one : d.ensures)
      (*this)(*one);
  }
  void operator()(const TestDecl &d) { block("test", d.name, d.ranks, d.body); }
  void operator()(const BenchDecl &d) { block("bench", d.name, d.ranks, d.body); }

  void operator()(const LetStmt &s) {
    line() << "let";
    for (const Ident &name : s.names)
      os_ << ' ' << name.name;
    annotation(s.type);
    assigned(s.value);
    os_ << '\n';
  }
  void operator()(const VarStmt &s) {
    line() << "var " << s.name.name;
    annotation(s.type);
    assigned(s.value);
    os_ << '\n';
  }
  void operator()(const AssignStmt &s) {
    line();
    expr(s.target);
    os_ << ' ' << (s.isCompound ? spelling(s.op) : "") << "= ";
    expr(s.value);
    os_ << '\n';
  }
  void operator()(const ExprStmt &s) { keyword("do", llvm::ArrayRef<Expr *>(s.value)); }
  void operator()(const BlockStmt &s) {
    line() << "block\n";
    Indent inner(*this);
    statements(s.statements);
  }
  void operator()(const ForStmt &s) {
    line() << (s.isUnordered ? "for unordered " : "for ");
    dim(s.dim);
    Indent inner(*this);
    statements(s.body);
  }
  void operator()(const BreakStmt &s) { line() << (s.isContinue ? "continue\n" : "break\n"); }
  void operator()(const WhileStmt &s) {
    keyword("while", llvm::ArrayRef<Expr *>(s.condition));
    Indent inner(*this);
    statements(s.body);
  }
  void operator()(const IfStmt &s) {
    keyword("if", llvm::ArrayRef<Expr *>(s.condition));
    {
      Indent inner(*this);
      statements(s.then);
    }
    if (s.otherwise == nullptr)
      return;
    line() << "else\n";
    Indent inner(*this);
    if (const auto *otherwise = llvm::dyn_cast<BlockStmt>(s.otherwise))
      statements(otherwise);
    else
      visitStmt(*s.otherwise, *this);
  }
  void operator()(const ReturnStmt &s) { keyword("return", s.values); }
  void operator()(const YieldStmt &s) { keyword("yield", s.values); }
  void operator()(const AwaitStmt &s) { keyword("await", llvm::ArrayRef<Expr *>(s.token)); }
  void operator()(const RequiresStmt &s) { keyword("requires", s.conditions); }
  void operator()(const MeshStmt &s) {
    line() << "mesh";
    for (const MeshAxis &axis : s.axes) {
      os_ << ' ' << axis.name.name << ": ";
      expr(axis.extent);
    }
    os_ << '\n';
  }
  void operator()(const AssumeStmt &s) {
    line() << "assume ";
    expr(s.condition);
    os_ << " because ";
    printQuoted(s.because, os_);
    os_ << '\n';
  }
  void operator()(const ExpectStmt &s) {
    line() << (s.isEnsures ? "ensures " : "expect ");
    expr(s.condition);
    if (s.rtol != nullptr) {
      os_ << " rtol ";
      expr(s.rtol);
    }
    if (s.atol != nullptr) {
      os_ << " atol ";
      expr(s.atol);
    }
    os_ << '\n';
  }

private:
  struct Indent {
    explicit Indent(TreePrinter &printer) : printer(printer) { printer.depth_ += 2; }
    ~Indent() { printer.depth_ -= 2; }
    TreePrinter &printer;
  };

  raw_ostream &line() { return os_.indent(depth_); }
  void expr(const Expr *e) { printExpr(e, os_); }

  void doc(llvm::StringRef text) {
    if (text.empty())
      return;
    line() << "doc ";
    printQuoted(text, os_);
    os_ << '\n';
  }
  void keyword(llvm::StringRef word, llvm::ArrayRef<Expr *> values) {
    line() << word;
    for (const Expr *value : values) {
      os_ << ' ';
      expr(value);
    }
    os_ << '\n';
  }
  void type(const TypeRef *t) {
    os_ << t->name.name;
    if (!t->hasShape)
      return;
    os_ << '[';
    for (size_t i = 0; i < t->shape.size(); ++i) {
      os_ << (i > 0 ? ", " : "");
      expr(t->shape[i]);
    }
    os_ << ']';
  }
  void annotation(const TypeRef *t) {
    if (t == nullptr)
      return;
    os_ << " : ";
    type(t);
  }
  void assigned(const Expr *value) {
    if (value == nullptr)
      return;
    os_ << " = ";
    expr(value);
  }
  void parameters(llvm::ArrayRef<GenericParam> generics, llvm::ArrayRef<Param> params) {
    for (const GenericParam &param : generics) {
      line() << "generic " << param.name.name;
      annotation(param.type);
      assigned(param.defaultValue);
      os_ << '\n';
    }
    for (const Param &param : params) {
      line() << "param " << param.name.name << " : " << spelling(param.mode)
             << (param.mode == ParamMode::Value ? "" : " ");
      if (param.type != nullptr)
        type(param.type);
      assigned(param.init);
      os_ << '\n';
    }
  }
  void dim(const IterDim &d) {
    os_ << d.name.name << " in ";
    expr(d.domain);
    if (d.step != nullptr) {
      os_ << " by ";
      expr(d.step);
    }
    os_ << '\n';
  }
  void role(llvm::StringRef head, const Role *one) {
    line() << head;
    if (!one->name.name.empty())
      os_ << ' ' << one->name.name;
    for (const Ident &name : one->joined)
      os_ << ' ' << name.name;
    os_ << '\n';
    Indent inner(*this);
    if (one->over != nullptr)
      over(*one->over);
    body(one->body);
    if (one->whenAll != nullptr)
      role("when all", one->whenAll);
  }
  void over(const OverClause &clause) {
    for (const IterDim &d : clause.dims) {
      line() << "over ";
      dim(d);
    }
    if (clause.ordered)
      line() << "ordered\n";
    if (clause.programs != nullptr)
      keyword("programs", llvm::ArrayRef<Expr *>(clause.programs));
    if (clause.copyEngineIf != nullptr)
      keyword("copy_engine", llvm::ArrayRef<Expr *>(clause.copyEngineIf));
    else if (clause.copyEngine)
      line() << "copy_engine\n";
  }
  void body(const BlockStmt *block) {
    line() << "body\n";
    Indent inner(*this);
    statements(block);
  }
  void block(llvm::StringRef head, llvm::StringRef name, llvm::ArrayRef<Expr *> ranks,
             const BlockStmt *statements) {
    line() << head << ' ';
    printQuoted(name, os_);
    os_ << '\n';
    Indent inner(*this);
    if (!ranks.empty())
      keyword("ranks", ranks);
    body(statements);
  }
  void statements(const BlockStmt *block) {
    if (block != nullptr)
      statements(block->statements);
  }
  void statements(llvm::ArrayRef<Stmt *> list) {
    for (const Stmt *stmt : list)
      visitStmt(*stmt, *this);
  }

  raw_ostream &os_;
  unsigned depth_ = 0;
};

} // namespace

void printAst(const Module &module, raw_ostream &os) { TreePrinter(os).print(module); }

void printExpr(const Expr *expr, raw_ostream &os) { ExprPrinter(os).print(expr); }

} // namespace dtile::ast
