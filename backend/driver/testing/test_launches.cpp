// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernel calls of tests. Arguments are the `in`, `inout` and `symm` tensors and the scalars, in the
// order of the parameters; what is `out` is the result, and is poisoned before the launch.
#include "backend/driver/testing/test_evaluator.h"

#include "backend/driver/execute/default_arguments.h"
#include "backend/driver/testing/test_requirements.h"

#include "frontend/ast/mesh.h"
#include "frontend/base/check.h"
#include "ir/analysis/agreed_arguments.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

namespace dtile::driver {

namespace {

bool isSignal(const ast::Param &param) { return param.type && param.type->name.name == "signal"; }

bool isUpdated(ast::ParamMode mode) {
  return mode == ast::ParamMode::InOut || mode == ast::ParamMode::Symm;
}

// The low bytes of the element, as a launch takes a scalar.
uint64_t scalarBits(const Array &array) {
  uint64_t bits = 0;
  std::memcpy(&bits, array.data(), array.bytes());
  return bits;
}

// Whether a body learns, by what an atomic gives back, who was there before.
bool dependsOnArrival(ir::Module &module) {
  bool depends = false;
  ir::walk(module.body(),
           [&](ir::Op &op) { depends |= ir::isAtomic(op) && op.result()->hasUses(); });
  return depends;
}

// Whether machines may round operands of its products, or multiply them as they are.
bool multipliesAsTf32(ir::Module &module) {
  bool found = false;
  ir::walk(module.body(),
           [&](ir::Op &op) { found |= op.is(ir::OpKind::Dot) && op.has(ir::attr::precision); });
  return found;
}

} // namespace

struct TestEvaluator::Launch {
  Launch(const ast::CallExpr &call, const ast::KernelDecl &called, const ast::KernelDecl &decl,
         int count)
      : call(call), called(called), decl(decl), count(count) {}

  const ast::CallExpr &call;
  /// The kernel that is called, and the alternative that runs: mostly the same.
  const ast::KernelDecl &called;
  const ast::KernelDecl &decl;
  int count;

  /// Values of the inputs, and for those that the launch updates the variables, by parameter.
  std::vector<std::optional<TestValue>> inputs;
  std::vector<Variable *> variables;

  const sema::KernelInstance *instance = nullptr;
  KernelCode code;
  /// One entry a rank.
  std::vector<SolvedSizes> sizes;
  /// For each parameter and rank: the array that the launch writes (others stay empty).
  std::vector<std::vector<Array>> written;

