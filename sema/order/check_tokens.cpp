// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Completion tokens are linear: each is used exactly once on every path, so nothing that was sent
// is forgotten and nothing is waited for twice. Acquire tokens order at least one operation. One
// walk over each body, with the state of every token variable; branches are compared where they
// meet, loop bodies with what they started from.
#include "sema/checker.h"
#include "sema/order/read_fix.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::sema {

namespace {

struct TokenState {
  enum class Kind : uint8_t {
    /// Holds a token that must still be used.
    Live,
    /// Was used, at `place`.
    Used,
    /// Reported: says no more.
    Poisoned,
  } kind = Kind::Live;
  /// Live: what made the token. Used: the use.
  SourceRange place;
  /// Live: it is `done`, of which nothing is forgotten where another one takes its place.
  bool isDone = false;
};

class TokenChecker {
public:
  TokenChecker(Context &context, const KernelInstance &kernel)
      : context_(context), kernel_(kernel) {}

  void checkSpace(const TSpace &space) {
    states_.clear();
    acquires_.clear();
    for (const Variable *joined : space.joined)
      states_[joined] = {TokenState::Kind::Live, joined->range};
    walk(space.body);
    for (const Variable *joined : space.joined)
      expectUsed(joined, nullptr);
    for (const auto &[variable, used] : acquires_)
      if (!used) {
        DiagBuilder report =
            context_.report(variable->range, diag::acquire_orders_nothing, variable->name);
        noteUnorderedRead(report, kernel_);
        orderReads(report, context_.sources, kernel_, space, variable);
      }
  }

private:
  using States = llvm::MapVector<const Variable *, TokenState>;

  void walk(const TBlock &block) {
    llvm::SmallVector<std::pair<const Variable *, const TStmt *>, 8> declared;
    for (const TStmt *s : block) {
      statement(s);
      if (s->kind == TStmtKind::Let)
        for (const Variable *variable : s->vars)
          if (states_.count(variable))
            declared.push_back({variable, s});
    }
    for (auto [variable, let] : declared) {
      expectUsed(variable, let);
      states_.erase(variable);
    }
  }

  void expectUsed(const Variable *variable, const TStmt *let) {
    const TokenState &state = states_[variable];
    // One without a name has been reported, and nothing could use it.
    if (state.kind != TokenState::Kind::Live || variable->name.empty())
      return;
    auto message = context_.report(state.place, diag::token_dropped);
    if (!let || variable->isMutable)
      message.note(variable->range, diag::note_token_is_called, variable->name);
    // What is not named again can be awaited where it is made.
    if (let && !variable->isMutable && let->values.size() == 1 &&
        let->values[0]->range == state.place)
      message.fix({let->range.begin, state.place.begin}, "await ");
  }

  void statement(const TStmt *s) {
    seen_.clear();
    for (const TExpr *e : s->values)
      expression(e);
    for (const TExpr *e : s->after)
      expression(e);
    for (const TExpr *e : {s->target, s->lo, s->hi, s->step, s->condition})
      expression(e);
    for (const IndexItem &index : s->indices)
      expression(index.value);
    switch (s->kind) {
    case TStmtKind::Let:
    case TStmtKind::Assign:
      return bind(s);
    case TStmtKind::Eval:
      return evaluated(s->values[0]);
    case TStmtKind::If:
      return branches(s);
    case TStmtKind::For:
    case TStmtKind::While:
      return loop(s);
    default:
      return;
    }
  }

  void bind(const TStmt *s) {
    for (const Variable *variable : s->vars) {
      if (variable->type->kind == TypeKind::Acquire)
        acquires_.insert({variable, false});
      if (variable->type->kind != TypeKind::Token)
        continue;
      TokenState &state = states_[variable];
      const bool overwrites =
          s->kind == TStmtKind::Assign && state.kind == TokenState::Kind::Live && !state.isDone;
      if (overwrites)
        context_.report(s->range, diag::token_overwritten, variable->name)
            .note(state.place, diag::note_token_made_here);
      state = {TokenState::Kind::Live, s->values[0]->range,
               s->values[0]->kind == TExprKind::TokenDone};
    }
  }

