// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Derives signals: a notify after each write of a published tensor, a wait before each read.
#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/source_printer.h"
#include "sema/join/body_walk.h"
#include "sema/join/make.h"

namespace dtile::join {

namespace {

// `local` of `x@(local: i)`; empty for all other ranks.
llvm::StringRef axisOf(const ast::Expr *rank) {
  const auto *call = llvm::dyn_cast<ast::CallExpr>(rank);
  return call && nameOf(call->callee) == "rank" && call->args.size() == 1
             ? call->args.front().label.name
             : llvm::StringRef();
}

// First walk: what bodies write and read.
class Collector : public BodyWalk {
public:
  using BodyWalk::BodyWalk;
  std::vector<Access> accesses;

protected:
  ast::Expr *read(const ast::Expr &e, const Place &place) override {
    ast::Expr *copy = accessCopied(e);
    add(place, e.range, /*isWrite=*/false, /*adds=*/false);
    return copy;
  }
  void wrote(const Place &place, SourceRange range, bool adds,
             llvm::SmallVectorImpl<ast::Stmt *> &) override {
    add(place, range, /*isWrite=*/true, adds);
  }
  void transferred(ast::Expr *call, const Place &place, SourceRange range, bool adds,
                   llvm::SmallVectorImpl<ast::Stmt *> &to) override {
    to.push_back(Make{arena_, range}.statement(call));
    add(place, range, /*isWrite=*/true, adds);
  }

private:
  void add(const Place &place, SourceRange range, bool isWrite, bool adds) {
    Access access;
    access.tensor = place.tensor;
    access.body = body_;
    access.position = accesses.size();
    access.isWrite = isWrite;
    access.adds = adds;
    access.isRemote = place.rank != nullptr;
    access.along = place.rank ? axisOf(place.rank) : llvm::StringRef();
    access.isConditional =
        llvm::any_of(scopes_, [](const Scope &scope) { return scope.isConditional; });
    access.range = range;
    access.extents = extentsOf(place);
    if (place.rank != nullptr)
      access.place = textOf(place.rank);
    if (place.slice != nullptr)
      for (const ast::Expr *index : place.slice->indices)
        access.place += "," + textOf(index);
    for (const Extent &extent : access.extents)
      access.bounds.push_back(
          extent.kind == Extent::Kind::BlockOfPart
              ? boundOf(extent.part, variables_,
                        [&](llvm::StringRef axis) { return numRanks(joint_, range, axis); })
              : nullptr);
    accesses.push_back(std::move(access));
  }
};

/// What the signal of a tensor is called.
struct SignalNames {
  llvm::StringRef here;
  llvm::StringRef elsewhere;
};

/// Who writes a tensor.
struct Writers {
  bool arePlans = false;
  bool areKernels = false;
};

// Second walk: puts in waits and notifies.
class Emitter : public BodyWalk {
public:
  Emitter(Joint &joint, llvm::ArrayRef<Published> tensors, const Values &lets,
          llvm::ArrayRef<Cells> cells, llvm::ArrayRef<SignalNames> names,
          llvm::ArrayRef<Writers> writers)
      : BodyWalk(joint, tensors, lets), cells_(cells), names_(names), writers_(writers),
        fresh_(joint.top) {}

  ast::Role *emit(const Body &body, size_t number) {
    fresh_ = joint_.top;
    fresh_.take(namesIn(*body.role));
    return walk(body, number);
  }

protected:
  ast::Expr *read(const ast::Expr &e, const Place &place) override {
    const Make make{arena_, e.range};
    const bool isElsewhere = place.rank != nullptr;
    llvm::SmallVector<ast::Expr *, 4> indices;
    if (isElsewhere)
      indices.push_back(expr(cells_[place.tensor].along.empty()
                                 ? place.rank
                                 : llvm::cast<ast::CallExpr>(place.rank)->args.front().value));
    indices.append(
        cellIndices(joint_, cells_[place.tensor], extentsOf(place), e.range, isElsewhere, lets_));
    if (!isElsewhere && isBetween(place.tensor))
      waitForAll(make, indices);
    const SignalNames &names = names_[place.tensor];
    ast::Expr *cells = make.index(make.name(isElsewhere ? names.elsewhere : names.here), indices);
    const llvm::StringRef token = waitFor(make, cells);
    return make.after(accessCopied(e), token);
  }