  [[nodiscard]] llvm::StringRef name() const { return decl.name.name; }
  /// As callers pass it, whatever the alternative would be content with.
  [[nodiscard]] ast::ParamMode modeOf(const ast::Param &param) const {
    for (const ast::Param &one : called.params)
      if (one.name.name == param.name.name)
        return one.mode;
    return param.mode;
  }
  /// Signal cells and scratch objects are the runtime's.
  [[nodiscard]] bool isInput(const ast::Param &param) const {
    const ast::ParamMode mode = modeOf(param);
    return !isSignal(param) && mode != ast::ParamMode::Out && mode != ast::ParamMode::ScratchSymm;
  }
};

TestEvaluator::Result TestEvaluator::backToBack(const ast::CallExpr &e) {
  const auto *launch =
      e.args.size() == 2 ? llvm::dyn_cast<ast::CallExpr>(e.args.back().value) : nullptr;
  if (!launch)
    return fail(e.range, "`back_to_back` takes a number and a launch: `back_to_back(3, k(x))`");
  const auto count = evaluateUniformInt(*e.args.front().value, "the number of launches");
  if (!count)
    return std::nullopt;
  if (*count < 1 || *count > 1'000'000)
    return fail(e.args.front().value->range, "1 to 1000000 launches can follow each other");
  repeat_ = int(*count);
  Result result = evaluateCall(*launch);
  // callKernel takes the number first of all.
  if (std::exchange(repeat_, 1) != 1 && result)
    return fail(launch->range, "only a kernel can be launched back to back");
  return result;
}

namespace {

bool isAlternativeLabel(const ast::Arg &arg) { return arg.label.name == sema::kAlternativeLabel; }

/// A compile-time parameter of that name is the kernel's own.
bool isAlternativeParam(const ast::GenericParam &generic) {
  return generic.name.name == sema::kAlternativeLabel;
}

/// `two_shot` of `all_reduce<alternative = two_shot>`; empty where nothing is pinned.
llvm::StringRef pinnedAlternative(const ast::GenericExpr *generics) {
  if (generics)
    for (const ast::Arg &arg : generics->args)
      if (const auto *name = llvm::dyn_cast<ast::NameExpr>(arg.value);
          name && isAlternativeLabel(arg))
        return name->name;
  return {};
}

} // namespace

TestEvaluator::Result TestEvaluator::callKernel(const ast::CallExpr &e,
                                                const ast::KernelDecl &kernel,
                                                const ast::GenericExpr *generics) {
  const ast::KernelDecl *alternative = library_.alternativeOf(kernel, pinnedAlternative(generics));
  DTILE_CHECK(alternative != nullptr, "sema has seen the names of alternatives");
  Launch launch(e, kernel, *alternative, std::exchange(repeat_, 1));
  if (!requireAllRanks(e.range, "whether a kernel is launched") || !bindArguments(launch) ||
      !instantiate(launch, generics) || !convertArguments(launch) || !solveLaunchSizes(launch) ||
      !checkRequired(launch) || !allocateOutputs(launch) || !runOnExecutor(launch))
    return std::nullopt;
  return finishLaunch(launch);
}

// Arguments.

bool TestEvaluator::bindArguments(Launch &launch) {
  const ast::KernelDecl &kernel = launch.decl;
  launch.inputs.resize(kernel.params.size());
  launch.variables.resize(kernel.params.size());
  size_t next = 0;
  for (const ast::Arg &arg : launch.call.args) {
    size_t index = next;
    if (!arg.label.name.empty()) {
      index = 0;
      while (index < kernel.params.size() && !(kernel.params[index].name.name == arg.label.name &&
                                               launch.isInput(kernel.params[index])))
        ++index;
      if (index == kernel.params.size()) {
        fail(arg.label.range, "`" + launch.name() + "` takes no argument `" + arg.label.name + "`");
        return false;
      }
    } else {
      // What the mesh of the test gives is no argument.
      while (index < kernel.params.size() &&
             (!launch.isInput(kernel.params[index]) ||
              (mesh_.size() > 1 && ast::axisSizedBy(kernel, kernel.params[index]))))
        ++index;
      if (index == kernel.params.size()) {
        const auto inputs = llvm::count_if(
            kernel.params, [&](const ast::Param &param) { return launch.isInput(param); });
        fail(arg.value->range, "`" + launch.name() + "` takes " + llvm::Twine(inputs) +
                                   " arguments: what it reads, in order; outputs are results");
        return false;
      }
      next = index + 1;
    }
    if (launch.inputs[index]) {
      fail(arg.value->range, "`" + kernel.params[index].name.name + "` is given twice");
      return false;
    }
    if (!bindArgument(launch, kernel.params[index], *arg.value))
      return false;
  }
  if (!bindAxes(launch))
    return false;
  for (size_t i = 0; i < kernel.params.size(); ++i)
    // convertArguments has the defaults of scalars.
    if (launch.isInput(kernel.params[i]) && !launch.inputs[i] && !kernel.params[i].init) {
      fail(launch.call.range,
           "argument `" + kernel.params[i].name.name + "` of `" + launch.name() + "` is missing");
      return false;
    }
  return true;
}

/// Gives scalars that are sizes of axes those of the test's mesh.
bool TestEvaluator::bindAxes(Launch &launch) {
  const ast::KernelDecl &kernel = launch.decl;
  const auto *mesh = ast::meshOf(kernel);
  if (mesh_.size() < 2 || !mesh)
    return true;
  if (mesh->axes.size() != mesh_.size()) {
    fail(launch.call.range, "the test has ranks of " + llvm::Twine(mesh_.size()) + " axes, and `" +
                                launch.name() + "` has " + llvm::Twine(mesh->axes.size()));
    return false;
  }
  for (const auto [i, param] : llvm::enumerate(kernel.params)) {
    const auto axis = ast::axisSizedBy(kernel, param);
    if (!axis)
      continue;
    if (launch.inputs[i]) {
      fail(launch.call.range, "`" + param.name.name + "` of `" + launch.name() +
                                  "` is the size of axis `" + mesh->axes[*axis].name.name +
                                  "`, which the ranks of the test give");
      return false;
    }
    launch.inputs[i] = TestValue::number(ranks_, mesh_[*axis]);
  }
  return true;
}

bool TestEvaluator::bindArgument(Launch &launch, const ast::Param &param, const ast::Expr &expr) {
  const size_t index = size_t(&param - launch.decl.params.data());
  Result value = evaluate(expr);
  if (!value)
    return false;
  if (value->isTuple()) {
    fail(expr.range, "an array or a number is needed here");
    return false;
  }
  if (isUpdated(launch.modeOf(param))) {
    const auto *name = llvm::dyn_cast<ast::NameExpr>(&expr);
    Variable *variable = name ? find(name->name) : nullptr;
    if (!variable || !variable->isMutable) {
      fail(expr.range, "`" + param.name.name + "` of `" + launch.name() +
                           "` may be written by the launch; pass a `var` of the test");
      return false;
    }
    if (llvm::is_contained(launch.variables, variable)) {
      fail(expr.range, "one variable cannot stand for two parameters that are written");
      return false;
    }
    launch.variables[index] = variable;
  }
  launch.inputs[index] = std::move(*value);
  return true;
}

std::optional<sema::GenericArgs> TestEvaluator::genericArgs(const ast::KernelDecl &kernel,
                                                            const ast::GenericExpr *generics) {
  sema::GenericArgs args;
  if (!generics)
    return args;
  size_t next = 0;
  for (const ast::Arg &arg : generics->args) {
    if (isAlternativeLabel(arg) && llvm::none_of(kernel.generics, isAlternativeParam))
      continue;
    const ast::GenericParam *param = nullptr;
    if (!arg.label.name.empty()) {
      const auto *it = llvm::find_if(kernel.generics, [&](const ast::GenericParam &generic) {
        return generic.name.name == arg.label.name;
      });
      param = it == kernel.generics.end() ? nullptr : it;
    } else if (next < kernel.generics.size()) {
      param = &kernel.generics[next++];
    }
    if (!param) {
      fail(arg.value->range, "`" + kernel.name.name + "` has no such generic parameter");
      return std::nullopt;
    }
    sema::GenericValue value;
    const llvm::StringRef type = param->type ? param->type->name.name : "";
    if (type == "dtype") {
      const auto dtype = elementType(*arg.value);
      if (!dtype)
        return std::nullopt;
      value.kind = sema::GenericValue::Kind::DType;
      value.dtype = *dtype;
    } else {
      const auto number = evaluateUniformInt(*arg.value, "a generic parameter");
      if (!number)
        return std::nullopt;
      if (type == "bool")
        value.kind = sema::GenericValue::Kind::Bool;
      value.intValue = *number;
    }
    args.named.emplace_back(param->name.name.str(), value);
  }
  return args;
}

bool TestEvaluator::instantiate(Launch &launch, const ast::GenericExpr *generics) {
  auto given = genericArgs(launch.decl, generics);
  if (!given)
    return false;
  std::vector<sema::Program::ArgShape> shapes;
  for (const std::optional<TestValue> &input : launch.inputs) {
    if (!input)
      continue;
    sema::Program::ArgShape &shape = shapes.emplace_back();
    if (!input->isWeak)
      shape.dtype = input->arrays[0]->dtype();
    shape.sizes = input->arrays[0]->shape();
  }
  // What the call says goes before `--const`.
  for (auto &constant : constantsFor(session_, launch.decl).named)
    if (llvm::none_of(given->named, [&](const auto &own) { return own.first == constant.first; }))
      given->named.push_back(std::move(constant));
  sema::Program &program = library_.program();
  sema::GenericArgs args = program.inferGenerics(&launch.decl, shapes, ranks_, std::move(*given));
  const ErrorMark mark(session_);
  for (const auto &[name, value] : library_.chooseFor(launch.decl, args))
    args.chosen.emplace_back(
        name, sema::GenericValue{.kind = sema::GenericValue::Kind::Int, .intValue = value});
  Diagnostics said(session_.sources);
  launch.instance = program.instantiate(&launch.decl, args, launch.call.range, said);
  const bool isFirst = launch.instance || library_.isFirstRefusal(launch.call);
  const bool isNews = llvm::any_of(
      said.all(), [](const Diagnostic &one) { return one.id != diag::instance_has_errors; });
  if (isFirst || isNews)
    session_.diagnostics.append(said);
  if (!launch.instance || mark.failed()) {
    failed_ = true;
    return false;
  }
  const auto code = library_.get(launch.instance);
  if (!code) {
    failed_ = true;
    return false;
  }
  launch.code = *code;
  return true;
}

// Numbers take the type of the parameter; arrays must have it.
bool TestEvaluator::convertArguments(Launch &launch) {
  for (size_t i = 0; i < launch.inputs.size(); ++i) {
    const sema::KernelParam &param = launch.instance->params[i];
    if (!launch.inputs[i]) {
      if (const auto value = defaultArgument(param))
        launch.inputs[i] = TestValue::everywhere(ranks_, *value);
      continue;
    }
    TestValue &value = *launch.inputs[i];
    const DType wanted = param.type->dtype;
    const bool isScalar = param.type->kind == sema::TypeKind::Scalar;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Array &array = *value.arrays[rank];
      if (isScalar && array.rank() != 0) {
        fail(launch.call.range, "`" + param.name + "` of `" + launch.name() +
                                    "` is a number, and an array of sizes " +
                                    sizesText(array.shape()) + " was passed");
        return false;
      }
      if (array.dtype() == wanted)
        continue;
      if (!isScalar && !value.isWeak) {
        fail(launch.call.range, "`" + param.name + "` of `" + launch.name() + "` holds " +
                                    dtypeName(wanted) + ", and an array of " +
                                    dtypeName(array.dtype()) + " was passed; `cast<" +
                                    dtypeName(wanted) + ">(…)` converts");
        return false;
      }
      value.arrays[rank] = share(ndarray::cast(array, wanted));
    }
  }
  return true;
}

