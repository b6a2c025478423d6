# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels in shared objects, called on tensors."""

import ctypes
import os
import re
import struct

from . import _abi
from ._abi import Arg, DTYPES, DtileInvalid, KernelDesc, MAX_RANK, Tensor, check, runtime
from ._elf import exported
from .team import Team

_PREFIX = "dtile_kernel_"
_CLAUSES = "dtile_clauses_"
# What follows a kernel's name in that of an instance.
_VALUES = re.compile(
    r"(_(auto|bool|true|false|[iu](8|16|32|64)|f8e4m3|f8e5m2|b?f16|f32|f64|n?\d+))+")

_SCALARS = {"bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H",
            "u32": "I", "u64": "Q", "f16": "e", "f32": "f", "f64": "d"}


def _torch_dtypes():
    import torch

    names = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
             "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
             "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f16": "float16",
             "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
    return {getattr(torch, names[name]): i for i, name in enumerate(DTYPES)
            if hasattr(torch, names[name])}


_dtype_numbers = None


def _dtype_number(dtype, where):
    global _dtype_numbers
    if _dtype_numbers is None:
        _dtype_numbers = _torch_dtypes()
    number = _dtype_numbers.get(dtype)
    if number is None:
        raise DtileInvalid(f"{where}: kernels have no element type for {dtype}")
    return number


_stream_of = None


def _current_stream(device):
    """PyTorch's current stream, as a number: without an object for it where PyTorch can."""
    global _stream_of
    if _stream_of is None:
        import torch

        _stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
            lambda ordinal: torch.cuda.current_stream(ordinal).cuda_stream)
    return _stream_of(device)


def _scalar_bits(value, dtype, where):
    name = DTYPES[dtype]
    if name == "bf16":
        # Round to nearest even, as a conversion would.
        bits = struct.unpack("<I", struct.pack("<f", float(value)))[0]
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF
    code = _SCALARS.get(name)
    if code is None:
        raise DtileInvalid(f"{where}: numbers of type {name} cannot be passed")
    try:
        packed = struct.pack("<" + code, float(value) if code in "efd" else value)
    except (struct.error, OverflowError) as error:
        raise DtileInvalid(f"{where}: {value!r} is no {name}: {error}") from None
    return int.from_bytes(packed, "little")


class Kernel:
    """A kernel: call it with tensors and numbers."""

    # Prepared calls are told apart by addresses and shapes; so many are kept.
    _MOST_CALLS = 64

    def __init__(self, library, desc, clauses=""):
        self._library = library
        self._desc = desc
        self._address = ctypes.addressof(desc)
        self.name = desc.name.decode()
        self.params = []
        for i in range(desc.nparams):
            param = desc.params[i]
            is_scratch = param.mode == _abi.MODE_SCRATCH
            if param.kind == _abi.PARAM_SIGNAL or (param.kind == _abi.PARAM_TENSOR and is_scratch):
                continue
            self.params.append((param.name.decode(), param.kind, param.mode, param.dtype,
                                param.rank))
        # `help(kernel)` and `kernel.__doc__` say what callers owe.
        self.__doc__ = f"{self.name}({', '.join(param[0] for param in self.params)})"
        if clauses:
            self.__doc__ += "\n\n" + clauses.replace("`", "")
        self._outputs = [i for i, param in enumerate(self.params) if param[2] == _abi.MODE_OUT]
        self._calls = {}

    def __repr__(self):
        return f"<dtile kernel {self.name}({', '.join(param[0] for param in self.params)})>"

    def _arrange(self, args, out, named):
        """Arguments in the order of the parameters."""
        values = [None] * len(self.params)
        if out is not None:
            outs = out if isinstance(out, (tuple, list)) else (out,)
            if len(outs) != len(self._outputs):
                raise DtileInvalid(f"{self.name} has {len(self._outputs)} outputs, "
                                   f"{len(outs)} given")
            for i, value in zip(self._outputs, outs):
                values[i] = value
        names = {param[0]: i for i, param in enumerate(self.params)}
        for name, value in named.items():
            if name not in names:
                raise DtileInvalid(f"{self.name} has no argument `{name}`; it has "
                                   f"{', '.join(names)}")
            values[names[name]] = value
        free = [i for i, value in enumerate(values) if value is None]
        if len(args) != len(free):
            wanted = ", ".join(self.params[i][0] for i in free)
            raise DtileInvalid(f"{self.name} wants {wanted or 'no more arguments'}; "
                               f"{len(args)} given")
        for i, value in zip(free, args):
            values[i] = value
        return values

    def _prepare(self, values):
        """The arguments for the C ABI, and what they point to."""
        args = (Arg * max(len(values), 1))()
        tensors = []
        for i, (value, (name, kind, _, dtype, rank)) in enumerate(zip(values, self.params)):
            where = f"{self.name}, argument `{name}`"
            if kind == _abi.PARAM_SCALAR:
                args[i].scalar_bits = _scalar_bits(value, dtype, where)
                continue
            if not hasattr(value, "data_ptr"):
                raise DtileInvalid(f"{where}: a tensor is wanted, not a {type(value).__name__}")
            if value.dim() > MAX_RANK:
                raise DtileInvalid(f"{where}: {value.dim()} dimensions; at most {MAX_RANK} are "
                                   "possible")
            tensor = Tensor()
            tensor.data = value.data_ptr()
            tensor.dtype = _dtype_number(value.dtype, where)
            tensor.ndim = value.dim()
            tensor.size[:value.dim()] = value.shape
            tensor.stride[:value.dim()] = value.stride()
            tensors.append(tensor)
            args[i].tensor = ctypes.pointer(tensor)
        return args, tensors

    def __call__(self, *args, out=None, team=None, rank=None, stream=None, **named):
        """Queues a launch of this process's rank (`rank=` where it has several) on the current
        stream; gives the outputs."""
        team = team or Team.current()
        local = 0 if rank is None else rank - team.first_local
        values = args if out is None and not named and len(args) == len(self.params) \
            else self._arrange(args, out, named)
        key = tuple((v.data_ptr(), v.shape, v.stride(), v.dtype) if hasattr(v, "data_ptr") else v
                    for v in values)
        call = self._calls.get(key)
        if call is None:
            if len(self._calls) >= self._MOST_CALLS:
                self._calls.clear()
            call = self._calls[key] = self._prepare(values)
        if stream is None:
            stream = _current_stream(team.devices[local])
        check(runtime().dtile_launch_on(team._handle, local, self._address, call[0], len(values),
                                        stream))
        if len(self._outputs) == 1:
            return values[self._outputs[0]]
        return tuple(values[i] for i in self._outputs) or None