  void wrote(const Place &place, SourceRange range, bool,
             llvm::SmallVectorImpl<ast::Stmt *> &to) override {
    notify(place, range, {}, to);
  }

  void transferred(ast::Expr *call, const Place &place, SourceRange range, bool,
                   llvm::SmallVectorImpl<ast::Stmt *> &to) override {
    const Make make{arena_, range};
    const Cells &cells = cells_[place.tensor];
    const bool isOfData = llvm::any_of(scopes_, [](const Scope &scope) { return scope.isOfData; });
    if (!cells.isReadHere || cells.isReadElsewhere || isOfData) {
      to.push_back(make.await(call));
      return notify(place, range, {}, to);
    }
    const llvm::StringRef token = fresh_.make("sent");
    to.push_back(make.let(token, call));
    notify(place, range, token, to);
  }

  // Where others tell chunks apart, `put(a[:], x[r, :])` goes chunk by chunk.
  ast::Stmt *inChunks(const ast::CallExpr &call) override {
    const std::optional<Place> place = placeOf(call.args[1].value);
    const auto *source = llvm::dyn_cast<ast::IndexExpr>(call.args[0].value);
    if (!place || place->slice == nullptr || source == nullptr)
      return nullptr;
    const std::vector<Extent> extents = extentsOf(*place);
    for (const Cell &cell : cells_[place->tensor].cells) {
      const bool isAsked = cell.isAskedHere || cell.isAskedElsewhere;
      if (!isAsked || cell.extent.kind != Extent::Kind::Block ||
          extents[cell.dim].kind != Extent::Kind::Whole || cell.dim >= place->slice->indices.size())
        continue;
      if (const std::optional<size_t> dim = matching(*source, extents, cell.dim))
        return chunked(call, *place, *source, cell, *dim);
    }
    return nullptr;
  }

private:
  // Whether a plan brings what the kernel's body reads, or a kernel makes what the plan's reads.
  bool isBetween(size_t tensor) const {
    const Writers &writers = writers_[tensor];
    return joint_.waits != nullptr && tensors_[tensor].isJoined &&
           (stage_ == nullptr ? !writers.areKernels : !writers.arePlans);
  }

  void waitForAll(const Make &make, llvm::MutableArrayRef<ast::Expr *> indices) {
    for (ast::Expr *&index : indices) {
      joint_.waits->differ |= !isWhole(index);
      if (joint_.waits->areForAll)
        index = make.whole();
    }
  }

  // The dimension of the source that a dimension of the target is copied from: positions aside,
  // they are the same in number and order. Nothing where the source is cut there.
  std::optional<size_t> matching(const ast::IndexExpr &source, llvm::ArrayRef<Extent> target,
                                 unsigned dim) const {
    const auto isCopied = [](const Extent &extent) {
      return extent.kind != Extent::Kind::Position;
    };
    const auto wanted = llvm::count_if(target.take_front(dim), isCopied);
    ptrdiff_t seen = 0;
    for (const auto &[i, index] : llvm::enumerate(source.indices)) {
      if (!isCopied(extentOf(index, variables_, lets_)))
        continue;
      if (seen++ == wanted)
        return isWhole(index) ? std::optional(i) : std::nullopt;
    }
    return std::nullopt;
  }

