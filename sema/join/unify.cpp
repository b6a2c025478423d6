// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which parameters a clause joins, and which sizes and types follow from that.
#include "sema/join/joint.h"
#include "sema/join/make.h"
#include "sema/join/rewriter.h"

#include "frontend/ast/mesh.h"
#include "frontend/ast/source_printer.h"
#include "frontend/base/dtype.h"

#include "llvm/Support/raw_ostream.h"

namespace dtile::join {

namespace {

class Resolver : public Rewriter {
public:
  Resolver(const Joint &joint, SourceRange at) : Rewriter(joint.arena), joint_(joint) {
    place_ = at;
  }

protected:
  ast::Expr *replaced(const ast::Expr &e) override {
    if (const ast::Expr *value = joint_.values.lookup(nameOf(&e)))
      return expr(value);
    return nullptr;
  }

private:
  const Joint &joint_;
};

const ast::Param *paramOf(llvm::ArrayRef<ast::Param> params, llvm::StringRef name) {
  const auto *found =
      llvm::find_if(params, [&](const ast::Param &param) { return param.name.name == name; });
  return found == params.end() ? nullptr : found;
}

class Unifier {
public:
  Unifier(Joint &joint, Stage &stage)
      : joint_(joint), stage_(stage), clause_(*stage.clause),
        planParam_(stage.plan->params[stage.tensor]) {}

  bool run() {
    kernelParam_ = paramOf(joint_.kernel->params, clause_.tensor.name);
    return checkModes() && unifyType() && adapt() && unifySizes();
  }

private:
  bool checkModes() {
    const ast::ParamMode wanted = clause_.isProducer ? ast::ParamMode::Out : ast::ParamMode::In;
    const llvm::StringRef arrow = clause_.isProducer ? "->" : "<-";
    if (kernelParam_->mode == wanted)
      return true;
    joint_.diags
        .report(clause_.tensor.range, diag::join_mode, clause_.tensor.name,
                ast::spelling(kernelParam_->mode), arrow, ast::spelling(wanted))
        .note(kernelParam_->range, diag::note_declared_here, clause_.tensor.name);
    return false;
  }

  // The plan's name of its element type, as it is in the joined kernel.
  llvm::StringRef renamed(llvm::StringRef name) const {
    const auto found = stage_.renames.find(name);
    return found == stage_.renames.end() ? name : found->second;
  }

  bool unifyType() {
    const llvm::StringRef inPlan = planParam_.type->name.name;
    const llvm::StringRef inKernel = kernelParam_->type->name.name;
    if (isTypeOfPlan(inPlan)) {
      const Make make{joint_.arena, clause_.range};
      if (renamed(inPlan) != inKernel)
        joint_.values[renamed(inPlan)] = make.name(inKernel);
      return true;
    }
    if (inPlan == inKernel)
      return true;
    joint_.diags.report(clause_.range, diag::join_types, clause_.tensor.name, inKernel, inPlan)
        .note(kernelParam_->range, diag::note_declared_here, kernelParam_->name.name)
        .note(planParam_.range, diag::note_declared_here, planParam_.name.name);
    return false;
  }

  // A compile-time parameter, or a name that only the plan's types have.
  bool isTypeOfPlan(llvm::StringRef name) const {
    return !dtypeFromName(name) && name != "signal" && name != "token" && name != "dtype";
  }

