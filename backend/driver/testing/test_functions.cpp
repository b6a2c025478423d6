// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the program that a test calls itself. Each call is a kernel that the interpreter
// runs on all ranks, whatever the test's launches run on: there is one meaning of a function.
#include "backend/driver/testing/test_evaluator.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::driver {

namespace {

/// What the checker has to know of an argument.
sema::FunctionCall::Arg describe(const ast::Arg &arg, const TestValue &value, int rank) {
  const Array &array = *value.arrays[rank];
  sema::FunctionCall::Arg result;
  result.label = arg.label;
  result.range = arg.value->range;
  result.dtype = array.dtype();
  result.sizes = array.shape();
  result.isLiteral = value.isWeak && array.rank() == 0;
  if (!result.isLiteral)
    return result;
  if (isFloat(array.dtype()))
    result.real = array.getDouble(0);
  else
    result.integer = array.getInt(0);
  return result;
}

} // namespace

std::optional<std::vector<sema::FunctionCall::Generic>>
TestEvaluator::functionGenerics(const ast::FnDecl &fn, const ast::GenericExpr *generics) {
  std::vector<sema::FunctionCall::Generic> result;
  if (!generics)
    return result;
  for (const auto &[i, arg] : llvm::enumerate(generics->args)) {
    const auto *param = fn.generics.begin() + std::min(i, fn.generics.size());
    if (!arg.label.name.empty())
      param = llvm::find_if(fn.generics,
                            [&](const auto &one) { return one.name.name == arg.label.name; });
    const llvm::StringRef type =
        param != fn.generics.end() && param->type ? param->type->name.name : "";
    sema::GenericValue value;
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
    result.push_back({arg.label, value, arg.value->range});
  }
  return result;
}

TestEvaluator::Result TestEvaluator::callFunction(const ast::CallExpr &e, const ast::FnDecl &fn,
                                                  const ast::GenericExpr *generics) {
  std::vector<TestValue> args;
  for (const ast::Arg &arg : e.args) {
    Result value = evaluate(*arg.value);
    if (!value)
      return std::nullopt;
    if (value->isTuple())
      return fail(arg.value->range, "an array or a number is needed here");
    args.push_back(std::move(*value));
  }
  const auto given = functionGenerics(fn, generics);
  if (!given)
    return std::nullopt;
  // Ranks with one set of types, sizes and literals share a kernel.
  std::map<std::vector<sema::FunctionCall::Arg>, std::vector<int>> groups;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!isActive(rank))
      continue;
    std::vector<sema::FunctionCall::Arg> key;
    for (const auto &[arg, value] : llvm::zip(e.args, args))
      key.push_back(describe(arg, value, rank));
    groups[std::move(key)].push_back(rank);
  }
  TestValue result;
  for (size_t i = 0; i < fn.results.size(); ++i)
    result.tuple.emplace_back().arrays.resize(ranks_);
  for (const auto &[key, group] : groups) {
    const sema::FunctionCall call{e.range, generics ? generics->base : e.callee, *given, key,
                                  clause_ ? clause_->decl : nullptr};
    const auto code = library_.getCall(e, fn, call);
    if (!code) {
      failed_ = true;
      return std::nullopt;
    }
    if (!runFunction(*code, e, args, group, result))
      return std::nullopt;
  }
  if (result.tuple.size() == 1)
    return std::move(result.tuple.front());
  return result;
}

bool TestEvaluator::runFunction(const KernelCode &code, const ast::CallExpr &e,
                                llvm::ArrayRef<TestValue> args, llvm::ArrayRef<int> group,
                                TestValue &result) {
  if (!interpreter_)
    interpreter_ = makeInterpreterExecutor(session_.options, ranks_);
  llvm::Expected<LoadedKernel *> kernel = interpreter_->load(code);
  if (!kernel) {
    fail(e.range, kernel.takeError());
    return false;
  }
  // Other ranks run with what the first of these has, as functions may meet.
  const auto sourceOf = [&](int rank) {
    return llvm::is_contained(group, rank) ? rank : group.front();
  };
  RankArgs passed(ranks_);
  std::vector<std::vector<Array>> written(ranks_);
  for (int rank = 0; rank < ranks_; ++rank) {
    size_t next = 0;
    written[rank].reserve(result.tuple.size());
    for (const sema::KernelParam &param : code.instance->params) {
      HostArg &arg = passed[rank].emplace_back();
      arg.dtype = param.type->dtype;
      arg.sizes.assign(param.type->shape.begin(), param.type->shape.end());
      if (param.mode == ast::ParamMode::Out) {
        written[rank].push_back(ndarray::poison(arg.dtype, arg.sizes));
        arg.data = written[rank].back().data();
        continue;
      }
      const auto isLiteral = [&](const TestValue &value) {
        return value.isWeak && value.arrays[sourceOf(rank)]->rank() == 0;
      };
      while (isLiteral(args[next]))
        ++next;
      arg.data = const_cast<void *>(args[next++].arrays[sourceOf(rank)]->data());
    }
  }
  const LaunchResult launched = (*kernel)->launch(passed, 1);
  if (!launched.failure.empty()) {
    interpreter_->reset();
    if (capture_) {
      *capture_ = launched.failure;
      return false;
    }
    failed_ = true;
    session_.diagnostics.report(e.range, diag::test_launch_failed, code.instance->decl->name.name,
                                interpreter_->name(), ranks_, launched.failure);
    return false;
  }
  for (const int rank : group)
    for (const auto &[i, array] : llvm::enumerate(written[rank])) {
      const bool isNumber =
          code.instance->callees.front()->results[i]->kind == sema::TypeKind::Scalar;
      result.tuple[i].arrays[rank] =
          share(isNumber ? llvm::cantFail(ndarray::reshape(array, {})) : std::move(array));
    }
  return true;
}

} // namespace dtile::driver