// Sizes.

bool TestEvaluator::solveLaunchSizes(Launch &launch) {
  for (int rank = 0; rank < ranks_; ++rank) {
    std::vector<std::optional<Sizes>> passed(launch.inputs.size());
    std::vector<std::optional<int64_t>> scalars(launch.inputs.size());
    for (size_t i = 0; i < passed.size(); ++i) {
      const sema::Type type = launch.instance->params[i].type;
      if (launch.inputs[i] && type->kind != sema::TypeKind::Scalar)
        passed[i] = launch.inputs[i]->arrays[rank]->shape();
      else if (launch.inputs[i] && !isFloat(type->dtype))
        scalars[i] = launch.inputs[i]->arrays[rank]->getInt(0);
    }
    llvm::Expected<SolvedSizes> solved = solveSizes(*launch.instance, passed, scalars, ranks_);
    if (!solved) {
      const std::string why =
          "on rank " + std::to_string(rank) + ", " + llvm::toString(solved.takeError());
      if (capture_) {
        *capture_ = why;
      } else {
        failed_ = true;
        session_.diagnostics.report(launch.call.range, diag::test_cannot_evaluate, why);
      }
      return false;
    }
    launch.sizes.push_back(std::move(*solved));
  }
  for (size_t i = 0; i < launch.instance->params.size(); ++i) {
    if (launch.instance->params[i].mode != ast::ParamMode::Symm || !launch.inputs[i])
      continue;
    for (int rank = 1; rank < ranks_; ++rank)
      if (launch.sizes[rank].params[i] != launch.sizes[0].params[i]) {
        fail(launch.call.range,
             "the sizes of `" + launch.instance->params[i].name + "`, which is symmetric, are " +
                 sizesText(launch.sizes[0].params[i]) + " on rank 0 and " +
                 sizesText(launch.sizes[rank].params[i]) + " on rank " + llvm::Twine(rank));
        return false;
      }
  }
  return true;
}