  // Compares dimensions, and finds what a plan for matrices is for other tensors.
  bool adapt() {
    const auto kernelDims = kernelParam_->type->shape;
    const auto planDims = planParam_.type->shape;
    const auto ranks =
        planDims.size() > 1 ? ranksCountedBy(planDims.front()) : std::optional<llvm::StringRef>();
    stage_.hasParts = ranks && !(kernelDims.size() == planDims.size() &&
                                 ranksCountedBy(kernelDims.front()) == ranks);
    along_ = ranks.value_or("");
    stage_.planDims = unsigned(planDims.size()) - (stage_.hasParts ? 1 : 0);
    if (stage_.axis >= std::max<size_t>(kernelDims.size(), 1)) {
      joint_.diags.report(clause_.range, diag::join_axis, clause_.tensor.name,
                          kernelDims.size() - 1);
      return false;
    }
    const size_t behind = kernelDims.size() - stage_.axis;
    if (stage_.axis == 0 && behind == stage_.planDims)
      return true;
    const auto data = planDims.drop_front(stage_.hasParts ? 1 : 0);
    const bool canAdapt = stage_.hasParts && !data.empty() && !nameOf(data.front()).empty() &&
                          (behind == data.size() || data.size() == 1 ||
                           (data.size() == 2 && !nameOf(data.back()).empty()));
    if (!canAdapt) {
      joint_.diags
          .report(clause_.range, diag::join_dimensions, clause_.tensor.name, kernelDims.size(),
                  planDims.size())
          .note(kernelParam_->range, diag::note_declared_here, kernelParam_->name.name)
          .note(planParam_.range, diag::note_declared_here, planParam_.name.name);
      return false;
    }
    stage_.partName = nameOf(data.front());
    for (ast::Expr *dim : kernelDims.take_front(stage_.axis))
      stage_.leading.push_back(dim);
    if (behind != data.size()) {
      stage_.restName = data.size() == 2 ? nameOf(data.back()) : llvm::StringRef();
      stage_.rest.emplace();
      for (ast::Expr *dim : kernelDims.drop_front(stage_.axis + 1))
        stage_.rest->push_back(dim);
    }
    return true;
  }

  // The size of the plan with the names that the joined kernel has.
  ast::Expr *planSize(const ast::Expr *size) {
    class Renamer : public Rewriter {
    public:
      Renamer(const Joint &joint, const Stage &stage) : Rewriter(joint.arena), stage_(stage) {}

    protected:
      ast::Expr *replaced(const ast::Expr &e) override {
        const auto found = stage_.renames.find(nameOf(&e));
        return found == stage_.renames.end() ? nullptr : Make{arena_, e.range}.name(found->second);
      }

    private:
      const Stage &stage_;
    };
    return Renamer(joint_, stage_).expr(size);
  }

  bool unifySizes() {
    const auto kernelDims = kernelParam_->type->shape;
    const auto data = planParam_.type->shape.drop_front(stage_.hasParts ? 1 : 0);
    if (stage_.hasParts && !unifyParts(kernelDims[stage_.axis], planSize(data.front())))
      return false;
    if (stage_.isAdapted() && stage_.rest)
      return true;
    const unsigned behind = stage_.axis + (stage_.hasParts ? 1 : 0);
    for (size_t i = behind; i < kernelDims.size(); ++i)
      if (!unifySize(unsigned(i), kernelDims[i], planSize(data[i - stage_.axis])))
        return false;
    return true;
  }

  // A size that nothing is known about yet.
  bool isFree(const ast::Expr *size, bool ofPlan) const {
    const llvm::StringRef name = nameOf(size);
    if (name.empty() || joint_.values.contains(name))
      return false;
    if (!ofPlan)
      return joint_.kernelNames.sizes.contains(name);
    return llvm::any_of(stage_.names.sizes,
                        [&](const auto &entry) { return renamed(entry.first()) == name; });
  }

  void define(const ast::Expr *size, const ast::Expr *value) {
    joint_.values[nameOf(size)] = resolved(joint_, value, clause_.range);
  }

  // `M` of the kernel is a part of `size` for each rank.
  bool unifyParts(const ast::Expr *whole, const ast::Expr *size) {
    const Make make{joint_.arena, clause_.range};
    ast::Expr *ranks = numRanks(joint_, clause_.range, along_);
    if (isFree(whole, /*ofPlan=*/false)) {
      ast::Expr *part = resolved(joint_, size, clause_.range);
      joint_.values[nameOf(whole)] = make.binary(ast::BinaryOp::Mul, ranks, part);
      return addParted(whole, part);
    }
    const ast::Expr *known = resolved(joint_, whole, clause_.range);
    if (const auto *product = llvm::dyn_cast<ast::BinaryExpr>(known);
        product && product->op == ast::BinaryOp::Mul && ranksCountedBy(product->lhs) == along_) {
      if (isFree(size, /*ofPlan=*/true))
        define(size, product->rhs);
      if (isSame(size, product->rhs, joint_.values))
        return addParted(whole, resolved(joint_, size, clause_.range));
    }
    return reportSize(
        stage_.axis, whole,
        make.binary(ast::BinaryOp::Mul, ranks, resolved(joint_, size, clause_.range)));
  }

