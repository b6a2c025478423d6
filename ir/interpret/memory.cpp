// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symmetric memory and scratch objects, and whether the arguments of a launch fit its kernel.
#include "ir/interpret/state.h"

#include <algorithm>
#include <cstdlib>

#include <sys/mman.h>

namespace dtile::interpret {

namespace {

constexpr size_t kAlignment = 256;
/// A NaN in every float format: what is read before it was written shows.
constexpr int kPoison = 0xFF;
/// Zeroed objects that are larger hold tile data, which is left out where only control runs.
constexpr size_t kMaxControlBytes = size_t(1) << 16;
/// What costs less to clear than the system takes to map it.
constexpr size_t kFewBytes = size_t(1) << 14;

size_t roundedBytes(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

} // namespace

void *reserveZeros(size_t bytes) {
  if (bytes <= kFewBytes)
    return std::calloc(std::max<size_t>(bytes, 1), 1);
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void releaseZeros(void *memory, size_t bytes) {
  if (bytes <= kFewBytes)
    std::free(memory);
  else
    munmap(memory, bytes);
}

MachineState::~MachineState() {
  for (auto &[address, object] : heap)
    freeSymmetric(*object);
  for (auto &[name, state] : kernels)
    for (auto &[position, scratch] : state.scratch)
      for (auto &object : scratch.copies)
        freeSymmetric(*object);
}

std::unique_ptr<SymmObject> MachineState::allocateSymmetric(size_t bytes) {
  auto object = std::make_unique<SymmObject>();
  // Never empty, so that every object has its own address.
  object->bytes = std::max<size_t>(bytes, 1);
  const size_t rounded = roundedBytes(object->bytes);
  for (int r = 0; r < numRanks; ++r) {
    char *memory = schedule.controlOnly
                       ? static_cast<char *>(reserveZeros(rounded))
                       : static_cast<char *>(std::aligned_alloc(kAlignment, rounded));
    if (!memory) {
      releaseMemory(*object);
      return nullptr;
    }
    if (!schedule.controlOnly)
      std::memset(memory, kPoison, rounded);
    object->base.push_back(memory);
  }
  for (char *base : object->base)
    addresses[base] = object.get();
  return object;
}

void MachineState::freeSymmetric(SymmObject &object) {
  for (char *base : object.base)
    addresses.erase(base);
  releaseMemory(object);
}

void MachineState::releaseMemory(SymmObject &object) const {
  for (char *base : object.base)
    if (schedule.controlOnly)
      releaseZeros(base, roundedBytes(object.bytes));
    else
      std::free(base);
  object.base.clear();
}

const SymmObject *MachineState::findSymmetric(const void *address, int &rank) const {
  const char *place = static_cast<const char *>(address);
  auto it = addresses.upper_bound(place);
  if (it == addresses.begin())
    return nullptr;
  --it;
  const SymmObject *object = it->second;
  if (place >= it->first + object->bytes)
    return nullptr;
  rank = static_cast<int>(llvm::find(object->base, it->first) - object->base.begin());
  return object;
}

SymmObject *MachineState::scratchObject(Body &body, const ir::Op &param, size_t bytes) {
  const bool isZeroed = param.get(ir::attr::zero);
  // Two at least where there are zeros to prepare: see below.
  const int64_t copies = std::max<int64_t>(isZeroed ? 2 : 1, param.getOr(ir::attr::copies, 1));
  ScratchState &scratch = kernel->scratch[param.get(ir::attr::param)];
  const std::string name = "scratch object `" + param.get(ir::attr::name).str() + "` of kernel `" +
                           kernel->code->name + "`";
  if (scratch.run == runNumber && scratch.asked != bytes) {
    fail(RunError::Kind::BadArgument, name + " has " + std::to_string(bytes) + " bytes on rank " +
                                          std::to_string(body.rank.rank) + " but " +
                                          std::to_string(scratch.asked) + " on another");
    return nullptr;
  }
  scratch.run = runNumber;
  scratch.asked = bytes;
  if (scratch.copies.empty() || scratch.copies[0]->bytes < bytes) {
    for (auto &object : scratch.copies)
      freeSymmetric(*object);
    scratch.copies.clear();
    for (int64_t i = 0; i < copies; ++i) {
      auto object = allocateSymmetric(bytes);
      if (!object) {
        fail(RunError::Kind::BadArgument,
             name + " does not fit in memory: " + std::to_string(bytes) + " bytes a rank");
        return nullptr;
      }
      for (char *base : object->base)
        if (isZeroed && !schedule.controlOnly)
          std::memset(base, 0, object->bytes);
      scratch.copies.push_back(std::move(object));
    }
  }
  const int64_t epoch = kernel->epoch[body.rank.rank];
  const bool isSkipped = schedule.controlOnly && bytes > kMaxControlBytes;
  if (isZeroed && !isSkipped) {
    // Where ranks meet before the bodies, this launch's copy, as compiled code does: a peer may
    // still be in the last launch, and use that one's. Else the next launch's: a peer may be in
    // this launch already, and have written to its copy.
    const bool meets = kernel->code->hasEntryBarrier || observer;
    SymmObject &cleared = *scratch.copies[(epoch + (meets ? 0 : 1)) % copies];
    std::memset(cleared.base[body.rank.rank], 0, cleared.bytes);
  }
  return scratch.copies[epoch % copies].get();
}

// Arguments.

namespace {

std::string argumentText(const KernelCode &code, size_t number, int rank) {
  return "kernel `" + code.name + "`, argument `" + code.arguments[number].name + "`, rank " +
         std::to_string(rank) + ":";
}

/// Bytes from the first to past the last element; 0 for an empty tensor.
size_t spanBytes(const TensorArg &tensor) {
  int64_t last = 0;
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d] == 0)
      return 0;
    last += (tensor.sizes[d] - 1) * tensor.strides[d];
  }
  return (last + 1) * dtypeBytes(tensor.dtype);
}

/// Whether the spans of two tensors meet.
bool overlaps(const TensorArg &a, const TensorArg &b) {
  const auto *first = static_cast<const char *>(a.data);
  const auto *second = static_cast<const char *>(b.data);
  const size_t firstBytes = spanBytes(a);
  const size_t secondBytes = spanBytes(b);
  return firstBytes != 0 && secondBytes != 0 && first < second + secondBytes &&
         second < first + firstBytes;
}

} // namespace