bool TestEvaluator::checkRequired(Launch &launch) {
  const auto broken = findBrokenClause(*launch.instance, launch.inputs, launch.sizes);
  if (!broken)
    return true;
  if (capture_) {
    *capture_ = "`" + broken->clause->text + "` is required, and on rank " +
                std::to_string(broken->rank) + " " + broken->why;
    return false;
  }
  failed_ = true;
  session_.diagnostics
      .report(launch.call.range, diag::test_requires_failed, launch.name(), broken->clause->text,
              broken->rank, ranks_, broken->why)
      .note(broken->clause->range, diag::note_protocol, "it is required here");
  return false;
}

bool TestEvaluator::allocateOutputs(Launch &launch) {
  constexpr int64_t kMaxBytes = int64_t(2) << 30;
  launch.written.resize(launch.instance->params.size());
  for (size_t i = 0; i < launch.written.size(); ++i) {
    const sema::KernelParam &param = launch.instance->params[i];
    if (!isWritten(param))
      continue;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (launch.inputs[i] && param.mode != ast::ParamMode::Out) {
        launch.written[i].push_back(*launch.inputs[i]->arrays[rank]);
        continue;
      }
      const Sizes &sizes = launch.sizes[rank].params[i];
      const auto count = ndarray::elementCount(sizes);
      if (!count || *count > kMaxBytes / dtypeBytes(param.type->dtype)) {
        fail(launch.call.range, ndarray::noRoom("output `" + param.name + "` of sizes " +
                                                sizesText(sizes) + " is too large"));
        return false;
      }
      if (llvm::Error error = ndarray::checkRoom(param.type->dtype, sizes)) {
        fail(launch.call.range,
             ndarray::noRoom("output `" + param.name + "`: " + llvm::toString(std::move(error))));
        return false;
      }
      launch.written[i].push_back(ndarray::poison(param.type->dtype, sizes));
    }
  }
  return true;
}

