// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of the sizes that a launch binds, dense and row-major; symmetric ones on all ranks at
// once.
#include "ir/protocol/check/run_arguments.h"

#include "ir/protocol/check/clause_data.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::protocol {

using ir::Op;
using ir::OpKind;

namespace {

/// Bytes of one argument, beyond which a choice of sizes is left out.
constexpr int64_t kMaxBytes = int64_t(1) << 40;

} // namespace

RunArguments::~RunArguments() {
  for (const auto &[memory, bytes] : owned_)
    interpret::releaseZeros(memory, bytes);
}

bool RunArguments::makeTensor(Op &param, std::vector<int64_t> sizes, interpret::Machine &machine) {
  interpret::TensorArg tensor;
  tensor.dtype = param.result()->type().dtype();
  tensor.strides.resize(sizes.size());
  int64_t elements = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    tensor.strides[d] = elements;
    if (__builtin_mul_overflow(elements, sizes[d], &elements) || elements > kMaxBytes)
      return false;
  }
  const size_t bytes = std::max<size_t>(1, size_t(elements) * dtypeBytes(tensor.dtype));
  tensor.sizes = std::move(sizes);
  if (param.get(ir::attr::mode) == ir::ParamMode::Symm) {
    void *object = machine.symmAlloc(bytes);
    for (size_t r = 0; object && r < ofRank.size(); ++r) {
      tensor.data = machine.symmAddress(object, int(r));
      ofRank[r].push_back({tensor, 0});
    }
    return object != nullptr;
  }
  for (std::vector<interpret::Arg> &args : ofRank) {
    tensor.data = interpret::reserveZeros(bytes);
    if (!tensor.data)
      return false;
    owned_.emplace_back(tensor.data, bytes);
    args.push_back({tensor, 0});
  }
  return true;
}

bool RunArguments::make(Op &kernel, const LaunchSizes &sizes, const SizeValues &values, int ranks,
                        interpret::Machine &machine) {
  ofRank.assign(ranks, {});
  std::vector<Op *> params;
  for (Op &op : kernel.body().ops()) {
    const bool isTensor = op.is(OpKind::Param) && op.get(ir::attr::mode) != ir::ParamMode::Scratch;
    if (isTensor || op.is(OpKind::ScalarParam))
      params.push_back(&op);
  }
  llvm::sort(params, [](const Op *a, const Op *b) {
    return a->get(ir::attr::param) < b->get(ir::attr::param);
  });
  for (Op *param : params) {
    if (param->is(OpKind::ScalarParam)) {
      const int64_t value = sizes.valueOf(param->result(), ranks, values).value_or(0);
      for (std::vector<interpret::Arg> &args : ofRank)
        args.emplace_back().scalarBits = uint64_t(value);
      continue;
    }
    auto known = sizes.sizesOf(*param, ranks, values);
    if (!known || !makeTensor(*param, std::move(*known), machine))
      return false;
    const auto valueOf = [&](const ir::Value *value) {
      return sizes.valueOf(value, ranks, values);
    };
    bool isFilled = true;
    for (const auto &[rank, args] : llvm::enumerate(ofRank))
      isFilled = isFilled && fillByClauses(*param, args.back().tensor, valueOf,
                                           {int64_t(rank), int64_t(ranks)});
    if (!isFilled)
      unfilled.push_back(param);
  }
  return true;
}

} // namespace dtile::protocol
