// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls by TVM FFI's calling convention: arguments become those of dtile.h, and the kernel is
// launched on the team in use, on the stream that TVM FFI's environment names. Its library is never
// linked or opened: where the process has it, errors are raised there, and streams asked for.
#include "backend/runtime/tvm_ffi_abi.h"

#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/dtile.h"
#include "backend/runtime/errors.h"
#include "backend/runtime/float_formats.h"
#include "backend/runtime/host/kernel_state.h"
#include "backend/runtime/team_in_use.h"
#include "backend/runtime/team_interface.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <limits>
#include <optional>
#include <vector>

namespace dtile::runtime {

namespace {

using namespace tvm_ffi;

/// A function of TVM FFI's library; null where the process has none. Python loads it for itself
/// alone, so it is also looked for by its name.
template <typename Function> Function find(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (!found)
    if (void *library = dlopen("libtvm_ffi.so", RTLD_LAZY | RTLD_NOLOAD)) {
      found = dlsym(library, name);
      dlclose(library);
    }
  return reinterpret_cast<Function>(found);
}

/// An error and what Python is to call it.
struct Refusal {
  const char *kind = nullptr;
  Status status;
};

std::optional<int32_t> dtypeOf(DataType type) {
  if (type.lanes != 1)
    return std::nullopt;
  constexpr struct {
    uint8_t code, bits;
    int32_t dtype;
  } kTypes[] = {
      {kInt, 8, DTILE_I8},           {kInt, 16, DTILE_I16},   {kInt, 32, DTILE_I32},
      {kInt, 64, DTILE_I64},         {kUInt, 8, DTILE_U8},    {kUInt, 16, DTILE_U16},
      {kUInt, 32, DTILE_U32},        {kUInt, 64, DTILE_U64},  {kFloat, 16, DTILE_F16},
      {kFloat, 32, DTILE_F32},       {kFloat, 64, DTILE_F64}, {kBfloat, 16, DTILE_BF16},
      {kBool, 8, DTILE_BOOL},        {kUInt, 1, DTILE_BOOL},  {kFloat8E4M3FN, 8, DTILE_F8E4M3},
      {kFloat8E5M2, 8, DTILE_F8E5M2}};
  for (const auto &known : kTypes)
    if (known.code == type.code && known.bits == type.bits)
      return known.dtype;
  return std::nullopt;
}

template <typename Integer> bool holds(int64_t value) {
  if constexpr (std::numeric_limits<Integer>::is_signed)
    return value >= int64_t(std::numeric_limits<Integer>::min()) &&
           value <= int64_t(std::numeric_limits<Integer>::max());
  // Numbers come as signed 64-bit ones.
  return value >= 0 && uint64_t(value) <= uint64_t(std::numeric_limits<Integer>::max());
}

bool holdsInteger(int32_t dtype, int64_t value) {
  switch (dtype) {
  case DTILE_BOOL:
    return value == 0 || value == 1;
  case DTILE_I8:
    return holds<int8_t>(value);
  case DTILE_I16:
    return holds<int16_t>(value);
  case DTILE_I32:
    return holds<int32_t>(value);
  case DTILE_U8:
    return holds<uint8_t>(value);
  case DTILE_U16:
    return holds<uint16_t>(value);
  case DTILE_U32:
    return holds<uint32_t>(value);
  case DTILE_U64:
    return value >= 0;
  default:
    return true;
  }
}

/// Whether memory of such a device may be that of a rank, on GPUs or on processors. Which GPU it is
/// on, and whether a GPU can use memory of the host, launches find out.
bool isWithin(int32_t deviceType, bool onGpus) {
  switch (deviceType) {
  case kCpu:
    return !onGpus;
  case kCudaHost:
    return true;
  case kCuda:
  case kCudaManaged:
  case kRocm:
    return onGpus;
  default:
    return false;
  }
}

/// Whether a number is one of a type of floating point: infinities are, what rounds to one is not.
bool holdsFloat(int32_t dtype, double value) {
  if (!std::isfinite(value) || dtype == DTILE_F64)
    return true;
  if (dtype != DTILE_F16)
    return std::isfinite(float(value));
  return std::isfinite(f16ToF32(f32ToF16(float(value))));
}

bool isFloat(int32_t dtype) { return dtype >= DTILE_F8E4M3; }

uint64_t floatBits(int32_t dtype, double value) {
  uint64_t bits = 0;
  const auto narrow = float(value);
  switch (dtype) {
  case DTILE_F8E4M3:
    return f32ToF8e4m3(narrow);
  case DTILE_F8E5M2:
    return f32ToF8e5m2(narrow);
  case DTILE_F16:
    return f32ToF16(narrow);
  case DTILE_BF16:
    return f32ToBf16(narrow);
  case DTILE_F32:
    std::memcpy(&bits, &narrow, sizeof narrow);
    return bits;
  default:
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
}

class Call {
public:
  Call(dtile_team &team, const dtile_kernel_desc &desc) : team_(team), kernel_(desc) {}

  Refusal run(const Any *given, int32_t count);

private:
  Refusal take(const dtile_param_desc &param, const Any &given, dtile_arg &out);
  Refusal takeTensor(const dtile_param_desc &param, const Any &given, dtile_arg &out);
  Refusal takeNumber(const dtile_param_desc &param, const Any &given, dtile_arg &out) const;
  [[nodiscard]] Refusal wrong(const char *kind, const dtile_param_desc &param,
                              const std::string &text) const {
    return {kind,
            {DTILE_INVALID, format("kernel `%s`, argument `%s`: %s", kernel_.name.c_str(),
                                   param.name, text.c_str())}};
  }
  Refusal launch();
  [[nodiscard]] Refusal findRank(int32_t *local) const;

  dtile_team &team_;
  const KernelState kernel_;
  std::vector<dtile_arg> arguments_;
  std::vector<dtile_tensor> tensors_;
  /// Where the first tensor is.
  const Tensor *first_ = nullptr;
};

Refusal Call::takeTensor(const dtile_param_desc &param, const Any &given, dtile_arg &out) {
  const Tensor *from = nullptr;
  if (given.type == kTensorPointer)
    from = static_cast<const Tensor *>(given.pointer);
  else if (given.type == kTensorObject && given.pointer)
    from =
        reinterpret_cast<const Tensor *>(static_cast<const char *>(given.pointer) + kObjectBytes);
  if (!from)
    return wrong("TypeError", param, "a tensor is wanted");
  const std::optional<int32_t> dtype = dtypeOf(from->dtype);
  if (!dtype)
    return wrong("TypeError", param,
                 format("kernels have no element type for DLPack's code %d with %d bits and %d "
                        "lanes",
                        from->dtype.code, from->dtype.bits, from->dtype.lanes));
  if (from->ndim < 0 || from->ndim > DTILE_MAX_RANK)
    return wrong("ValueError", param,
                 format("%d dimensions; at most %d are possible", from->ndim, DTILE_MAX_RANK));
  if (from->ndim > 0 && !from->shape)
    return wrong("ValueError", param, "its sizes are null");
  if (!isWithin(from->deviceType, team_.devices() != nullptr))
    return wrong(
        "ValueError", param,
        format("the tensor is on a device of DLPack's type %d, but the team's ranks are %s",
               from->deviceType, team_.devices() ? "GPUs" : "processors"));
  if (!first_)
    first_ = from;
  dtile_tensor &tensor = tensors_.emplace_back();
  tensor.data = from->data ? static_cast<char *>(from->data) + from->byteOffset : nullptr;
  tensor.dtype = *dtype;
  tensor.ndim = from->ndim;
  int64_t stride = 1;
  for (int32_t d = from->ndim - 1; d >= 0; --d) {
    tensor.size[d] = from->shape[d];
    tensor.stride[d] = from->strides ? from->strides[d] : stride;
    // What overflows the launch refuses.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(from->shape[d], 1), &stride))
      stride = std::numeric_limits<int64_t>::max();
  }
  out.tensor = &tensor;
  return {};
}

Refusal Call::takeNumber(const dtile_param_desc &param, const Any &given, dtile_arg &out) const {
  const bool isInteger = given.type == kIntValue || given.type == kBoolValue;
  if (isFloat(param.dtype) && (isInteger || given.type == kFloatValue)) {
    const double value = isInteger ? double(given.integer) : given.number;
    if (!holdsFloat(param.dtype, value))
      return wrong("ValueError", param, format("%g is no %s", value, dtypeName(param.dtype)));
    out.scalar_bits = floatBits(param.dtype, value);
    return {};
  }
  if (!isInteger)
    return wrong("TypeError", param,
                 format("a number of type %s is wanted", dtypeName(param.dtype)));
  if (!holdsInteger(param.dtype, given.integer))
    return wrong(
        "ValueError", param,
        format("%lld is no %s", static_cast<long long>(given.integer), dtypeName(param.dtype)));
  out.scalar_bits = uint64_t(given.integer);
  return {};
}

Refusal Call::take(const dtile_param_desc &param, const Any &given, dtile_arg &out) {
  return param.kind == DTILE_PARAM_TENSOR ? takeTensor(param, given, out)
                                          : takeNumber(param, given, out);
}

Refusal Call::findRank(int32_t *local) const {
  *local = 0;
  if (team_.localCount() == 1)
    return {};
  int32_t found = 0;
  for (int32_t i = 0; team_.devices() && first_ && i < team_.localCount(); ++i) {
    int32_t ordinal = -1;
    if (dtile_team_device(&team_, i, &ordinal) == DTILE_OK && ordinal == first_->deviceId &&
        first_->deviceType != kCpu) {
      *local = i;
      ++found;
    }
  }
  if (found == 1)
    return {};
  return {"ValueError",
          {DTILE_INVALID, format("kernel `%s`: which of this process's %d ranks calls is not said: "
                                 "%s",
                                 kernel_.name.c_str(), team_.localCount(),
                                 !team_.devices() ? "a team of processors has one rank a process"
                                 : found > 1      ? "several are on the GPU of the first tensor"
                                                  : "none is on the GPU of the first tensor")}};
}

Refusal Call::launch() {
  dtile_status status = DTILE_OK;
  int32_t local = 0;
  if (Refusal refusal = findRank(&local); !refusal.status.ok())
    return refusal;
  const auto count = int32_t(arguments_.size());
  if (team_.devices()) {
    const auto stream = find<GetStream>("TVMFFIEnvGetStream");
    int32_t ordinal = 0;
    status = dtile_team_device(&team_, local, &ordinal);
    if (status == DTILE_OK)
      status = dtile_launch_on(
          &team_, local, kernel_.desc, arguments_.data(), count,
          stream ? stream(first_ ? first_->deviceType : int32_t(kCuda), ordinal) : nullptr);
  } else {
    const dtile_arg *all = arguments_.data();
    status = dtile_launch_all(&team_, kernel_.desc, &all, count);
  }
  if (status == DTILE_OK)
    return {};
  return {status == DTILE_INVALID ? "ValueError" : "RuntimeError", {status, dtile_last_error()}};
}

Refusal Call::run(const Any *given, int32_t count) {
  if (count != kernel_.argumentCount)
    return {"TypeError",
            {DTILE_INVALID, format("kernel `%s` takes %d arguments, %d given", kernel_.name.c_str(),
                                   kernel_.argumentCount, count)}};
  arguments_.resize(size_t(count));
  // Arguments point into it.
  tensors_.reserve(size_t(count));
  for (size_t i = 0; i < kernel_.argumentOf.size(); ++i)
    if (const int32_t at = kernel_.argumentOf[i]; at >= 0)
      if (Refusal refusal = take(kernel_.params[i], given[at], arguments_[size_t(at)]);
          !refusal.status.ok())
        return refusal;
  return launch();
}

Refusal call(const dtile_kernel_desc *kernel, const Any *arguments, int32_t count) {
  if (!kernel || (count > 0 && !arguments))
    return {"ValueError", {DTILE_INVALID, "the kernel or the arguments are null"}};
  if (kernel->abi_version != DTILE_ABI_VERSION)
    return {"RuntimeError",
            {DTILE_INVALID, format("the kernel was compiled for version %u of the runtime's ABI, "
                                   "but this library has version %d: compile it again",
                                   kernel->abi_version, DTILE_ABI_VERSION)}};
  dtile_team *team = teamInUse();
  if (!team)
    return {"RuntimeError",
            {DTILE_INVALID, format("kernel `%s`: no team is in use; make one, and call "
                                   "dtile_team_use (in Python, dtile.Team.local or from_torch)",
                                   kernel->name)}};
  return Call(*team, *kernel).run(arguments, count);
}

} // namespace

} // namespace dtile::runtime

extern "C" int32_t dtile_tvm_ffi_call(const dtile_kernel_desc *kernel, const void *args,
                                      int32_t nargs, void *result) {
  using namespace dtile::runtime;
  // Outputs are arguments.
  if (result)
    *static_cast<tvm_ffi::Any *>(result) = {tvm_ffi::kNone, 0, {.integer = 0}};
  const Refusal refusal = call(kernel, static_cast<const tvm_ffi::Any *>(args), nargs);
  if (report(refusal.status) == DTILE_OK)
    return 0;
  if (const auto raise = find<tvm_ffi::SetRaised>("TVMFFIErrorSetRaisedFromCStr"))
    raise(refusal.kind, refusal.status.message.c_str());
  return -1;
}