// Running.

/// What ranks must pass alike, as it says how often they notify each other.
bool TestEvaluator::checkAgreed(const Launch &launch, const RankArgs &args) {
  ir::Op *kernel = launch.code.module->lookup(launch.instance->name);
  if (!kernel)
    return true;
  // Arguments are in the order of parameters.
  std::vector<int64_t> positions;
  for (const ir::Op &op : kernel->body().ops())
    if (op.is(ir::OpKind::ScalarParam) ||
        (op.is(ir::OpKind::Param) && op.get(ir::attr::mode) != ir::ParamMode::Scratch))
      positions.push_back(op.get(ir::attr::param));
  llvm::sort(positions);
  for (const ir::Op *op : ir::agreedArguments(*kernel)) {
    const size_t index = llvm::lower_bound(positions, op->get(ir::attr::param)) - positions.begin();
    const bool isScalar = op->is(ir::OpKind::ScalarParam);
    const auto numberOf = [&](int rank) {
      const HostArg &arg = args[rank][index];
      return isScalar ? int64_t(arg.scalarBits) : arg.sizes[op->get(ir::attr::dim)];
    };
    for (int rank = 1; rank < ranks_; ++rank)
      if (numberOf(rank) != numberOf(0)) {
        const std::string name =
            isScalar ? op->get(ir::attr::name).str() : op->result()->nameHint().str();
        fail(launch.call.range, "`" + name + "` of `" + launch.name() + "` is " +
                                    llvm::Twine(numberOf(0)) + " on rank 0 and " +
                                    llvm::Twine(numberOf(rank)) + " on rank " + llvm::Twine(rank) +
                                    ": ranks count each other's notifies by it, so it must be "
                                    "the same on all of them");
        return false;
      }
  }
  return true;
}

bool TestEvaluator::runOnExecutor(Launch &launch) {
  llvm::Expected<LoadedKernel *> kernel = executor_.load(launch.code);
  if (!kernel) {
    failed_ = true;
    session_.diagnostics.report(launch.call.range, diag::build_failed,
                                llvm::toString(kernel.takeError()));
    return false;
  }
  RankArgs args(ranks_);
  for (int rank = 0; rank < ranks_; ++rank)
    for (size_t i = 0; i < launch.instance->params.size(); ++i) {
      const sema::KernelParam &param = launch.instance->params[i];
      if (!isLaunchArgument(param))
        continue;
      HostArg &arg = args[rank].emplace_back();
      arg.dtype = param.type->dtype;
      if (param.type->kind == sema::TypeKind::Scalar) {
        arg.scalarBits = scalarBits(*launch.inputs[i]->arrays[rank]);
        continue;
      }
      arg.sizes = launch.sizes[rank].params[i];
      // Executors write only what isWritten.
      arg.data = isWritten(param) ? launch.written[i][rank].data()
                                  : const_cast<void *>(launch.inputs[i]->arrays[rank]->data());
    }
  if (!checkAgreed(launch, args))
    return false;
  LaunchResult result = (*kernel)->launch(args, launch.count);
  if (result.failure.empty()) {
    LaunchRecord &record = launches_.emplace_back();
    record.kernel = launch.instance;
    record.seconds = result.seconds;
    const std::vector<sema::SizeSymbol> &symbols = launch.instance->symbols;
    for (size_t i = 0; i < symbols.size(); ++i)
      if (const auto value = launch.sizes[0].symbols[i])
        record.sizes.emplace_back(symbols[i].name, *value);
    for (const HostArg &arg : args.front())
      record.bytes += int64_t(arg.bytes());
    return true;
  }
  executor_.reset();
  if (capture_) {
    *capture_ = std::move(result.failure);
    return false;
  }
  failed_ = true;
  session_.diagnostics.report(launch.call.range, diag::test_launch_failed, launch.name(),
                              executor_.name(), ranks_, result.failure);
  return false;
}

