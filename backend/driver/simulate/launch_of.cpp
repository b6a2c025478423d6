// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds one kernel for a machine and gives its sizes numbers.
#include "backend/driver/simulate/launch_of.h"

#include "backend/driver/choose/given_launch.h"
#include "backend/driver/execute/mesh.h"
#include "ir/model/launch_sizes.h"

#include "llvm/ADT/StringExtras.h"

namespace dtile::driver {

using ir::Op;
using ir::OpKind;

namespace {

/// The sizes and scalars that a launch is made of, by name.
std::vector<std::pair<std::string, ir::Value *>> parametersOf(Op &kernel) {
  std::vector<std::pair<std::string, ir::Value *>> found;
  for (ir::Value *size : model::freeSizes(kernel))
    found.emplace_back(size->nameHint().str(), size);
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::ScalarParam) && op.result()->hasUses() &&
        !isFloat(op.result()->type().elementOrIndex()))
      found.emplace_back(op.get(ir::attr::name).str(), op.result());
  return found;
}

std::optional<model::KnownSizes> sizesOf(Session &session, Op &kernel, const GivenLaunch &given) {
  const auto parameters = parametersOf(kernel);
  std::vector<std::string> names;
  for (const auto &[name, value] : parameters)
    names.push_back(name);
  const auto numbers = sizesIn(session, given, names);
  if (!numbers)
    return std::nullopt;
  model::KnownSizes sizes;
  for (const auto &[parameter, number] : llvm::zip_equal(parameters, *numbers))
    sizes.emplace_back(parameter.second, number);
  return sizes;
}

/// What callers owe, as far as sizes decide it.
bool keepsRequirements(Session &session, Op &kernel, const model::KnownSizes &sizes,
                       int64_t ranks) {
  model::LaunchSizes known(ranks);
  for (const auto &[value, number] : sizes)
    known.set(*value, number);
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::LaunchRequire) && known.number(*op.operand(0)).value_or(1) == 0) {
      session.diagnostics.report(op.loc(), diag::launch_not_owed, op.get(ir::attr::text));
      return false;
    }
  return true;
}

std::string constantsOf(const sema::KernelInstance &instance) {
  std::string text;
  for (const auto &[generic, value] : llvm::zip(instance.decl->generics, instance.generics))
    if (value.kind == sema::GenericValue::Kind::Int)
      text += (text.empty() ? "" : " ") + generic.name.name.str() + "=" +
              std::to_string(value.intValue);
  return text;
}

/// Reports where `--sizes` and `--mesh` disagree.
bool haveSameRanks(Session &session, const GivenLaunch &given, int64_t ranks) {
  if (given.ranks.value_or(ranks) == ranks)
    return true;
  session.diagnostics.report(SourceLoc{}, diag::bad_size,
                             "says that there are " + std::to_string(*given.ranks) +
                                 " ranks, and `--mesh` has " + std::to_string(ranks));
  return false;
}

/// The variant that such a launch takes, by the model; that of the kernel's text where the model
/// says nothing. Null after reporting.
const sema::KernelInstance *fastestVariant(Session &session, sema::Program &program,
                                           const ast::KernelDecl &kernel, const TargetArch &target,
                                           const GivenLaunch &given, int64_t ranks) {
  const Choosing choosing = choose(session, program, kernel, constantsFor(session, kernel), target);
  const auto sizes = choosing.kept.empty() ? std::nullopt : sizesIn(session, given, choosing.sizes);
  if (!sizes)
    return nullptr;
  const Variant *usual = &choosing.possible[choosing.kept.front()];
  // Nobody was asked for sizes where there is one variant.
  if (usual->constants.empty())
    return usual->instance;
  const std::vector<Timed> timed =
      timeKept(session, program, choosing, target, *sizes, ranks, given.numbers);
  return timed.empty() ? usual->instance : timed.front().variant->instance;
}

} // namespace

std::optional<SimulatedLaunch> launchOf(Session &session, sema::Program &program) {
  const auto axes = parseMesh(session, session.options.mesh);
  const auto cluster = axes ? findCluster(session, *axes) : std::nullopt;
  const auto kernels = selectKernels(session, program);
  if (!cluster || kernels.empty())
    return std::nullopt;
  if (kernels.size() > 1) {
    std::vector<std::string> names;
    for (const ast::KernelDecl *kernel : kernels)
      names.push_back(kernel->name.name.str());
    session.diagnostics.report(SourceLoc{}, diag::which_kernel, llvm::join(names, ", "));
    return std::nullopt;
  }
  const auto instances = instantiateKernels(session, program, kernels);
  const int64_t ranks = cluster->cluster.ranks;
  if (instances.empty())
    return std::nullopt;
  auto given = givenLaunch(session, *instances.front());
  if (!given || !haveSameRanks(session, *given, ranks) ||
      !fitMesh(session, *instances.front(), *axes, given->numbers))
    return std::nullopt;
  SimulatedLaunch made;
  made.isChosen = haveChoices(session, program, kernels);
  made.instance = made.isChosen ? fastestVariant(session, program, *kernels.front(),
                                                 cluster->target, *given, ranks)
                                : instances.front();
  if (!made.instance)
    return std::nullopt;
  made.kernel = kernels.front()->name.name.str();
  made.constants = constantsOf(*made.instance);
  made.cluster = cluster->cluster;
  made.lowered = lowerKernels(session, program, made.instance);
  if (!made.lowered.module || !optimize(session, made.lowered, session.options.optLevel))
    return std::nullopt;
  made.module = prepareFor(session.diagnostics, *made.lowered.module, cluster->target);
  if (!made.module)
    return std::nullopt;
  for (Op &op : made.module->body().ops())
    if (op.is(OpKind::Kernel))
      made.op = &op;
  const auto sizes = sizesOf(session, *made.op, *given);
  if (!sizes || !keepsRequirements(session, *made.op, *sizes, ranks))
    return std::nullopt;
  const auto refuse = [&](SourceLoc loc, const std::string &why) {
    session.diagnostics.report(loc.isValid() ? loc : made.op->loc(), diag::cannot_simulate,
                               made.kernel, why);
    return std::nullopt;
  };
  auto estimate = cluster->target.target->estimate(*made.op, cluster->target.facts());
  auto shares = estimate->share(*sizes, ranks);
  if (!shares)
    return refuse({}, "its sizes do not say how many bodies its spaces have");
  auto launch = simulate::Launch::make(*made.op, *sizes, made.cluster, std::move(*shares));
  if (const auto *obstacle = std::get_if<simulate::Obstacle>(&launch))
    return refuse(obstacle->loc, obstacle->why);
  made.launch = std::move(std::get<std::unique_ptr<simulate::Launch>>(launch));
  return made;
}

} // namespace dtile::driver
