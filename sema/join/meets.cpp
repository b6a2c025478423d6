// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A barrier along an axis in words that a kernel has: what was sent has landed, each rank notifies
// all on the axis, and waits for them. Every barrier of the text has cells of its own, one for each
// iteration of the loops around it, so that no count of one meeting is taken for another's.
#include "sema/join/meets.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/mesh.h"
#include "sema/join/make.h"
#include "sema/join/names.h"
#include "sema/join/rewriter.h"

namespace dtile::join {

namespace {

const ast::CallExpr *asMeeting(const ast::Stmt &s) {
  const auto *statement = llvm::dyn_cast<ast::ExprStmt>(&s);
  const auto *call = statement ? llvm::dyn_cast<ast::CallExpr>(statement->value) : nullptr;
  return call && nameOf(call->callee) == "barrier" && ast::axisNamedBy(call) ? call : nullptr;
}

bool meets(const ast::Role &role) {
  struct Finder : ast::Walker<Finder> {
    using Walker::visit;
    bool visit(const ast::ExprStmt &s) {
      found |= asMeeting(s) != nullptr;
      return true;
    }
    bool found = false;
  } finder;
  for (const ast::Role *one = &role; one != nullptr; one = one->whenAll)
    finder.walk(one->body);
  return finder.found;
}

class MeetingWriter : public Rewriter {
public:
  using Refuse = llvm::function_ref<void(const ast::CallExpr &barrier, llvm::StringRef axis,
                                         llvm::StringRef why)>;
  MeetingWriter(ast::Arena &arena, const llvm::StringSet<> &names,
                llvm::ArrayRef<ast::Stmt *> prologue, Refuse refuse)
      : Rewriter(arena), fresh_(arena), refuse_(refuse) {
    fresh_.take(names);
    for (const ast::Stmt *one : prologue)
      declare(*one);
  }

  ast::Role *write(const ast::Role &one) {
    hasSpace_ = one.over != nullptr || one.whenAll != nullptr;
    return role(&one);
  }

  llvm::SmallVector<ast::Param, 2> signals;

protected:
  void list(llvm::ArrayRef<ast::Stmt *> from, llvm::SmallVectorImpl<ast::Stmt *> &to) override {
    const size_t hidden = locals_.size();
    for (const ast::Stmt *one : from) {
      if (const ast::CallExpr *barrier = asMeeting(*one))
        meet(*barrier, to);
      else
        to.push_back(stmt(one));
      declare(*one);
    }
    locals_.truncate(hidden);
  }

  ast::Stmt *replacedStmt(const ast::Stmt &s) override {
    const auto *loop = llvm::dyn_cast<ast::ForStmt>(&s);
    if (loop == nullptr && !isOpenEnded(s))
      return nullptr;
    loops_.push_back(loop);
    const size_t hidden = locals_.size();
    if (loop != nullptr)
      locals_.push_back(loop->dim.name.name);
    ast::Stmt *copy = copiedStmt(s);
    locals_.truncate(hidden);
    loops_.pop_back();
    return copy;
  }

private:
  void declare(const ast::Stmt &s) {
    if (const auto *let = llvm::dyn_cast<ast::LetStmt>(&s))
      for (const ast::Ident &name : let->names)
        locals_.push_back(name.name);
    if (const auto *var = llvm::dyn_cast<ast::VarStmt>(&s))
      locals_.push_back(var->name.name);
  }

  /// Whether a size of a signal may be made of it: no name of the body, and no memory.
  bool isOfLaunch(const ast::Expr *e) const {
    struct Finder : ast::Walker<Finder> {
      using Walker::visit;
      explicit Finder(llvm::ArrayRef<llvm::StringRef> locals) : locals(locals) {}
      bool visit(const ast::NameExpr &name) {
        isGood &= !llvm::is_contained(locals, name.name);
        return true;
      }
      bool visit(const ast::IndexExpr &) { return isGood = false; }
      bool visit(const ast::RangeExpr &) { return isGood = false; }
      bool visit(const ast::CallExpr &call) {
        const llvm::StringRef name = nameOf(call.callee);
        isGood &= name == "num_ranks" || name == "blocks";
        return isGood && ast::axisNamedBy(&call) == nullptr;
      }
      llvm::ArrayRef<llvm::StringRef> locals;
      bool isGood = true;
    } finder(locals_);
    finder.walk(e);
    return finder.isGood;
  }