  ast::Stmt *chunked(const ast::CallExpr &call, const Place &place, const ast::IndexExpr &source,
                     const Cell &cell, size_t sourceDim) {
    const Make make{arena_, call.range};
    const llvm::StringRef chunk = fresh_.make("chunk");
    const auto cut = [&](const ast::IndexExpr &slice, size_t dim) {
      llvm::SmallVector<ast::Expr *, 4> indices(slice.indices);
      indices[dim] = make.name(chunk);
      auto *copy = arena_.make<ast::IndexExpr>(slice.range);
      copy->base = slice.base;
      copy->indices = arena_.copy(llvm::ArrayRef<ast::Expr *>(indices));
      return copy;
    };
    llvm::SmallVector<ast::Arg, 3> args(call.args);
    args[0].value = cut(source, sourceDim);
    args[1].value = cut(*place.slice, cell.dim);
    auto *sent = arena_.make<ast::CallExpr>(call.range);
    sent->callee = call.callee;
    sent->args = arena_.copy(llvm::ArrayRef<ast::Arg>(args));
    ast::Stmt *body = make.statement(sent);
    Rewriter plain(arena_);
    ast::Expr *size = plain.expr(tensors_[place.tensor].shape[cell.dim]);
    auto *loop = llvm::cast<ast::ForStmt>(make.loop(chunk, size, body));
    loop->dim.step = plain.expr(cell.extent.step);
    return loop;
  }

  // The block to wait in: the outermost that knows all names of the cells.
  size_t depthFor(const ast::Expr *cells) const {
    size_t depth = nameDepth(cells, {});
    for (size_t i = depth + 1; i < scopes_.size(); ++i)
      if (scopes_[i].isClosed)
        depth = i;
    return depth;
  }

  // The outermost block that knows all names of an expression, but for one of its own.
  size_t nameDepth(const ast::Expr *e, llvm::StringRef own) const {
    struct NameWalker : ast::Walker<NameWalker> {
      using Walker::visit;
      NameWalker(const Variables &variables, llvm::StringRef own)
          : variables(variables), own(own) {}
      bool visit(const ast::NameExpr &e) {
        if (const std::optional<size_t> found =
                e.name == own ? std::nullopt : variables.depthOf(e.name))
          depth =
              std::max(depth, variables.lookup(e.name)->isMutable ? variables.size() - 1 : *found);
        return true;
      }
      const Variables &variables;
      llvm::StringRef own;
      size_t depth = 1;
    } walker(variables_, own);
    walker.Walker::walk(e);
    return walker.depth;
  }

  llvm::StringRef waitFor(const Make &make, ast::Expr *cells) {
    const std::string text = textOf(cells);
    for (const Scope &scope : scopes_)
      if (const auto found = scope.waits.find(text); found != scope.waits.end())
        return found->second;
    Scope &scope = scopes_[depthFor(cells)];
    const llvm::StringRef token = fresh_.make("here");
    scope.out->push_back(make.let(token, make.call("wait", {cells})));
    scope.waits[text] = token;
    return token;
  }

  ast::Stmt *notifyStatement(const Make &make, ast::Expr *cells, llvm::StringRef token) {
    llvm::SmallVector<ast::Arg, 2> args{{{}, cells}};
    if (!token.empty())
      args.push_back({{"after", make.at}, make.name(token)});
    return make.statement(make.call(make.name("notify"), args));
  }

  void notify(const Place &place, SourceRange range, llvm::StringRef token,
              llvm::SmallVectorImpl<ast::Stmt *> &to) {
    const Make make{arena_, range};
    const Cells &cells = cells_[place.tensor];
    const SignalNames &names = names_[place.tensor];
    const std::vector<Extent> extents = extentsOf(place);
    if (cells.isReadHere) {
      ast::Expr *own = make.call("rank");
      ast::Expr *rank = place.rank ? Rewriter(arena_).expr(place.rank) : own;
      ast::Expr *base = make.remote(make.name(names.here), rank);
      ast::Expr *told = make.index(base, cellIndices(joint_, cells, extents, range, false, lets_));
      put(notifyStatement(make, told, token), told, to);
    }
    if (!cells.isReadElsewhere)
      return;
    // Readers on all ranks, or on those of the axis, are told, each in the cells of this rank.
    const llvm::StringRef hop = fresh_.make("to");
    // Along an axis they are told in its order, which needs no arithmetic with coordinates.
    ast::Expr *reader =
        cells.along.empty()
            ? turned(joint_, range, hop)
            : make.call(make.name("rank"), ast::Arg{{cells.along, range}, make.name(hop)});
    ast::Expr *base = make.remote(make.name(names.elsewhere), reader);
    llvm::SmallVector<ast::Expr *, 4> indices{ownRank(joint_, range, cells.along)};
    indices.append(cellIndices(joint_, cells, extents, range, true, lets_));
    ast::Expr *told = make.index(base, indices);
    ast::Stmt *body[] = {notifyStatement(make, told, {})};
    put(make.loop(hop, make.range(make.number(0), numRanks(joint_, range, cells.along)), body),
        told, to, hop);
  }

