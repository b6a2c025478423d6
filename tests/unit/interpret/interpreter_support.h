// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For tests of the interpreter: programs from IR text, arguments from vectors.
#pragma once

#include "frontend/base/diagnostics.h"
#include "ir/core/text_format.h"
#include "ir/interpret/interpreter.h"

#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace dtile::interpret::testing {

/// A verified module from text. A mistake in the text fails the test and leaves no module.
struct Program {
  SourceManager sources;
  ir::TypeContext types;
  std::unique_ptr<ir::Module> module;

  explicit Program(const std::string &text, const std::string &name = "test.dtir") {
    Diagnostics diagnostics(sources);
    module = ir::parseModule(sources.add(name, text), sources, types, diagnostics);
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

/// Row-major strides.
inline std::vector<int64_t> denseStrides(const std::vector<int64_t> &sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t volume = 1;
  for (size_t d = sizes.size(); d-- > 0; volume *= sizes[d])
    strides[d] = volume;
  return strides;
}

template <typename T> DType dtypeOf();
template <> inline DType dtypeOf<bool>() { return DType::Bool; }
template <> inline DType dtypeOf<int8_t>() { return DType::I8; }
template <> inline DType dtypeOf<int16_t>() { return DType::I16; }
template <> inline DType dtypeOf<int32_t>() { return DType::I32; }
template <> inline DType dtypeOf<int64_t>() { return DType::I64; }
template <> inline DType dtypeOf<uint8_t>() { return DType::U8; }
template <> inline DType dtypeOf<uint16_t>() { return DType::U16; }
template <> inline DType dtypeOf<uint32_t>() { return DType::U32; }
template <> inline DType dtypeOf<uint64_t>() { return DType::U64; }
template <> inline DType dtypeOf<float>() { return DType::F32; }
template <> inline DType dtypeOf<double>() { return DType::F64; }

/// An argument in a vector's memory.
inline Arg tensor(void *data, DType dtype, const std::vector<int64_t> &sizes) {
  Arg arg;
  arg.tensor = {data, dtype, sizes, denseStrides(sizes)};
  return arg;
}
template <typename T> Arg tensor(std::vector<T> &data, const std::vector<int64_t> &sizes) {
  return tensor(data.data(), dtypeOf<T>(), sizes);
}
template <typename T> Arg tensor(std::vector<T> &data) {
  return tensor(data, {static_cast<int64_t>(data.size())});
}
template <typename T> Arg scalar(T value) {
  Arg arg;
  std::memcpy(&arg.scalarBits, &value, sizeof value);
  return arg;
}

/// "" or what went wrong.
inline std::string text(const std::unique_ptr<RunError> &error) {
  return error ? error->message : "";
}

/// A symmetric vector of T on every rank of a machine.
template <typename T> class Symmetric {
public:
  Symmetric(Machine &machine, int64_t count)
      : machine_(machine), count_(count), address_(machine.symmAlloc(count * sizeof(T))) {
    std::memset(static_cast<void *>(address_), 0, count * sizeof(T));
  }
  Symmetric(Machine &machine, int ranks, int64_t count, T value) : Symmetric(machine, count) {
    for (int r = 0; r < ranks; ++r)
      std::fill_n(on(r), count, value);
  }
  ~Symmetric() { machine_.symmFree(address_); }

  T *on(int rank) { return static_cast<T *>(machine_.symmAddress(address_, rank)); }
  Arg arg(int rank) { return tensor(on(rank), dtypeOf<T>(), {count_}); }
  std::vector<T> values(int rank) { return {on(rank), on(rank) + count_}; }

private:
  Machine &machine_;
  int64_t count_;
  void *address_;
};

} // namespace dtile::interpret::testing