// Two executors may round differently, so that floats agree as promises do; less so what may follow
// from a product of tf32, of this launch or of one before it. Where the program itself depends on
// who comes first, only its expectations tell right from wrong.
void TestEvaluator::compareWithOther(const Launch &launch) {
  hasTf32_ |= multipliesAsTf32(*launch.code.module);
  const size_t index = launches_.size() - 1;
  if (!other_ || index >= other_->size() || dependsOnArrival(*launch.code.module))
    return;
  const LaunchRecord &other = (*other_)[index];
  if (other.kernel != launch.instance)
    return;
  for (size_t i = 0; i < launch.written.size(); ++i)
    for (int rank = 0; rank < ranks_ && !launch.written[i].empty(); ++rank) {
      const ndarray::Comparison comparison =
          compareLoosely(launch.written[i][rank], *other.written[i][rank],
                         hasTf32_ ? tf32Tolerance() : Tolerance());
      if (comparison.equal())
        continue;
      failed_ = true;
      session_.diagnostics.report(launch.call.range, diag::test_executors_differ,
                                  launch.instance->params[i].name, launch.name(), rank,
                                  executor_.name(), otherName_, comparison.text());
      break;
    }
}

TestEvaluator::Result TestEvaluator::finishLaunch(Launch &launch) {
  compareWithOther(launch);
  std::vector<TestValue> written(launch.instance->params.size());
  TestValue outputs;
  LaunchRecord &record = launches_.back();
  record.written.resize(written.size());
  for (size_t i = 0; i < written.size(); ++i) {
    if (launch.written[i].empty())
      continue;
    for (Array &array : launch.written[i])
      written[i].arrays.push_back(share(std::move(array)));
    record.written[i] = written[i].arrays;
    if (launch.variables[i])
      launch.variables[i]->value = written[i];
    else
      outputs.tuple.push_back(written[i]);
  }
  promise(launch, written);
  if (outputs.tuple.size() == 1)
    return std::move(outputs.tuple.front());
  return outputs;
}

// What the kernel promises speaks of its parameters as they are afterwards, its sizes and generics.
void TestEvaluator::promise(const Launch &launch, llvm::ArrayRef<TestValue> written) {
  if (launch.decl.ensures.empty())
    return;
  Scope names;
  std::map<std::string, DType> types;
  for (size_t i = 0; i < launch.instance->generics.size(); ++i) {
    const std::string name = launch.decl.generics[i].name.name.str();
    const sema::GenericValue &value = launch.instance->generics[i];
    if (value.kind == sema::GenericValue::Kind::DType)
      types[name] = value.dtype;
    else
      names[name].value = TestValue::number(ranks_, value.intValue);
  }
  for (size_t i = 0; i < launch.instance->symbols.size(); ++i) {
    TestValue value = TestValue::number(ranks_, 0);
    for (int rank = 0; rank < ranks_; ++rank)
      value.arrays[rank] = share(Array::fromInts({}, {launch.sizes[rank].symbols[i].value_or(0)}));
    names[launch.instance->symbols[i].name].value = std::move(value);
  }
  for (size_t i = 0; i < launch.instance->params.size(); ++i) {
    if (!written[i].arrays.empty())
      names[launch.instance->params[i].name].value = written[i];
    else if (launch.inputs[i])
      names[launch.instance->params[i].name].value = *launch.inputs[i];
  }
  checkEnsures(*launch.instance, launch.call, std::move(names), std::move(types));
}

} // namespace dtile::driver