  // Who reads counts on one notify a body: where data decides how often a statement runs, that
  // stands after what data decides.
  void put(ast::Stmt *notify, const ast::Expr *told, llvm::SmallVectorImpl<ast::Stmt *> &to,
           llvm::StringRef own = {}) {
    const auto first = llvm::find_if(scopes_, [](const Scope &scope) { return scope.isOfData; });
    const size_t depth = size_t(first - scopes_.begin());
    if (depth == 0 || depth == scopes_.size() || nameDepth(told, own) >= depth) {
      to.push_back(notify);
      return;
    }
    Scope &scope = scopes_[depth - 1];
    if (scope.saidBehind.insert(textOf(told)).second)
      scope.behind.push_back(notify);
  }

  llvm::ArrayRef<Cells> cells_;
  llvm::ArrayRef<SignalNames> names_;
  llvm::ArrayRef<Writers> writers_;
  Fresh fresh_;
};

// ---- What cannot be joined ----

class Refusals {
public:
  Refusals(Joint &joint, llvm::ArrayRef<Published> tensors, llvm::ArrayRef<Access> accesses,
           size_t numBodies)
      : joint_(joint), tensors_(tensors), accesses_(accesses), numBodies_(numBodies) {}

  bool run() {
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (!checkTensor(i))
        return false;
    return checkTwice() && checkCircle();
  }

private:
  const Access *find(size_t tensor, bool isWrite) const {
    const auto found = llvm::find_if(accesses_, [&](const Access &access) {
      return access.tensor == tensor && access.isWrite == isWrite;
    });
    return found == accesses_.end() ? nullptr : &*found;
  }

  bool checkTensor(size_t number) {
    const Published &tensor = tensors_[number];
    const Access *write = find(number, true);
    const Access *read = find(number, false);
    if (read != nullptr && write == nullptr) {
      joint_.diags.report(read->range, diag::nothing_publishes, tensor.written)
          .note(tensor.range, diag::note_declared_here, tensor.written);
      return false;
    }
    // By itself, a plan has nobody to read what it brings.
    if (joint_.kernel == nullptr || read != nullptr || write == nullptr)
      return true;
    joint_.diags.report(write->range, diag::nothing_reads, tensor.written)
        .note(tensor.range, diag::note_declared_here, tensor.written);
    return false;
  }

  bool checkTwice() {
    for (size_t i = 0; i < accesses_.size(); ++i)
      for (size_t k = 0; k < i; ++k) {
        const Access &a = accesses_[i];
        const Access &b = accesses_[k];
        if (!a.isWrite || !b.isWrite || a.adds || b.adds || a.tensor != b.tensor ||
            a.body != b.body || a.place != b.place || a.isRemote != b.isRemote)
          continue;
        joint_.diags.report(a.range, diag::published_twice, tensors_[a.tensor].written)
            .note(b.range, diag::note_written_here);
        return false;
      }
    return true;
  }

  // Bodies start whose reads others write that start, or that they wrote before themselves.
  bool checkCircle() {
    std::vector<bool> starts(numBodies_, false);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t body = 0; body < numBodies_; ++body)
        if (!starts[body] && blockedBy(body, starts) == nullptr)
          starts[body] = changed = true;
    }
    for (size_t body = 0; body < numBodies_; ++body)
      if (const Access *access = starts[body] ? nullptr : blockedBy(body, starts)) {
        const Published &tensor = tensors_[access->tensor];
        joint_.diags.report(access->range, diag::plan_in_circle, tensor.written)
            .note(tensor.range, diag::note_declared_here, tensor.written);
        return false;
      }
    return true;
  }