  void evaluated(const TExpr *e) {
    if (e->type->kind == TypeKind::Token)
      context_.report(e->range, diag::token_dropped)
          .fix({e->range.begin, e->range.begin}, "await ");
    else if (e->type->kind == TypeKind::Acquire)
      context_.report(e->range, diag::wait_orders_nothing)
          .fix({e->range.begin, e->range.begin}, "await ");
  }

  void expression(const TExpr *e) {
    if (!e)
      return;
    if (e->kind == TExprKind::VarRef) {
      use(e);
      return;
    }
    for (const TExpr *operand : e->operands)
      expression(operand);
    for (const IndexItem &index : e->indices)
      expression(index.value);
    expression(e->signal);
    expression(e->count);
  }

  void use(const TExpr *e) {
    if (e->var->type->kind == TypeKind::Acquire) {
      acquires_[e->var] = true;
      return;
    }
    // A token attached to several reads by one `after` is one node.
    if (e->var->type->kind != TypeKind::Token || !seen_.insert(e).second)
      return;
    TokenState &state = states_[e->var];
    if (state.kind == TokenState::Kind::Used) {
      context_.report(e->range, diag::token_used_twice, e->var->name)
          .note(state.place, diag::note_first_use);
      state.kind = TokenState::Kind::Poisoned;
    } else if (state.kind == TokenState::Kind::Live) {
      state = {TokenState::Kind::Used, e->range};
    }
  }

  void branches(const TStmt *s) {
    const States before = states_;
    walk(s->body);
    States afterThen = std::move(states_);
    states_ = before;
    walk(s->otherwise);
    for (auto &[variable, state] : states_) {
      const TokenState &other = afterThen[variable];
      if (state.kind == other.kind) {
        if (state.isDone)
          state = other;
        continue;
      }
      if (state.kind == TokenState::Kind::Poisoned || other.kind == TokenState::Kind::Poisoned) {
        state.kind = TokenState::Kind::Poisoned;
        continue;
      }
      const bool usedHere = state.kind == TokenState::Kind::Used;
      context_.report(s->range, diag::token_on_one_path, variable->name)
          .note(usedHere ? state.place : other.place, diag::note_used_on_this_path)
          .note(usedHere ? other.place : state.place, diag::note_token_made_here);
      state.kind = TokenState::Kind::Poisoned;
    }
  }

  void loop(const TStmt *s) {
    // The second iteration finds what the first one has left.
    for (auto &[variable, state] : states_)
      state.isDone = false;
    const States before = states_;
    walk(s->body);
    for (auto &[variable, state] : states_) {
      const TokenState &start = before.find(variable)->second;
      if (state.kind == start.kind || state.kind == TokenState::Kind::Poisoned)
        continue;
      if (state.kind == TokenState::Kind::Used)
        // The second iteration would use it again, and without iterations nobody would.
        context_.report(state.place, diag::token_consumed_in_loop, variable->name)
            .note(start.place, diag::note_token_made_here)
            .note(state.place, diag::note_dtile_form,
                  "`await " + variable->name + ";` before the loop is before all of it");
      else
        context_.report(state.place, diag::token_dropped)
            .note(variable->range, diag::note_token_is_called, variable->name);
      state.kind = TokenState::Kind::Poisoned;
    }
  }

  Context &context_;
  const KernelInstance &kernel_;
  States states_;
  // Acquire variables and whether they order something.
  llvm::MapVector<const Variable *, bool> acquires_;
  // Uses of tokens in this statement.
  llvm::SmallPtrSet<const TExpr *, 8> seen_;
};

} // namespace

void checkTokens(Context &context, const KernelInstance &kernel) {
  TokenChecker checker(context, kernel);
  for (const TSpace &space : kernel.spaces)
    checker.checkSpace(space);
}

} // namespace dtile::sema
