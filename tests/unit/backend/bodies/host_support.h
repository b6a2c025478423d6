// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For tests of the host target: one IR text, run by compiled code on the runtime and by the
// interpreter, on the same arguments.
#pragma once

#include "backend/host/host.h"
#include "backend/runtime/dtile.h"
#ifdef DTILE_EMULATED_GPU
#include "backend/runtime/trace/device_trace.h"
#endif
#include "frontend/base/diagnostics.h"
#include "ir/core/text_format.h"
#include "ir/interpret/interpreter.h"

#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace dtile::backend::host::testing {

/// A verified module from text. A mistake in the text fails the test and leaves no module.
struct Program {
  SourceManager sources;
  ir::TypeContext types;
  std::unique_ptr<ir::Module> module;

  explicit Program(const std::string &text) {
    Diagnostics diagnostics(sources);
    module = ir::parseModule(sources.add("test.dtir", text), sources, types, diagnostics);
    if (!module) {
      std::string report;
      llvm::raw_string_ostream os(report);
      printDiagnostics(diagnostics, DiagnosticForm::Text, ColorMode::Never, os);
      ADD_FAILURE() << report;
      return;
    }
    for (const std::string &problem : ir::verify(*module))
      ADD_FAILURE() << problem;
  }
};

/// One tensor argument on every rank: the elements that a launch starts with, rank after rank, and
/// those that it leaves.
struct Tensor {
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
  bool isSymmetric = false;
  std::vector<uint8_t> bytes;

  [[nodiscard]] int64_t elements() const {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    return count;
  }
  [[nodiscard]] size_t rankBytes() const { return elements() * dtypeBytes(dtype); }
  [[nodiscard]] double at(int64_t i) const {
    return loadAsDouble(dtype, bytes.data() + i * dtypeBytes(dtype));
  }
};

inline std::vector<int64_t> denseStrides(llvm::ArrayRef<int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t volume = 1;
  for (size_t d = sizes.size(); d-- > 0; volume *= sizes[d])
    strides[d] = volume;
  return strides;
}

/// Zeros on every rank.
inline Tensor zeros(DType dtype, std::vector<int64_t> sizes, int ranks = 1) {
  Tensor tensor{dtype, std::move(sizes), false, {}};
  tensor.bytes.resize(tensor.rankBytes() * ranks);
  return tensor;
}

/// Elements of `f(i)`, i counting over all ranks.
template <typename Fn> Tensor filled(DType dtype, std::vector<int64_t> sizes, int ranks, Fn f) {
  Tensor tensor = zeros(dtype, std::move(sizes), ranks);
  for (int64_t i = 0; i < tensor.elements() * ranks; ++i)
    storeFromDouble(dtype, tensor.bytes.data() + i * dtypeBytes(dtype), f(i));
  return tensor;
}

/// Values between -scale and scale; integers keep their type's range.
inline Tensor random(DType dtype, std::vector<int64_t> sizes, unsigned seed, int ranks = 1,
                     double scale = 1) {
  std::mt19937 engine(seed);
  if (isInteger(dtype))
    scale = std::max(scale, std::min(100.0, std::ldexp(1.0, int(dtypeBits(dtype)) - 1) - 1));
  std::uniform_real_distribution<double> values(
      dtypeClass(dtype) == DTypeClass::Int || isFloat(dtype) ? -scale : 0, scale);
  return filled(dtype, std::move(sizes), ranks, [&](int64_t) {
    const double value = values(engine);
    return dtype == DType::Bool ? double(value > scale / 2) : value;
  });
}

inline Tensor symmetric(Tensor tensor) {
  tensor.isSymmetric = true;
  return tensor;
}

/// Runs kernel @k by compiled code; "" or what went wrong. `scalars` come behind the tensors.
inline std::string runCompiled(ir::Module &module, int ranks, std::vector<Tensor> &tensors,
                               const HostOptions &options = {}, int launches = 1,
                               const std::vector<uint64_t> &scalars = {}) {
  auto code = jit(module, options);
  if (!code)
    return llvm::toString(code.takeError());
  const dtile_kernel_desc *kernel = (*code)->find("k");
  if (!kernel)
    return "no kernel k";
  dtile_team_options teamOptions = DTILE_TEAM_OPTIONS_INIT;
  teamOptions.ranks = ranks;
  teamOptions.workers = 2;
  dtile_team *team = nullptr;
  if (dtile_team_create_threads(&teamOptions, &team) != DTILE_OK)
    return dtile_last_error();
  std::vector<void *> symmetricBase(tensors.size());
  std::vector<dtile_tensor> descriptors(tensors.size() * ranks);
  std::vector<std::vector<dtile_arg>> args(ranks);
  std::vector<const dtile_arg *> argLists;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].isSymmetric)
      dtile_symm_alloc(team, int64_t(tensors[i].rankBytes()), &symmetricBase[i]);
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      Tensor &tensor = tensors[i];
      uint8_t *data = tensor.bytes.data() + r * tensor.rankBytes();
      dtile_tensor &descriptor = descriptors[i * ranks + r];
      descriptor.data = data;
      if (tensor.isSymmetric) {
        descriptor.data = dtile_symm_address(team, symmetricBase[i], r);
        std::memcpy(descriptor.data, data, tensor.rankBytes());
      }
      descriptor.dtype = int(tensor.dtype);
      descriptor.ndim = int(tensor.sizes.size());
      llvm::copy(tensor.sizes, descriptor.size);
      llvm::copy(denseStrides(tensor.sizes), descriptor.stride);
      dtile_arg arg;
      arg.tensor = &descriptor;
      args[r].push_back(arg);
    }
    for (uint64_t scalar : scalars) {
      dtile_arg arg;
      arg.scalar_bits = scalar;
      args[r].push_back(arg);
    }
    argLists.push_back(args[r].data());
  }
  std::string error;
  if (dtile_launch_repeat(team, kernel, argLists.data(), int(args[0].size()), launches) != DTILE_OK)
    error = dtile_last_error();
  for (size_t i = 0; i < tensors.size(); ++i)
    for (int r = 0; r < ranks && tensors[i].isSymmetric; ++r)
      std::memcpy(tensors[i].bytes.data() + r * tensors[i].rankBytes(),
                  descriptors[i * ranks + r].data, tensors[i].rankBytes());
  dtile_team_destroy(team);
  return error;
}

