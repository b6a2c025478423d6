// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remote references, transfers, atomics, signals and their order.
#include "sema/checker.h"
#include "sema/join/make.h"
#include "sema/tree/walk.h"

namespace dtile::sema {

// ---- Order ----

unsigned Checker::attachAfter(TExpr *e, TExpr *token) {
  unsigned count = 0;
  if (touchesMemory(e->kind)) {
    e->operands.push_back(token);
    ++count;
  }
  // The positions that it reads to know where count, too.
  const auto isOrder = [](const TExpr *operand) {
    return operand->type->kind == TypeKind::Token || operand->type->kind == TypeKind::Acquire;
  };
  for (size_t i = 0; i < e->operands.size(); ++i)
    if (!isOrder(e->operands[i]))
      count += attachAfter(e->operands[i], token);
  for (const IndexItem &index : e->indices)
    if (index.value)
      count += attachAfter(index.value, token);
  return count;
}

TExpr *Checker::withToken(TExpr *region, TExpr *token, SourceRange range) {
  TExpr *load = region;
  if (region->kind != TExprKind::Load) {
    attachAfter(region, token);
    load = ctx.makeExpr(TExprKind::Load, region->type, range);
    load->operands.push_back(region);
  }
  load->range = range;
  load->operands.push_back(token);
  return load;
}

TExpr *Checker::afterExpr(const ast::AfterExpr *e) {
  TExpr *result = expr(e->value);
  TExpr *order = token(e->token);
  if (result->type->kind == TypeKind::Error || order->type->kind == TypeKind::Error)
    return error(e->range);
  if (result->type->kind == TypeKind::Region)
    return withToken(result, order, e->range);
  if (attachAfter(result, order) == 0) {
    // A store of a plain value orders itself.
    if (allowPlainAfter == e) {
      plainAfter.push_back(order);
      return result;
    }
    report(e->range, diag::after_orders_nothing).note(result->range, diag::note_reads_nothing);
    return error(e->range);
  }
  return result;
}

void Checker::afterArgs(const CallSite &site, llvm::SmallVectorImpl<TExpr *> &tokens) {
  for (const ast::Arg &arg : site.args) {
    if (arg.label.name != "after")
      continue;
    TExpr *order = token(arg.value);
    if (order->type->kind != TypeKind::Error)
      tokens.push_back(order);
  }
}

// ---- Remote references ----

TExpr *Checker::remoteExpr(const ast::RemoteExpr *e) {
  // `a @ b` of tiles is a product elsewhere.
  const auto *name = llvm::dyn_cast<ast::NameExpr>(e->rank);
  const Symbol *symbol = name ? lookup(name->name) : nullptr;
  const bool isTensor =
      symbol &&
      (symbol->kind == Symbol::Kind::Param
           ? kernel->params[symbol->index].type->kind == TypeKind::Region
           : symbol->kind == Symbol::Kind::Local && symbol->var->type->kind == TypeKind::Tile);
  if (isTensor && symbol->kind == Symbol::Kind::Param &&
      isInteger(kernel->params[symbol->index].type->dtype)) {
    // `box@dest[t]` takes all of `dest` for the rank.
    report(e->rank->range, diag::type_mismatch, "the number of a rank",
           typeText(kernel->params[symbol->index].type))
        .note(e->rank->range, diag::note_dtile_form,
              ("an element of `" + name->name + "` stands in parentheses: `" +
               ctx.sources.text(e->base->range) + "@(" + name->name + "[…])`")
                  .str());
    return error(e->range);
  }
  if (isTensor) {
    const habits::FormInfo &row = habits::info(habits::Form::MatrixProduct);
    report(e->range, diag::foreign_form, row.shown, row.advice);
    return error(e->range);
  }
  TExpr *base = expr(e->base);
  TExpr *rank = position(e->rank);
  if (rank->coordinate.axis != 0 && mesh.size() > 1) {
    const llvm::StringRef axis = mesh[rank->coordinate.axis - 1].name.name;
    const SourceRange at = e->rank->range;
    const std::string meant = (axis + ": " + ctx.sources.text(at)).str();
    report(at, diag::coordinate_is_no_rank, axis)
        .note(at, diag::note_did_you_mean, "@(" + meant + ")");
    return error(e->range);
  }
  const TypeKind kind = base->type->kind;
  if (kind == TypeKind::Error || rank->type->kind == TypeKind::Error)
    return error(e->range);
  const bool isObject = kind == TypeKind::Region || kind == TypeKind::Signal;
  if (!isObject || base->type->remote || base->kind == TExprKind::Load) {
    report(e->range, diag::not_an_object, typeText(base->type));
    return error(e->range);
  }
  if (!checkSymmetric(base, e->range))
    return error(e->range);
  TypeData data = *base->type;
  data.remote = true;
  const Type type = kind == TypeKind::Signal ? types.signal(data.rank(), true) : types.region(data);
  TExpr *remote = ctx.makeExpr(TExprKind::Remote, type, e->range);
  remote->operands = {base, rank};
  return remote;
}

// ---- Transfers ----

// `x[i]`, or with tiles of integers in the brackets: x, of which `indexed` names elements.
TExpr *Checker::indexedTarget(const ast::IndexExpr *e, Indexed &indexed) {
  TExpr *base = expr(e->base);
  const bool isRegion = base->type->kind == TypeKind::Region && base->kind != TExprKind::Load &&
                        base->type->rank() == e->indices.size();
  if (!isRegion)
    return slice(base, e->indices, e->range);
  llvm::SmallVector<IndexItem, 4> items;
  if (!indexItems(base, e->indices, e->range, items, indexed.isGiven))
    return error(e->range);
  if (!indexed.isGiven)
    return sliceOf(base, items, e->range);
  indexed.items = items;
  return gatherIndices(base, indexed.items, e->range, indexed.shape) ? base : error(e->range);
}

TExpr *Checker::destination(const ast::Expr *e, llvm::StringRef use, Indexed *indexed) {
  const auto *index = llvm::dyn_cast<ast::IndexExpr>(e);
  const ast::Expr *object = index ? index->base : nullptr;
  while (const auto *remote = llvm::dyn_cast_if_present<ast::RemoteExpr>(object))
    object = remote->base;
  const bool isNamed = indexed && llvm::isa_and_present<ast::NameExpr>(object);
  TExpr *target = isNamed ? indexedTarget(index, *indexed) : expr(e);
  if (target->type->kind == TypeKind::Error)
    return target;
  if (target->type->kind != TypeKind::Region || target->kind == TExprKind::Load) {
    auto message = report(e->range, diag::not_a_destination, use, typeText(target->type));
    if (target->kind == TExprKind::Gather)
      message.note(e->range, diag::note_dtile_form,
                   ("what a tile names is stored, `" + ctx.sources.text(e->range) +
                    " = …;`, or each by itself in a loop over single positions")
                       .str());
    else if (target->kind == TExprKind::VarRef)
      message.note(target->var->range, diag::note_is_a_copy, target->var->name);
    else if (target->type->kind == TypeKind::Signal)
      message.note(e->range, diag::note_dtile_form,
                   "a signal is counted by `notify(s[i], by: n)`, or by `put(x, y, signal: s[i])`");
    return error(e->range);
  }
  return checkWritable(target, e->range) ? target : error(e->range);
}

TExpr *Checker::transferSource(const ast::Expr *e, llvm::SmallVectorImpl<TExpr *> &tokens) {
  TExpr *source = expr(e);
  if (source->type->kind != TypeKind::Region) {
    if (source->type->isValue() || source->type->kind == TypeKind::Error)
      return source;
    report(e->range, diag::type_mismatch, "a region or a value", typeText(source->type));
    return error(e->range);
  }
  // `x after t`: the transfer as a whole is after t.
  if (source->kind == TExprKind::Load) {
    tokens.append(source->operands.begin() + 1, source->operands.end());
    source = source->operands[0];
  }
  return checkReadable(source, e->range) ? source : error(e->range);
}

// Whether the shapes of what is sent and where it goes agree, as far as they are known. Sizes that
// are not are compared at run time.
bool Checker::checkTransfer(TExpr *&source, TExpr *target, SourceRange range) {
  const Type from = source->type;
  const Type to = target->type;
  bool fits = from->rank() == to->rank();
  for (unsigned i = 0; fits && i < from->rank(); ++i)
    fits = from->shape[i] == to->shape[i] || from->shape[i] == kDynamic || to->shape[i] == kDynamic;
  if (!fits) {
    report(range, diag::transfer_shape_mismatch, shapeText(from->shape), shapeText(to->shape))
        .note(source->range, diag::note_has_type, typeText(from))
        .note(target->range, diag::note_has_type, typeText(to));
    return false;
  }
  if (from->dtype == to->dtype)
    return true;
  if (from->kind == TypeKind::Region && from->isStatic())
    source = toValue(source);
  if (source->type->isValue()) {
    source = convert(source, withDType(source->type, to->dtype), source->range);
    return source->type->kind != TypeKind::Error;
  }
  reportDTypes(range, source, target);
  return false;
}

/// `put(box@r[:], x[:])`, with the destination first as other libraries have it.
bool Checker::isTurnedPut(const CallSite &site) {
  const auto whole = [](const ast::Expr *e) {
    while (const auto *index = llvm::dyn_cast<ast::IndexExpr>(e))
      e = index->base;
    return e;
  };
  const ast::Expr *first = whole(positional(site, 0)), *second = whole(positional(site, 1));
  const auto *name = llvm::dyn_cast<ast::NameExpr>(second);
  const Symbol *symbol = name && kernel ? lookup(name->name) : nullptr;
  const bool isInput = symbol && symbol->kind == Symbol::Kind::Param &&
                       kernel->params[symbol->index].mode == ast::ParamMode::In;
  if (!llvm::isa<ast::RemoteExpr>(first) || !isInput)
    return false;
  report(second->range, diag::write_to_input, name->name)
      .note(site.range, diag::note_dtile_form,
            "the source comes first: `put(source, destination)`");
  return true;
}

TExpr *Checker::callPut(const CallSite &site) {
  if (!checkArgs(site, 2, 2, {"after", "signal"}) || !noGenerics(site) || !noShape(site) ||
      isTurnedPut(site))
    return error(site.range);
  llvm::SmallVector<TExpr *, 2> tokens;
  TExpr *source = transferSource(positional(site, 0), tokens);
  TExpr *target = destination(positional(site, 1), "put");
  afterArgs(site, tokens);
  TExpr *signal = nullptr;
  if (const ast::Expr *cells = labelled(site, "signal"))
    signal = signalCells(cells, "put");
  if (source->type->kind == TypeKind::Error || target->type->kind == TypeKind::Error ||
      (signal && signal->type->kind == TypeKind::Error) ||
      !checkTransfer(source, target, site.range))
    return error(site.range);
  TExpr *put = ctx.makeExpr(TExprKind::Put, types.token(), site.range);
  put->operands = {source, target};
  put->operands.append(tokens.begin(), tokens.end());
  put->signal = signal;
  return put;
}

TExpr *Checker::callGet(const CallSite &site) {
  if (!checkArgs(site, 2, 2, {"after"}) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  llvm::SmallVector<TExpr *, 2> tokens;
  TExpr *source = transferSource(positional(site, 0), tokens);
  TExpr *target = destination(positional(site, 1), "get");
  afterArgs(site, tokens);
  if (source->type->kind == TypeKind::Error || target->type->kind == TypeKind::Error)
    return error(site.range);
  if (source->type->kind != TypeKind::Region) {
    report(source->range, diag::type_mismatch, "a region", typeText(source->type));
    return error(site.range);
  }
  if (target->type->remote) {
    report(target->range, diag::get_into_remote);
    return error(site.range);
  }
  if (source->type->dtype != target->type->dtype) {
    reportDTypes(site.range, source, target);
    return error(site.range);
  }
  if (!checkTransfer(source, target, site.range))
    return error(site.range);
  TExpr *get = ctx.makeExpr(TExprKind::Get, types.token(), site.range);
  get->operands = {source, target};
  get->operands.append(tokens.begin(), tokens.end());
  return get;
}

// Of a region whose length data decides, in as many loops as it has such dimensions:
//   let source = x[a..b]; let target = y[c..d]; var all = done;
//   for block in 0..b - a by B { all = all & reduce_add(source[block], target[block]); }
TExpr *Checker::addInBlocks(const CallSite &site, const TExpr *source) {
  constexpr int64_t kMostElements = 1024, kMostRows = 128, kMostOfSeveral = 32;
  const auto *size = llvm::find(source->type->shape, kDynamic);
  int64_t others = 1;
  for (const int64_t one : source->type->shape)
    others *= one == kDynamic ? 1 : std::max<int64_t>(one, 1);
  const ast::Expr *from = positional(site, 0), *to = positional(site, 1);
  // Names with a space are nobody's.
  constexpr llvm::StringLiteral kSource = "added source", kTarget = "added target",
                                kAll = "added all";
  constexpr llvm::StringLiteral kBlocks[] = {"added block 0", "added block 1", "added block 2",
                                             "added block 3", "added block 4", "added block 5"};
  const bool isPlain = llvm::isa<ast::IndexExpr>(from) && llvm::isa<ast::IndexExpr>(to) &&
                       labelled(site, "after") == nullptr &&
                       source->type->rank() <= std::size(kBlocks);
  if (!isPlain) {
    report(source->range, diag::dynamic_region_as_value,
           unsigned(size - source->type->shape.begin()), shapeText(source->type->shape))
        .note(site.range, diag::note_dtile_form,
              "it is added in blocks: `for k in a..b by 128 { await reduce_add(x[k], y[k]); }`");
    return error(site.range);
  }
  const join::Make make{ctx.arena, site.range};
  const auto isCut = [&](unsigned dim) { return source->type->shape[dim] == kDynamic; };
  const auto part = [&](llvm::StringRef region) {
    llvm::SmallVector<ast::Expr *, 4> indices(source->type->rank(), nullptr);
    for (unsigned d = 0; d < indices.size(); ++d)
      indices[d] = isCut(d) ? make.name(kBlocks[d]) : make.whole();
    return make.index(make.name(region), indices);
  };
  const auto length = [&](llvm::StringRef region, unsigned dim) {
    const ast::Arg number{{}, make.number(dim)};
    return make.call(make.member(make.name(region), "dim"), number);
  };
  auto *all = ctx.arena.make<ast::VarStmt>(site.range);
  all->name = {kAll, site.range};
  all->value = make.name("done");
  auto *join = ctx.arena.make<ast::AssignStmt>(site.range);
  join->target = make.name(kAll);
  join->value = make.binary(ast::BinaryOp::BitAnd, make.name(kAll),
                            make.call("reduce_add", {part(kSource), part(kTarget)}));
  ast::Stmt *body = join;
  const bool isOne = llvm::count(source->type->shape, kDynamic) == 1;
  // The last dimension is the innermost loop, and has the longest blocks.
  for (unsigned dim = source->type->rank(); dim-- > 0;) {
    if (!isCut(dim))
      continue;
    auto *loop = llvm::cast<ast::ForStmt>(
        make.loop(kBlocks[dim], make.range(make.number(0), length(kSource, dim)), {body}));
    const int64_t step =
        std::clamp<int64_t>(kMostElements / others, 1, isOne ? kMostRows : kMostOfSeveral);
    loop->dim.step = make.number(uint64_t(step));
    others *= step;
    body = loop;
  }
  scope.push();
  statements({make.let(kSource, const_cast<ast::Expr *>(from)),
              make.let(kTarget, const_cast<ast::Expr *>(to)), all, body});
  TExpr *token = expr(make.name(kAll));
  leaveScope();
  return token;
}

TExpr *Checker::callReduceAdd(const CallSite &site) {
  if (!checkArgs(site, 2, 2, {"after"}) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  llvm::SmallVector<TExpr *, 2> tokens;
  TExpr *source = expr(positional(site, 0));
  if (source->type->kind == TypeKind::Region && !source->type->isStatic())
    return addInBlocks(site, source);
  source = toValue(source);
  if (!source->type->isValue() && source->type->kind != TypeKind::Error) {
    report(source->range, diag::type_mismatch, "a value", typeText(source->type));
    source = error(source->range);
  }
  Indexed indexed;
  TExpr *target = destination(positional(site, 1), "reduce_add", &indexed);
  afterArgs(site, tokens);
  if (indexed.isGiven && source->type->kind != TypeKind::Error &&
      target->type->kind != TypeKind::Error)
    source =
        convert(source, valueType(target->type->dtype, indexed.shape, site.range), source->range);
  if (source->type->kind == TypeKind::Error || target->type->kind == TypeKind::Error ||
      (!indexed.isGiven && !checkTransfer(source, target, site.range)))
    return error(site.range);
  if (target->type->dtype == DType::Bool) {
    report(site.range, diag::operator_not_defined, "reduce_add", typeText(target->type));
    return error(site.range);
  }
  TExpr *add = ctx.makeExpr(TExprKind::ReduceAdd, types.token(), site.range);
  add->operands = {source, target};
  add->operands.append(tokens.begin(), tokens.end());
  add->indices.append(indexed.items.begin(), indexed.items.end());
  return add;
}

// ---- Atomics ----

/// `order: acq_rel`, a word and no value.
std::optional<AtomicOrder> Checker::atomicOrder(const CallSite &site) {
  constexpr std::pair<llvm::StringLiteral, AtomicOrder> kOrders[] = {
      {"relaxed", AtomicOrder::Relaxed},
      {"acquire", AtomicOrder::Acquire},
      {"release", AtomicOrder::Release},
      {"acq_rel", AtomicOrder::AcqRel}};
  const ast::Expr *given = labelled(site, "order");
  if (!given)
    return AtomicOrder::Relaxed;
  if (const auto *word = llvm::dyn_cast<ast::NameExpr>(given))
    for (const auto &[text, order] : kOrders)
      if (text == word->name)
        return order;
  report(given->range, diag::unknown_atomic_order);
  return std::nullopt;
}

TExpr *Checker::atomicCall(const CallSite &site, AtomicKind kind) {
  const unsigned count = kind == AtomicKind::Cas ? 3 : 2;
  if (!checkArgs(site, count, count, {"after", "order"}) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  const std::optional<AtomicOrder> order = atomicOrder(site);
  if (!order)
    return error(site.range);
  llvm::SmallVector<TExpr *, 2> tokens;
  Indexed indexed;
  TExpr *target = destination(positional(site, 0), site.name, &indexed);
  llvm::SmallVector<TExpr *, 2> values;
  for (unsigned i = 1; i < count; ++i)
    values.push_back(value(positional(site, i)));
  afterArgs(site, tokens);
  if (target->type->kind == TypeKind::Error || !checkReadable(target, target->range))
    return error(site.range);
  if (target->type->rank() != 0 && !indexed.isGiven) {
    auto message =
        report(target->range, diag::atomic_needs_element, site.name, typeText(target->type));
    if (kind == AtomicKind::Add)
      message.note(site.range, diag::note_dtile_form,
                   "a tile is added element by element by `reduce_add(t, x[m, n])`, which gives a "
                   "token");
    return error(site.range);
  }
  const DType dtype = target->type->dtype;
  const bool isBitwise = kind == AtomicKind::And || kind == AtomicKind::Or;
  if (dtype == DType::Bool || (isBitwise && !isInteger(dtype))) {
    report(site.range, diag::operator_not_defined, site.name, dtypeName(dtype));
    return error(site.range);
  }
  const Type type =
      indexed.isGiven ? valueType(dtype, indexed.shape, site.range) : types.scalar(dtype);
  for (TExpr *&operand : values) {
    operand = convert(operand, type, operand->range);
    if (operand->type->kind == TypeKind::Error)
      return error(site.range);
  }
  TExpr *atomic = ctx.makeExpr(TExprKind::Atomic, type, site.range);
  atomic->indices.append(indexed.items.begin(), indexed.items.end());
  atomic->atomic = kind;
  atomic->atomicOrder = *order;
  atomic->operands.push_back(target);
  atomic->operands.append(values.begin(), values.end());
  atomic->operands.append(tokens.begin(), tokens.end());
  return atomic;
}

TExpr *Checker::callFetchAdd(const CallSite &site) { return atomicCall(site, AtomicKind::Add); }
TExpr *Checker::callFetchMin(const CallSite &site) { return atomicCall(site, AtomicKind::Min); }
TExpr *Checker::callFetchMax(const CallSite &site) { return atomicCall(site, AtomicKind::Max); }
TExpr *Checker::callFetchAnd(const CallSite &site) { return atomicCall(site, AtomicKind::And); }
TExpr *Checker::callFetchOr(const CallSite &site) { return atomicCall(site, AtomicKind::Or); }
TExpr *Checker::callExchange(const CallSite &site) { return atomicCall(site, AtomicKind::Exch); }
TExpr *Checker::callCompareExchange(const CallSite &site) {
  return atomicCall(site, AtomicKind::Cas);
}

// ---- Signals ----

TExpr *Checker::signalCells(const ast::Expr *e, llvm::StringRef use) {
  TExpr *cells = expr(e);
  if (cells->type->kind == TypeKind::Error)
    return cells;
  if (cells->type->kind != TypeKind::Signal) {
    auto message = report(e->range, diag::not_a_signal, use, typeText(cells->type));
    if (const ast::Param *param = rootParam(cells))
      message.note(param->range, diag::note_declared_here, param->name.name);
    else if (cells->type->kind == TypeKind::Token)
      message.note(e->range, diag::note_dtile_form, "`await t;` waits for a transfer");
    return error(e->range);
  }
  if (cells->kind == TExprKind::Slice || cells->type->rank() == 0)
    return cells;
  std::string all = "[:";
  for (unsigned i = 1; i < cells->type->rank(); ++i)
    all += ", :";
  auto message = report(e->range, diag::signal_index_count, cells->type->rank(), 0u);
  if (const ast::Param *param = rootParam(cells))
    message.note(param->range, diag::note_declared_here, param->name.name);
  message.fix({e->range.end, e->range.end}, all + "]");
  return error(e->range);
}

TExpr *Checker::callWait(const CallSite &site) {
  if (!checkArgs(site, 1, 1, {"count"}) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *cells = signalCells(positional(site, 0), "wait");
  TExpr *count = nullptr;
  if (const ast::Expr *given = labelled(site, "count")) {
    count = position(given);
    if (count->type->kind == TypeKind::Error)
      return count;
    if (count->kind == TExprKind::Const && int64_t(count->bits) < 1) {
      report(given->range, diag::wait_count_not_positive, int64_t(count->bits));
      return error(site.range);
    }
  }
  if (cells->type->kind == TypeKind::Error)
    return error(site.range);
  if (cells->type->remote) {
    report(cells->range, diag::wait_on_remote);
    return error(site.range);
  }
  TExpr *wait = ctx.makeExpr(TExprKind::Wait, types.acquire(), site.range);
  wait->operands.push_back(cells);
  wait->count = count;
  return wait;
}

// These stand as statements: the statement is made here, and the expression has no value.
TExpr *Checker::callNotify(const CallSite &site) {
  if (!checkArgs(site, 1, 1, {"after", "by"}) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *cells = signalCells(positional(site, 0), "notify");
  llvm::SmallVector<TExpr *, 2> tokens;
  afterArgs(site, tokens);
  const ast::Expr *by = labelled(site, "by");
  TExpr *count = by ? position(by) : nullptr;
  if (cells->type->kind == TypeKind::Error || (count && count->type->kind == TypeKind::Error))
    return error(site.range);
  if (count && count->kind == TExprKind::Const && int64_t(count->bits) <= 0) {
    report(by->range, diag::step_not_positive, int64_t(count->bits));
    return error(site.range);
  }
  if (count)
    return notifyBy(site, cells, count, tokens);
  TStmt *notify = emit(TStmtKind::Notify, site.range);
  if (notify) {
    notify->target = cells;
    notify->after.append(tokens.begin(), tokens.end());
  }
  return noValue(notify, site.range);
}

// `notify(s, by: n)` is n notifies, once what it is after is complete: so the checker counts them
// as it counts those of a loop.
TExpr *Checker::notifyBy(const CallSite &site, TExpr *cells, TExpr *count,
                         llvm::ArrayRef<TExpr *> tokens) {
  if (!tokens.empty())
    if (TStmt *await = emit(TStmtKind::Await, site.range))
      await->after.append(tokens.begin(), tokens.end());
  hoistIndices(cells);
  TBlock body;
  {
    Restore<TBlock *> sink(block, &body);
    if (block)
      emit(TStmtKind::Notify, site.range)->target = cells;
  }
  TStmt *loop = emit(TStmtKind::For, site.range);
  if (loop) {
    const Type type = types.scalar(DType::I64);
    loop->vars.push_back(ctx.makeVariable("turn", type, site.range, /*isMutable=*/false));
    loop->lo = intConst(0, site.range);
    loop->hi = count;
    loop->step = intConst(1, site.range);
    loop->body = std::move(body);
  }
  return noValue(loop, site.range);
}

TExpr *Checker::syncCall(const CallSite &site, BuiltinId id) {
  if (!checkArgs(site, 0, 0) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TStmt *sync = emit(TStmtKind::Sync, site.range);
  if (sync)
    sync->builtin = id;
  return noValue(sync, site.range);
}

TExpr *Checker::callQuiet(const CallSite &site) { return syncCall(site, BuiltinId::Quiet); }
TExpr *Checker::callFence(const CallSite &site) { return syncCall(site, BuiltinId::Fence); }
TExpr *Checker::callBarrier(const CallSite &site) {
  if (site.args.empty())
    return syncCall(site, BuiltinId::Barrier);
  // Those along an axis have become signals where they stand in a kernel of a mesh.
  if (const std::optional<size_t> axis = axisArgument(site))
    report(site.range, diag::barrier_of_axis, mesh[*axis].name.name,
           "it is a statement of a kernel's body");
  return error(site.range);
}

// `print("a", x, "b", y + 1)`: a line a value, called by the text before it, or as it is written.
TExpr *Checker::callPrint(const CallSite &site) {
  if (!checkArgs(site, 1, 16) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  std::string label;
  bool hasLabel = false;
  TStmt *last = nullptr;
  const auto show = [&](TExpr *shown, llvm::StringRef name) {
    last = emit(TStmtKind::Print, site.range);
    if (!last)
      return;
    last->message = name.str();
    if (shown)
      last->values.push_back(shown);
  };
  for (const ast::Arg &arg : site.args) {
    if (const auto *text = llvm::dyn_cast<ast::StringLit>(arg.value)) {
      if (hasLabel)
        show(nullptr, label);
      label = text->value.str();
      hasLabel = true;
      continue;
    }
    TExpr *shown = value(arg.value);
    if (shown->type->kind == TypeKind::Error)
      return error(site.range);
    if (shown->type->kind != TypeKind::Scalar && shown->type->kind != TypeKind::Tile) {
      report(arg.value->range, diag::type_mismatch, "a scalar or a tile", typeText(shown->type));
      return error(site.range);
    }
    show(shown, hasLabel ? llvm::StringRef(label) : ctx.sources.text(arg.value->range));
    hasLabel = false;
  }
  if (hasLabel)
    show(nullptr, label);
  return noValue(last, site.range);
}

TExpr *Checker::callAssert(const CallSite &site) {
  if (site.args.empty() || site.args.size() > 2 || !site.args[0].label.name.empty()) {
    report(site.range, diag::wrong_argument_count, "assert", "1 to 2 arguments", site.args.size());
    return error(site.range);
  }
  TExpr *holds = condition(site.args[0].value);
  std::string message = "assertion failed: " + ctx.sources.text(site.args[0].value->range).str();
  if (site.args.size() == 2) {
    const auto *text = llvm::dyn_cast<ast::StringLit>(site.args[1].value);
    if (!text) {
      report(site.args[1].value->range, diag::needs_string, "assert");
      return error(site.range);
    }
    message = text->value.str();
  }
  if (holds->type->kind == TypeKind::Error)
    return error(site.range);
  TStmt *assertion = emit(TStmtKind::Assert, site.range);
  if (assertion) {
    assertion->condition = holds;
    assertion->message = message;
  }
  return noValue(assertion, site.range);
}

} // namespace dtile::sema
