/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The part of DLPack's and TVM FFI's stable C ABIs that is used, declared by itself: their headers
 * are needed neither here nor by who loads a kernel. Names are theirs without the prefix. */
#pragma once

#include <cstdint>

namespace dtile::runtime::tvm_ffi {

/// DLDataType. Tensors have one lane.
struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

/// DLDataTypeCode.
enum DataTypeCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kBool = 6,
  kFloat8E4M3FN = 10,
  kFloat8E5M2 = 12
};

/// DLDeviceType.
enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kCudaManaged = 13 };

/// DLTensor; null strides are those of row-major order.
struct Tensor {
  void *data;
  int32_t deviceType;
  int32_t deviceId;
  int32_t ndim;
  DataType dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byteOffset;
};
static_assert(sizeof(Tensor) == 48);

/// TVMFFITypeIndex of what is passed.
enum TypeIndex : int32_t {
  kNone = 0,
  kIntValue = 1,
  kBoolValue = 2,
  kFloatValue = 3,
  kTensorPointer = 7,
  kTensorObject = 70
};

/// TVMFFIAny.
struct Any {
  int32_t type;
  uint32_t zero;
  union {
    int64_t integer;
    double number;
    void *pointer;
  };
};
static_assert(sizeof(Any) == 16);

/// Bytes of TVMFFIObject, after which a tensor object has its DLTensor.
inline constexpr int64_t kObjectBytes = 24;

/// TVMFFIErrorSetRaisedFromCStr and TVMFFIEnvGetStream.
using SetRaised = void (*)(const char *kind, const char *message);
using GetStream = void *(*)(int32_t deviceType, int32_t deviceId);

} // namespace dtile::runtime::tvm_ffi
