// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds one kernel for a machine and gives its sizes numbers.
#include "backend/driver/simulate/launch_of.h"

#include "backend/driver/execute/mesh.h"
#include "ir/model/launch_sizes.h"

#include "llvm/ADT/StringExtras.h"

namespace dtile::driver {

using ir::Op;
using ir::OpKind;

namespace {

/// Of one dimension, or a scalar.
constexpr int64_t kLargestSize = int64_t(1) << 40;
constexpr llvm::StringLiteral kRanks = "W";

std::optional<llvm::StringMap<int64_t>> givenSizes(Session &session, int64_t ranks) {
  llvm::StringMap<int64_t> given;
  const auto refuse = [&](const std::string &why) {
    session.diagnostics.report(SourceLoc{}, diag::bad_size, why);
    return std::nullopt;
  };
  for (const auto &[name, value] : session.options.sizes) {
    int64_t number = 0;
    if (llvm::StringRef(value).getAsInteger(10, number) || number < 0 || number > kLargestSize)
      return refuse("wants a number up to " + std::to_string(kLargestSize) + " for `" + name +
                    "`, not `" + value + "`");
    if (name == kRanks && number != ranks)
      return refuse("says that there are " + value + " ranks, and `--mesh` has " +
                    std::to_string(ranks));
    if (name != kRanks)
      given[name] = number;
  }
  return given;
}

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

std::optional<model::KnownSizes> sizesOf(Session &session, Op &kernel,
                                         const llvm::StringMap<int64_t> &given) {
  const auto parameters = parametersOf(kernel);
  const auto refuse = [&](const std::string &why) {
    session.diagnostics.report(SourceLoc{}, diag::bad_size, why);
    return std::nullopt;
  };
  std::vector<std::string> names;
  for (const auto &[name, value] : parameters)
    names.push_back(name);
  for (const auto &one : given)
    if (!llvm::is_contained(names, one.first()))
      return refuse("names `" + one.first().str() + "`; the sizes of the arguments are " +
                    llvm::join(names, ", "));
  model::KnownSizes sizes;
  for (const auto &[name, value] : parameters) {
    const auto it = given.find(name);
    if (it == given.end())
      return refuse("does not say what `" + name + "` is");
    sizes.emplace_back(value, it->second);
  }
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
  auto given = givenSizes(session, ranks);
  if (instances.empty() || !given || !fitMesh(session, *instances.front(), *axes, *given))
    return std::nullopt;
  SimulatedLaunch made;
  made.instance = instances.front();
  made.kernel = kernels.front()->name.name.str();
  made.constants = constantsOf(*made.instance);
  made.cluster = cluster->cluster;
  made.lowered = lowerKernels(session, program, instances);
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
  auto estimate = cluster->target.target->estimate(*made.op, cluster->target.arch);
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
