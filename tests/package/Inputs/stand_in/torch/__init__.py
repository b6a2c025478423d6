# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""As much of PyTorch as the package dtile uses: strided tensors (of i32, and of others as if they
were f32, as far as elements are looked at) on a GPU whose memory is this process's, operations by
name, process groups. What is not needed is not here, so that a use of it is an error."""

import ctypes
import itertools
import types

__version__ = "2.9 (stand-in)"


class _Dtype:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "torch." + self.name


float32, float16, bfloat16, int32, float8_e4m3fn = map(
    _Dtype, ("float32", "float16", "bfloat16", "int32", "float8_e4m3fn"))


class Tag:
    pt2_compliant_tag = "pt2_compliant_tag"
    needs_fixed_stride_order = "needs_fixed_stride_order"


def allocate(count):
    """Where a tensor of so many elements is; a test may put another one in its place."""
    memory = (ctypes.c_float * max(count, 1))()
    _kept.append(memory)
    return ctypes.addressof(memory)


_kept = []


def _contiguous(shape):
    strides, count = [], 1
    for size in reversed(shape):
        strides.append(count)
        count *= size
    return tuple(strides[::-1])


class Tensor:
    def __init__(self, address, shape, strides, dtype, device="cuda"):
        self.address, self.shape, self.strides = address, tuple(shape), tuple(strides)
        self.dtype, self.device = dtype, device

    # ---- What it is ----

    def data_ptr(self):
        return self.address

    def dim(self):
        return len(self.shape)

    def stride(self):
        return self.strides

    def numel(self):
        count = 1
        for size in self.shape:
            count *= size
        return count

    def element_size(self):
        return 2 if self.dtype in (float16, bfloat16) else 4

    def is_contiguous(self):
        return all(size == 1 or have == want for size, have, want in
                   zip(self.shape, self.strides, _contiguous(self.shape)))

    # ---- The same memory ----

    def _as(self, shape, strides):
        return Tensor(self.address, shape, strides, self.dtype, self.device)

    def movedim(self, source, destination):
        order = [d for d in range(self.dim()) if d != source % self.dim()]
        order.insert(destination % self.dim(), source % self.dim())
        return self._as([self.shape[d] for d in order], [self.strides[d] for d in order])

    def t(self):
        assert self.dim() == 2
        return self._as(self.shape[::-1], self.strides[::-1])

    def view(self, *shape):
        shape = [int(size) for size in (shape[0] if isinstance(shape[0], tuple) else shape)]
        if -1 in shape:
            rest = 1
            for size in shape:
                rest *= size if size != -1 else 1
            shape[shape.index(-1)] = self.numel() // rest
        if not self.is_contiguous():
            raise RuntimeError("view size is not compatible with input tensor's size and stride")
        assert Tensor(0, shape, (), None).numel() == self.numel()
        return self._as(shape, _contiguous(shape))

    def reshape(self, *shape):
        return self.contiguous().view(*shape)

    def narrow(self, dim, first, size):
        shape = [size if d == dim else old for d, old in enumerate(self.shape)]
        part = self._as(shape, self.strides)
        part.address += 4 * first * self.strides[dim]
        return part

    def expand(self, count):
        assert self.shape == (1,)
        return self._as((count,), (0,))

    def flatten(self, first, last):
        first, last = first % self.dim(), last % self.dim()
        middle = 1
        for size in self.shape[first:last + 1]:
            middle *= size
        return self.reshape(*self.shape[:first], middle, *self.shape[last + 1:])

    # ---- Other memory ----

    def new_empty(self, shape, dtype=None):
        return empty_strided(tuple(shape), _contiguous(shape), dtype or self.dtype, self.device)

    def contiguous(self):
        return self if self.is_contiguous() else self.new_empty(self.shape).copy_(self)

    # ---- Elements ----

    def _place(self, index):
        at = sum(i * stride for i, stride in zip(index, self.strides))
        kind = ctypes.c_int32 if self.dtype is int32 else ctypes.c_float
        return kind.from_address(self.address + 4 * at)

    def _indices(self):
        return itertools.product(*map(range, self.shape)) if self.device != "meta" else ()

    def __getitem__(self, index):
        return self._place(index).value

    def __setitem__(self, index, value):
        self._place(index).value = value

    def copy_(self, other):
        assert self.shape == other.shape
        for index in self._indices():
            self[index] = other[index]
        return self

    def div_(self, number):
        for index in self._indices():
            self[index] = self[index] / number
        return self

    def to(self, dtype):
        return self if dtype is self.dtype else self.new_empty(self.shape, dtype).copy_(self)

    def __mul__(self, other):
        """By a column."""
        assert other.shape == (*self.shape[:-1], 1)
        out = self.new_empty(self.shape)
        for index in self._indices():
            out[index] = self[index] * other[(*index[:-1], 0)]
        return out

    def __matmul__(self, other):
        out = self.new_empty((self.shape[0], other.shape[1]))
        for i, j in out._indices():
            out[i, j] = sum(self[i, k] * other[k, j] for k in range(self.shape[1]))
        return out

    def list(self):
        return [self[index] for index in self._indices()]


def empty_strided(shape, strides, dtype=float32, device="cuda"):
    count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    count = count if all(shape) else 0
    return Tensor(0 if device == "meta" else allocate(count), shape, strides, dtype, device)


def empty(*shape, dtype=float32, device="cuda"):
    return empty_strided(shape, _contiguous(shape), dtype, device)


def ones_like(other):
    out = other.new_empty(other.shape)
    for index in out._indices():
        out[index] = 1
    return out


# ---- Operations ----

ops = types.SimpleNamespace()
_NUMBERS = {float16: 5, float32: 6, bfloat16: 15, float8_e4m3fn: 24}


class _Operation:
    """Runs what is implemented for the device of its first tensor, as the dispatcher does. Element
    types in a list become numbers."""

    def __init__(self, schema, tags):
        self.schema, self.tags, self.run, self.fake = schema, tags, None, None

    def __call__(self, *args, **named):
        args = [[_NUMBERS.get(one, one) for one in arg] if isinstance(arg, list) else arg
                for arg in args]
        return (self.fake if args[0].device == "meta" else self.run)(*args, **named)


class _Library:
    def __init__(self, namespace, kind):
        assert kind == "DEF" and not hasattr(ops, namespace), "it is defined once"
        self._names = types.SimpleNamespace()
        setattr(ops, namespace, self._names)

    def define(self, schema, tags=()):
        setattr(self._names, schema[:schema.index("(")], _Operation(schema, tags))

    def impl(self, name, function, key):
        assert key == "CUDA"
        getattr(self._names, name).run = function


def _register_fake(name, function, lib):
    namespace, operation = name.split("::")
    getattr(getattr(ops, namespace), operation).fake = function


library = types.SimpleNamespace(Library=_Library, register_fake=_register_fake)


# ---- GPUs ----

streams = {}
_C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: streams[ordinal])
cuda = types.SimpleNamespace(current_device=lambda: current)
current = 0