bool MachineState::checkArguments(const KernelCode &code,
                                  const std::vector<std::vector<Arg>> &args) {
  const auto refuse = [&](const std::string &message) {
    fail(RunError::Kind::BadArgument, message);
    return false;
  };
  if (args.size() != static_cast<size_t>(numRanks))
    return refuse("a launch on " + std::to_string(numRanks) + " ranks got the arguments of " +
                  std::to_string(args.size()));
  for (int r = 0; r < numRanks; ++r) {
    if (args[r].size() != code.arguments.size())
      return refuse("kernel `" + code.name + "` takes " + std::to_string(code.arguments.size()) +
                    " arguments but got " + std::to_string(args[r].size()) + " on rank " +
                    std::to_string(r));
    for (size_t i = 0; i < args[r].size(); ++i)
      if (code.arguments[i].rank >= 0)
        if (std::string problem = checkTensor(code.arguments[i], r, args[r][i].tensor);
            !problem.empty())
          return refuse(argumentText(code, i, r) + " " + problem);
    for (size_t i = 0; i < args[r].size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const ArgumentCode &a = code.arguments[i];
        const ArgumentCode &b = code.arguments[j];
        const bool isShared = (a.isWritten || b.isWritten) && a.rank >= 0 && b.rank >= 0 &&
                              overlaps(args[r][i].tensor, args[r][j].tensor);
        if (isShared)
          return refuse(argumentText(code, i, r) + " overlaps `" + b.name +
                        "`; different parameters are different memory unless both are `in`");
      }
  }
  return true;
}

std::string MachineState::checkTensor(const ArgumentCode &argument, int rank,
                                      const TensorArg &tensor) const {
  if (tensor.dtype != argument.dtype)
    return "is " + dtypeName(tensor.dtype).str() + ", not " + dtypeName(argument.dtype).str();
  if (tensor.sizes.size() != static_cast<size_t>(argument.rank) ||
      tensor.strides.size() != tensor.sizes.size())
    return "has " + std::to_string(tensor.sizes.size()) + " dimensions, not " +
           std::to_string(argument.rank);
  for (int64_t size : tensor.sizes)
    if (size < 0)
      return "has a negative size";
  const size_t bytes = spanBytes(tensor);
  if (bytes != 0 && !tensor.data)
    return "has no memory";
  if (!argument.isSymmetric)
    return "";
  int home = 0;
  const SymmObject *object = findSymmetric(tensor.data, home);
  if (!object)
    return "must be in symmetric memory";
  if (home != rank)
    return "is in the symmetric memory of rank " + std::to_string(home);
  const size_t offset = static_cast<const char *>(tensor.data) - object->base[home];
  if (offset + bytes > object->bytes)
    return "reaches past the end of its symmetric object";
  return "";
}

} // namespace dtile::interpret