  bool addParted(const ast::Expr *whole, ast::Expr *part) {
    joint_.parted.push_back(
        {clause_.tensor.name, stage_.axis, along_, whole, part, clause_.range, clause_.isProducer});
    return true;
  }

  bool unifySize(unsigned dim, const ast::Expr *inKernel, const ast::Expr *inPlan) {
    if (isSame(inKernel, inPlan, joint_.values))
      return true;
    if (isFree(inPlan, /*ofPlan=*/true)) {
      define(inPlan, inKernel);
      return true;
    }
    if (isFree(inKernel, /*ofPlan=*/false)) {
      define(inKernel, inPlan);
      return true;
    }
    // All ranks' parts of one size are parts of one size.
    const ast::BinaryExpr *known = partsOfRanks(resolved(joint_, inKernel, clause_.range));
    const ast::BinaryExpr *planned = partsOfRanks(inPlan);
    if (known && planned && ranksCountedBy(known->lhs) == ranksCountedBy(planned->lhs) &&
        isFree(planned->rhs, /*ofPlan=*/true)) {
      define(planned->rhs, known->rhs);
      return true;
    }
    return reportSize(dim, inKernel, inPlan);
  }

  // `W * S`, or null.
  static const ast::BinaryExpr *partsOfRanks(const ast::Expr *size) {
    const auto *product = llvm::dyn_cast<ast::BinaryExpr>(size);
    return product && product->op == ast::BinaryOp::Mul && ranksCountedBy(product->lhs) ? product
                                                                                        : nullptr;
  }

  bool reportSize(unsigned dim, const ast::Expr *inKernel, const ast::Expr *inPlan) {
    joint_.diags
        .report(clause_.range, diag::join_sizes, dim, clause_.tensor.name,
                textOf(resolved(joint_, inKernel, clause_.range)),
                textOf(resolved(joint_, inPlan, clause_.range)))
        .note(kernelParam_->range, diag::note_declared_here, kernelParam_->name.name)
        .note(planParam_.range, diag::note_declared_here, planParam_.name.name);
    return false;
  }

  Joint &joint_;
  Stage &stage_;
  const ast::OverlapJoin &clause_;
  const ast::Param &planParam_;
  const ast::Param *kernelParam_ = nullptr;
  // The axis that ranks of the plan count along; empty where they are all.
  llvm::StringRef along_;
};

} // namespace

ast::Expr *numRanks(const Joint &joint, SourceRange at, llvm::StringRef along) {
  const Make make{joint.arena, at};
  if (!along.empty())
    return make.call("num_ranks", {make.name(along)});
  return joint.kernelNames.declares("W") ? make.call("num_ranks") : make.name("W");
}

ast::CallExpr *ownRank(const Joint &joint, SourceRange at, llvm::StringRef along) {
  const Make make{joint.arena, at};
  return along.empty() ? make.call("rank") : make.call("rank", {make.name(along)});
}

ast::Expr *turned(const Joint &joint, SourceRange at, llvm::StringRef hop, llvm::StringRef along) {
  const Make make{joint.arena, at};
  return make.binary(ast::BinaryOp::Rem,
                     make.binary(ast::BinaryOp::Add, ownRank(joint, at, along), make.name(hop)),
                     numRanks(joint, at, along));
}

std::optional<llvm::StringRef> ranksCountedBy(const ast::Expr *e) {
  if (nameOf(e) == "W")
    return llvm::StringRef();
  const auto *call = llvm::dyn_cast_or_null<ast::CallExpr>(e);
  if (call == nullptr || nameOf(call->callee) != "num_ranks")
    return std::nullopt;
  const ast::NameExpr *axis = ast::axisNamedBy(call);
  if (axis == nullptr)
    return call->args.empty() ? std::optional(llvm::StringRef()) : std::nullopt;
  return axis->name;
}

ast::Expr *resolved(const Joint &joint, const ast::Expr *e, SourceRange at) {
  return Resolver(joint, at).expr(e);
}

bool unify(Joint &joint) {
  for (Stage &stage : joint.stages)
    if (!Unifier(joint, stage).run())
      return false;
  return true;
}

} // namespace dtile::join