  /// How many iterations a loop has at most, and the number of one; false where these do not follow
  /// from the launch.
  bool count(const ast::ForStmt &loop, const Make &make, llvm::SmallVectorImpl<ast::Expr *> &sizes,
             llvm::SmallVectorImpl<ast::Expr *> &cells) {
    const ast::Expr *end = loop.dim.domain;
    if (const auto *range = llvm::dyn_cast<ast::RangeExpr>(end)) {
      // Positions before the first one have cells that nobody uses.
      const bool isFromNumber =
          loop.dim.step == nullptr && llvm::isa_and_nonnull<ast::IntLit>(range->lo);
      const auto *first = llvm::dyn_cast_or_null<ast::IntLit>(range->lo);
      end = isFromNumber || (first != nullptr && first->value == 0) ? range->hi : nullptr;
    }
    if (end == nullptr || !isOfLaunch(end) || (loop.dim.step && !isOfLaunch(loop.dim.step)))
      return false;
    Rewriter plain(arena_);
    ast::Expr *size = plain.expr(end);
    ast::Expr *cell = make.name(loop.dim.name.name);
    if (loop.dim.step != nullptr) {
      size = make.call("blocks", {size, plain.expr(loop.dim.step)});
      cell = make.member(cell, "index");
    }
    sizes.push_back(size);
    cells.push_back(cell);
    return true;
  }

  void meet(const ast::CallExpr &barrier, llvm::SmallVectorImpl<ast::Stmt *> &to) {
    const llvm::StringRef axis = ast::axisNamedBy(&barrier)->name;
    const Make make{arena_, barrier.range};
    llvm::SmallVector<ast::Expr *, 4> sizes;
    llvm::SmallVector<ast::Expr *, 4> cells;
    llvm::StringRef why = hasSpace_ ? "in a space a rank may have any number of bodies" : "";
    for (const ast::ForStmt *loop : loops_)
      if (loop == nullptr)
        why = "how often a `while` turns is known only when it runs";
      else if (!count(*loop, make, sizes, cells))
        why = "a loop around it begins at a number, and ends at what sizes, scalars and constants "
              "say";
    if (!why.empty()) {
      refuse_(barrier, axis, why);
      to.push_back(Rewriter(arena_).stmt(make.statement(Rewriter(arena_).expr(&barrier))));
      return;
    }
    const llvm::StringRef signal = fresh_.make(("met_" + axis).str());
    const llvm::StringRef hop = fresh_.make("to");
    const auto places = [&] { return make.call("num_ranks", {make.name(axis)}); };
    const auto own = [&] { return make.call("rank", {make.name(axis)}); };
    to.push_back(make.statement(make.call("quiet")));
    ast::Expr *rank = make.call(make.name("rank"), ast::Arg{{axis, barrier.range}, make.name(hop)});
    llvm::SmallVector<ast::Expr *, 4> told(cells);
    told.push_back(own());
    ast::Stmt *notify = make.statement(
        make.call("notify", {make.index(make.remote(make.name(signal), rank), told)}));
    to.push_back(make.loop(hop, make.range(make.number(0), places()), notify));
    llvm::SmallVector<ast::Expr *, 4> asked;
    for (ast::Expr *cell : cells)
      asked.push_back(Rewriter(arena_).expr(cell));
    asked.push_back(make.whole());
    to.push_back(make.await(make.call("wait", {make.index(make.name(signal), asked)})));
    sizes.push_back(places());
    signals.push_back(signalOf(signal, barrier.range, sizes));
  }

  ast::Param signalOf(llvm::StringRef name, SourceRange at, llvm::ArrayRef<ast::Expr *> shape) {
    ast::Param param;
    param.range = at;
    param.name = {name, at};
    param.mode = ast::ParamMode::Symm;
    param.type = arena_.makePlain<ast::TypeRef>();
    param.type->range = at;
    param.type->name = {"signal", at};
    param.type->hasShape = true;
    param.type->shape = arena_.copy(shape);
    return param;
  }

  Fresh fresh_;
  Refuse refuse_;
  bool hasSpace_ = false;
  /// Loops around a statement, null for a `while`, and names that bodies declare.
  llvm::SmallVector<const ast::ForStmt *, 4> loops_;
  llvm::SmallVector<llvm::StringRef, 8> locals_;
};

} // namespace

void meetAlongAxes(
    llvm::ArrayRef<ast::Param> &params, llvm::ArrayRef<ast::Role *> &roles,
    llvm::ArrayRef<ast::Stmt *> prologue, const llvm::StringSet<> &names, ast::Arena &arena,
    llvm::function_ref<void(const ast::CallExpr &, llvm::StringRef, llvm::StringRef)> refuse) {
  if (llvm::none_of(roles, [](const ast::Role *role) { return meets(*role); }))
    return;
  MeetingWriter writer(arena, names, prologue, refuse);
  llvm::SmallVector<ast::Role *, 4> written;
  for (ast::Role *role : roles)
    written.push_back(meets(*role) ? writer.write(*role) : role);
  roles = arena.copy(llvm::ArrayRef<ast::Role *>(written));
  llvm::SmallVector<ast::Param, 8> all(params);
  all.append(writer.signals.begin(), writer.signals.end());
  params = arena.copy(llvm::ArrayRef<ast::Param>(all));
}

} // namespace dtile::join