class Library:
    """A shared object with kernels, which are its attributes."""

    def __init__(self, path):
        # Kernels call the runtime.
        runtime()
        self._path = path
        try:
            self._lib = ctypes.CDLL(path)
        except OSError as error:
            raise DtileInvalid(f"{path} cannot be loaded: {error}") from None
        self._kernels = {}
        try:
            names = exported(path)
        except (OSError, ValueError):
            # A name that only the loader finds.
            names = []
        self._symbols = [name[len(_PREFIX):] for name in names if name.startswith(_PREFIX)]

    def __dir__(self):
        return [*super().__dir__(), *self._symbols]

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        kernel = self._kernels.get(name)
        if kernel is None:
            found = self._find(name)
            kernel = self._kernels[name] = Kernel(self, self._descriptor(found),
                                                  self._clauses(found))
        return kernel

    def _find(self, name):
        """An instance is named after its kernel and its generic values, as gemm_bf16_128_256_64."""
        if name in self._symbols or not self._symbols:
            return name
        found = [symbol for symbol in self._symbols
                 if symbol.startswith(name) and _VALUES.fullmatch(symbol[len(name):])]
        if len(found) == 1:
            return found[0]
        problem = f"has several of `{name}`" if found else f"has no kernel `{name}`"
        raise AttributeError(f"{self._path} {problem}; there are {', '.join(self._symbols)}")

    def _clauses(self, name):
        """What the kernel requires and assumes, a line each."""
        try:
            place = ctypes.c_char.in_dll(self._lib, _CLAUSES + name)
        except ValueError:
            return ""
        return ctypes.string_at(ctypes.addressof(place)).decode()

    def _descriptor(self, name):
        try:
            desc = KernelDesc.in_dll(self._lib, _PREFIX + name)
        except ValueError:
            raise AttributeError(f"{self._path} has no kernel `{name}`") from None
        if desc.abi_version != _abi.ABI_VERSION:
            raise DtileInvalid(f"{self._path} was compiled for version {desc.abi_version} of the "
                               f"runtime's ABI, but this package has version {_abi.ABI_VERSION}: "
                               "compile it again")
        return desc


def load(path):
    """The kernels of a shared object: `cc -shared kernel.o -o libkernel.so`."""
    return Library(os.path.abspath(path) if os.path.exists(path) else path)