  const Access *blockedBy(size_t body, const std::vector<bool> &starts) const {
    for (const Access &read : accesses_) {
      if (read.body != body || read.isWrite || read.isConditional)
        continue;
      const bool isWritten = llvm::any_of(accesses_, [&](const Access &write) {
        return write.isWrite && write.tensor == read.tensor &&
               (write.body == body ? write.position < read.position : bool(starts[write.body]));
      });
      if (!isWritten)
        return &read;
    }
    return nullptr;
  }

  Joint &joint_;
  llvm::ArrayRef<Published> tensors_;
  llvm::ArrayRef<Access> accesses_;
  size_t numBodies_;
};

ast::Param signalParam(Joint &joint, llvm::StringRef name, SourceRange at,
                       llvm::ArrayRef<ast::Expr *> shape) {
  ast::Param param;
  param.range = at;
  param.name = {name, at};
  param.mode = ast::ParamMode::Symm;
  param.type = joint.arena.makePlain<ast::TypeRef>();
  param.type->range = at;
  param.type->name = {"signal", at};
  param.type->hasShape = true;
  param.type->shape = joint.arena.copy(shape);
  return param;
}

Values letsOf(llvm::ArrayRef<ast::Stmt *> prologue) {
  Values lets;
  for (const ast::Stmt *stmt : prologue)
    if (const auto *let = llvm::dyn_cast<ast::LetStmt>(stmt); let && let->names.size() == 1)
      lets[let->names.front().name] = let->value;
  return lets;
}

} // namespace

bool deriveSignals(Joint &joint, llvm::ArrayRef<Published> tensors,
                   llvm::ArrayRef<ast::Stmt *> prologue, llvm::MutableArrayRef<Body> bodies,
                   llvm::SmallVectorImpl<ast::Param> &signals) {
  const Values lets = letsOf(prologue);
  Collector collector(joint, tensors, lets);
  for (const auto &[i, body] : llvm::enumerate(bodies))
    (void)collector.walk(body, i);
  if (!collector.isGood() || !Refusals(joint, tensors, collector.accesses, bodies.size()).run())
    return false;
  std::vector<Cells> cells;
  std::vector<SignalNames> names;
  for (const auto &[i, tensor] : llvm::enumerate(tensors)) {
    std::optional<Cells> found = cellsOf(joint, tensor, i, collector.accesses, lets);
    if (!found)
      return false;
    const std::string name = tensor.name.str();
    SignalNames signal;
    if (found->isReadHere) {
      signal.here = joint.fresh.make(name + "_ready");
      joint.top.take(signal.here);
      signals.push_back(signalParam(joint, signal.here, tensor.range,
                                    cellShape(joint, *found, tensor, tensor.range, false, lets)));
    }
    if (found->isReadElsewhere) {
      signal.elsewhere = joint.fresh.make(name + "_offered");
      joint.top.take(signal.elsewhere);
      llvm::SmallVector<ast::Expr *, 4> shape{numRanks(joint, tensor.range, found->along)};
      shape.append(cellShape(joint, *found, tensor, tensor.range, true, lets));
      signals.push_back(signalParam(joint, signal.elsewhere, tensor.range, shape));
    }
    names.push_back(signal);
    cells.push_back(std::move(*found));
  }
  std::vector<Writers> writers(tensors.size());
  for (const Access &access : collector.accesses)
    if (access.isWrite)
      (bodies[access.body].stage ? writers[access.tensor].arePlans
                                 : writers[access.tensor].areKernels) = true;
  Emitter emitter(joint, tensors, lets, cells, names, writers);
  for (const auto &[i, body] : llvm::enumerate(bodies))
    body.role = emitter.emit(body, i);
  return true;
}

} // namespace dtile::join