/// The same by the interpreter.
inline std::string runInterpreted(ir::Module &module, int ranks, std::vector<Tensor> &tensors,
                                  int launches = 1, const std::vector<uint64_t> &scalars = {}) {
  interpret::Machine machine(module, ranks);
  std::vector<void *> symmetricBase(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].isSymmetric)
      symmetricBase[i] = machine.symmAlloc(tensors[i].rankBytes());
  std::vector<std::vector<interpret::Arg>> args(ranks);
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      Tensor &tensor = tensors[i];
      interpret::Arg arg;
      void *data = tensor.bytes.data() + r * tensor.rankBytes();
      if (tensor.isSymmetric) {
        void *copy = machine.symmAddress(symmetricBase[i], r);
        std::memcpy(copy, data, tensor.rankBytes());
        data = copy;
      }
      arg.tensor = {data, tensor.dtype, tensor.sizes, denseStrides(tensor.sizes)};
      args[r].push_back(arg);
    }
    for (uint64_t scalar : scalars) {
      interpret::Arg arg;
      arg.scalarBits = scalar;
      args[r].push_back(arg);
    }
  }
  std::string error;
  for (int i = 0; i < launches && error.empty(); ++i)
    if (auto failed = machine.launch("k", args))
      error = failed->message;
  for (size_t i = 0; i < tensors.size(); ++i)
    for (int r = 0; r < ranks && tensors[i].isSymmetric; ++r)
      std::memcpy(tensors[i].bytes.data() + r * tensors[i].rankBytes(),
                  machine.symmAddress(symmetricBase[i], r), tensors[i].rankBytes());
  return error;
}

/// Elements of the two agree: integers exactly, floats within `tolerance` of the larger magnitude
/// (of 1 below that).
inline void expectSame(const Tensor &got, const Tensor &wanted, double tolerance,
                       const std::string &what) {
  ASSERT_EQ(got.bytes.size(), wanted.bytes.size());
  const int64_t count = int64_t(got.bytes.size() / dtypeBytes(got.dtype));
  int shown = 0;
  for (int64_t i = 0; i < count && shown < 5; ++i) {
    const double x = got.at(i);
    const double y = wanted.at(i);
    const double bound =
        isFloat(got.dtype) ? tolerance * std::max({1.0, std::fabs(x), std::fabs(y)}) : 0;
    const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= bound;
    if (!same) {
      ADD_FAILURE() << what << ": element " << i << " is " << x << ", the interpreter has " << y;
      ++shown;
    }
  }
}

#ifdef DTILE_EMULATED_GPU
/// The same by code for GPUs, on emulated ones (gpu_emulator.cpp).
std::string runEmulated(ir::Module &module, int ranks, std::vector<Tensor> &tensors, int launches,
                        const std::vector<uint64_t> &scalars);
/// What bodies have printed in the last run on those.
std::string takePrinted();
/// Runs on those are traced from now on, with room for so many events; 0: no longer.
void traceEmulated(int64_t events);
/// What they have recorded.
const runtime::DeviceTrace &emulatedTrace();
#endif

/// Runs both and compares every tensor; gives what the compiled code left.
inline std::vector<Tensor> runBoth(const std::string &text, int ranks, std::vector<Tensor> tensors,
                                   double tolerance = 1e-6, int launches = 1,
                                   const std::vector<uint64_t> &scalars = {}) {
  Program program(text);
  if (!program.module)
    return tensors;
  std::vector<Tensor> wanted = tensors;
  EXPECT_EQ(runInterpreted(*program.module, ranks, wanted, launches, scalars), "");
  std::vector<Tensor> got;
#ifdef DTILE_EMULATED_GPU
  got = tensors;
  EXPECT_EQ(runEmulated(*program.module, ranks, got, launches, scalars), "");
  for (size_t i = 0; i < got.size(); ++i)
    expectSame(got[i], wanted[i], tolerance, "argument " + std::to_string(i));
  return got;
#endif
  for (const char *cpu : {"native", "x86-64-v3"}) {
    got = tensors;
    EXPECT_EQ(runCompiled(*program.module, ranks, got, {.cpu = cpu}, launches, scalars), "");
    for (size_t i = 0; i < got.size(); ++i)
      expectSame(got[i], wanted[i], tolerance,
                 std::string(cpu) + ", argument " + std::to_string(i));
  }
  return got;
}

} // namespace dtile::backend::host::testing
