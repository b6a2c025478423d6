# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels in shared objects, called on tensors."""

import ctypes
import numbers
import os
import re
import struct
from threading import get_ident

from . import _abi
from ._abi import (Arg, DTYPES, DtileInvalid, KernelDesc, MAX_RANK, Tensor, check, integer,
                   runtime)
from ._elf import exported
from ._meshes import KernelMesh, checked
from .team import Team

_PREFIX = "dtile_kernel_"
_CLAUSES = "dtile_clauses_"
_MESH = "dtile_mesh_"
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


def _known_dtypes():
    global _dtype_numbers
    if _dtype_numbers is None:
        _dtype_numbers = _torch_dtypes()
    return _dtype_numbers


def _dtype_number(dtype, where):
    try:
        number = _known_dtypes().get(dtype)
    except TypeError:
        number = None
    if number is None:
        raise DtileInvalid(f"{where}: kernels have no element type for {dtype} (tensors are "
                           "PyTorch's: torch.from_dlpack makes one of another library's array)")
    return number


_stream_of = None


def _stream_getter():
    """What gives PyTorch's current stream on a device, as a number: without an object for it where
    PyTorch can."""
    global _stream_of
    if _stream_of is None:
        import torch

        _stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
            lambda ordinal: torch.cuda.current_stream(ordinal).cuda_stream)
    return _stream_of


def _scalar_bits(value, dtype, where):
    name = DTYPES[dtype]
    if not isinstance(value, numbers.Real) and not hasattr(value, "__index__"):
        raise DtileInvalid(f"{where}: {value!r} is no {name}: a number is wanted")
    if name == "bf16":
        # Round to nearest even, as a conversion would.
        bits = struct.unpack("<I", struct.pack("<f", float(value)))[0]
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF
    code = _SCALARS.get(name)
    if code is None:
        raise DtileInvalid(f"{where}: numbers of type {name} cannot be passed")
    try:
        packed = struct.pack("<" + code, float(value) if code in "efd" else value)
    except (struct.error, OverflowError, TypeError, ValueError) as error:
        raise DtileInvalid(f"{where}: {value!r} is no {name}: {error}") from None
    return int.from_bytes(packed, "little")


def _scalar_value(bits, dtype):
    """The number that a scalar's bits are, in the fewest digits that give them."""
    name = DTYPES[dtype]
    if name == "bf16":
        value = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    else:
        code = _SCALARS[name]
        value = struct.unpack("<" + code, bits.to_bytes(8, "little")[:struct.calcsize(code)])[0]
    if isinstance(value, float):
        for digits in range(1, 18):
            short = float(f"{value:.{digits}g}")
            if _scalar_bits(short, dtype, "") == bits:
                return short
    return value


def _local(team, rank):
    """The number of a rank among those of this process."""
    local = integer(rank, "rank", most=2 ** 31 - 1) - team.first_local
    if not 0 <= local < team.local_count:
        raise DtileInvalid(f"rank {rank} is not of this process, which has ranks "
                           f"{team.first_local} to {team.first_local + team.local_count - 1}")
    return local


def _is_number(value):
    return not _is_shape(value) and not hasattr(value, "data_ptr")


def _is_shape(value):
    return isinstance(value, (tuple, list))


def _contiguous(shape):
    strides = []
    count = 1
    for size in reversed(shape):
        strides.append(count)
        count *= size
    return strides[::-1]


class Kernel:
    """A kernel: call it with tensors and numbers."""

    # Prepared calls are told apart by shapes; so many are kept.
    _MOST_CALLS = 64

    def __init__(self, library, desc, clauses="", mesh=""):
        self._library = library
        self._desc = desc
        self._address = ctypes.addressof(desc)
        self.name = desc.name.decode()
        self.params = []
        # By position: what stands for scalars that are left out.
        self._defaults = {}
        for i in range(desc.nparams):
            param = desc.params[i]
            is_scratch = param.mode == _abi.MODE_SCRATCH
            if param.kind == _abi.PARAM_SIGNAL or (param.kind == _abi.PARAM_TENSOR and is_scratch):
                continue
            # Of numbers of 8 bits that Python lacks, callers have to give all.
            if param.flags & _abi.PARAM_DEFAULT and DTYPES[param.dtype] in (*_SCALARS, "bf16"):
                self._defaults[len(self.params)] = _scalar_value(param.default_bits, param.dtype)
            self.params.append((param.name.decode(), param.kind, param.mode, param.dtype,
                                param.rank))
        # `help(kernel)` and `kernel.__doc__` say what callers owe.
        self.__doc__ = self._signature()
        if clauses:
            self.__doc__ += "\n\n" + clauses.replace("`", "")
        # Its axes, or None; sizes of axes that are arguments follow from the mesh of a launch.
        self.mesh = KernelMesh(self.name, mesh) if mesh else None
        if self.mesh:
            self.__doc__ += f"\n\nmesh: {self.mesh}"
        self._outputs = [i for i, param in enumerate(self.params) if param[2] == _abi.MODE_OUT]
        self._tensors = [i for i, param in enumerate(self.params) if param[1] != _abi.PARAM_SCALAR]
        self._numbers = [i for i, param in enumerate(self.params) if param[1] == _abi.PARAM_SCALAR]
        self._calls = {}
        # By shapes: sizes of outputs, and whether a launch would be taken.
        self._sizes = {}
        self._answers = {}

    def __repr__(self):
        return f"<dtile kernel {self._signature()}>"

    def _signature(self):
        """As `norm(x, y, eps=1e-06)`."""
        words = [f"{param[0]}={self._defaults[i]!r}" if i in self._defaults else param[0]
                 for i, param in enumerate(self.params)]
        return f"{self.name}({', '.join(words)})"

    def _free_for(self, args, free):
        """Of the parameters `free`, those that `args` are for; outputs and scalars with default
        values may be left out. None where their number fits none. Where several sets fit it, one in
        which numbers meet scalars goes before the others."""
        fitting = []
        for left_out in (set(), set(self._outputs)):
            taken = [i for i in free if i not in left_out]
            # Those with default values stand last.
            least = sum(i not in self._defaults for i in taken)
            if least <= len(args) <= len(taken):
                fitting.append(taken[:len(args)])
        for taken in fitting:
            if all((self.params[i][1] == _abi.PARAM_SCALAR) == _is_number(value)
                   for i, value in zip(taken, args)):
                return taken
        return fitting[0] if fitting else None

    def _sizes_of_axes(self, team, mesh):
        """The arguments that the mesh of the launch gives, else that of the team."""
        if mesh is not None and self.mesh is None:
            raise DtileInvalid(f"{self.name} has no axes, so its launches have no mesh")
        mesh = checked(mesh, team.size) or team.mesh
        return self.mesh.arguments(mesh) if self.mesh and mesh else {}

    def _arrange(self, args, out, named, axes=None):
        """Arguments in the order of the parameters."""
        values = [None] * len(self.params)
        for name, size in (axes or {}).items():
            if named.setdefault(name, size) != size:
                raise DtileInvalid(f"{self.name}, argument `{name}`: {named[name]} is given, and "
                                   f"the mesh has {size} places there")
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
        taken = self._free_for(args, free)
        if taken is None:
            wanted = ", ".join(self.params[i][0] for i in free)
            raise DtileInvalid(f"{self.name} wants {wanted or 'no more arguments'}; "
                               f"{len(args)} given")
        for i, value in zip(taken, args):
            values[i] = value
        for i, value in self._defaults.items():
            if values[i] is None:
                values[i] = value
        return values

    def _shape_args(self, values):
        """The same of shapes alone: values are tensors, shapes, numbers, or None."""
        args = (Arg * max(len(values), 1))()
        tensors = []
        for i, (value, (name, kind, _, dtype, _)) in enumerate(zip(values, self.params)):
            where = f"{self.name}, argument `{name}`"
            if kind == _abi.PARAM_SCALAR:
                args[i].scalar_bits = _scalar_bits(0 if value is None else value, dtype, where)
                continue
            if value is None:
                continue
            is_shape = _is_shape(value)
            shape = value if is_shape else value.shape
            if is_shape:
                shape = [integer(size, f"{where}: a size") for size in shape]
            if len(shape) > MAX_RANK:
                raise DtileInvalid(f"{where}: {len(shape)} dimensions; at most {MAX_RANK} are "
                                   "possible")
            tensor = Tensor()
            tensor.dtype = dtype if is_shape else _dtype_number(value.dtype, where)
            tensor.ndim = len(shape)
            tensor.size[:len(shape)] = shape
            tensor.stride[:len(shape)] = _contiguous(shape) if is_shape else value.stride()
            tensors.append(tensor)
            args[i].tensor = ctypes.pointer(tensor)
        return args, tensors

    def _shapes_of(self, values):
        return tuple((tuple(v.shape), v.stride(), v.dtype) if hasattr(v, "stride") else
                     tuple(v) if _is_shape(v) else v for v in values)

    def _output_sizes(self, values, team, local):
        """Sizes of the outputs that are None, as the kernel declares them."""
        key = (team.size, local, self._shapes_of(values))
        found = self._sizes.get(key)
        if found is None:
            args, _tensors = self._shape_args(values)
            found = {}
            for i in self._outputs:
                if values[i] is None:
                    sizes = (ctypes.c_int64 * MAX_RANK)()
                    check(runtime().dtile_kernel_sizes(team._handle, local, self._address, args,
                                                       len(values), i, sizes))
                    found[i] = tuple(sizes[:self.params[i][4]])
            if len(self._sizes) >= self._MOST_CALLS:
                self._sizes.clear()
            self._sizes[key] = found
        return found

    def _make_outputs(self, values, team, local):
        """Allocates the outputs that are None, beside the first tensor that was given."""
        like = next((v for v in values if hasattr(v, "new_empty")), None)
        if like is None:
            raise DtileInvalid(f"{self.name}: there is no tensor to make the outputs beside: pass "
                               "out=")
        for i, sizes in self._output_sizes(values, team, local).items():
            dtype = self._torch_dtype(self.params[i][3],
                                      f"{self.name}, argument `{self.params[i][0]}`")
            values[i] = like.new_empty(sizes, dtype=dtype)

    def scratch(self, name, team=None, rank=None):
        """What the last launch on this process's rank has left in a scratch object: the copy that
        it had, where it stands. Waits for this process's GPUs. Later launches write there in their
        turn, so copy what is to stay."""
        team = team or Team.current()
        local = 0 if rank is None else _local(team, rank)
        found = Tensor()
        check(runtime().dtile_kernel_scratch(team._handle, local, self._address, name.encode(),
                                             ctypes.byref(found)))
        dtype = self._torch_dtype(found.dtype, f"{self.name}, scratch object `{name}`")
        return team._tensor_at(found.data, local, tuple(found.size[:found.ndim]), dtype)

    @staticmethod
    def _torch_dtype(number, where):
        dtype = next((key for key, value in _known_dtypes().items() if value == number), None)
        if dtype is None:
            raise DtileInvalid(f"{where}: tensors have no element type for {DTYPES[number]}")
        return dtype

    def supports(self, *args, team=None, rank=None, mesh=None, **named):
        """Whether a launch on this process's rank would be taken, without one: what the kernel
        requires of sizes and numbers, code for the GPU, room for what it makes. Arguments are as of
        a call, but tensors may be shapes, (rows, columns), and outputs may be left out."""
        return not self.refusal(*args, team=team, rank=rank, mesh=mesh, **named)

    def refusal(self, *args, team=None, rank=None, mesh=None, **named):
        """Why `supports` says no, or ""."""
        team = team or Team.current()
        local = 0 if rank is None else _local(team, rank)
        values = self._arrange(args, None, named, self._sizes_of_axes(team, mesh))
        key = (team.state(), local, self._shapes_of(values))
        answer = self._answers.get(key)
        if answer is None:
            answer = self._ask(values, team, local)
            if len(self._answers) >= self._MOST_CALLS:
                self._answers.clear()
            self._answers[key] = answer
        return answer

    def _ask(self, values, team, local):
        """"", or why not."""
        for i in self._tensors:
            value = values[i]
            if value is not None and not _is_shape(value) and not hasattr(value, "stride"):
                raise DtileInvalid(f"{self.name}, argument `{self.params[i][0]}`: a tensor or a "
                                   f"shape is wanted, not a {type(value).__name__}")
        try:
            if any(values[i] is None for i in self._outputs):
                for i, sizes in self._output_sizes(values, team, local).items():
                    values[i] = sizes
            args, _tensors = self._shape_args(values)
        except DtileInvalid as refused:
            return str(refused)
        supported = ctypes.c_int32()
        check(runtime().dtile_kernel_supports(team._handle, local, self._address, args, len(values),
                                              ctypes.byref(supported)))
        return "" if supported.value else runtime().dtile_last_error().decode(errors="replace")

    def _prepare(self, values):
        """A call with tensors of these types, sizes and strides."""
        args = (Arg * max(len(values), 1))()
        tensors = []
        for i, (value, (name, kind, _, dtype, _)) in enumerate(zip(values, self.params)):
            where = f"{self.name}, argument `{name}`"
            if kind == _abi.PARAM_SCALAR:
                continue
            if not hasattr(value, "data_ptr"):
                raise DtileInvalid(f"{where}: a tensor is wanted, not a {type(value).__name__}")
            if value.dim() > MAX_RANK:
                raise DtileInvalid(f"{where}: {value.dim()} dimensions; at most {MAX_RANK} are "
                                   "possible")
            tensor = Tensor()
            tensor.dtype = _dtype_number(value.dtype, where)
            tensor.ndim = value.dim()
            tensor.size[:value.dim()] = value.shape
            tensor.stride[:value.dim()] = value.stride()
            tensors.append(tensor)
            args[i].tensor = ctypes.pointer(tensor)
        return args, tensors

    def _call_for(self, values):
        """The arguments for the C ABI. Those of one thread are used again, with other addresses."""
        try:
            key = (get_ident(), *[(values[i].shape, values[i].stride(), values[i].dtype)
                                  for i in self._tensors])
            call = self._calls.get(key)
        except (AttributeError, TypeError):
            # What is no tensor; preparing says which.
            key = call = None
        if call is None:
            call = self._prepare(values)
            if len(self._calls) >= self._MOST_CALLS:
                self._calls.clear()
            if key is not None:
                self._calls[key] = call
        args, tensors = call
        for tensor, i in zip(tensors, self._tensors):
            tensor.data = values[i].data_ptr()
        for i in self._numbers:
            name, _, _, dtype, _ = self.params[i]
            args[i].scalar_bits = _scalar_bits(values[i], dtype,
                                               f"{self.name}, argument `{name}`")
        return args

    def _launch(self, call, count, team, local, stream):
        if stream is None:
            stream = _stream_getter()(team.devices[local])
        elif not isinstance(stream, (int, ctypes.c_void_p)):
            # An object of PyTorch's.
            stream = integer(getattr(stream, "cuda_stream", stream), f"{self.name}: stream",
                             most=2 ** 64 - 1)
        status = runtime().dtile_launch_on(team._handle, local, self._address, call, count, stream)
        if status != 0:
            check(status)

    def queue_of_vectors(self, source, target, team, local=0):
        """A function that queues calls with two vectors of these types and sizes; it takes where
        they begin. Nothing is looked at again, so its calls cost less than those of the kernel.
        For one thread at a time."""
        args, (first, second) = self._prepare([source.view(-1), target.view(-1)])
        device, address = team.devices[local], self._address
        launch, stream_of = runtime().dtile_launch_on, _stream_getter()

        def queue(source, target):
            first.data = source
            second.data = target
            status = launch(team._handle, local, address, args, 2, stream_of(device))
            if status != 0:
                check(status)

        return queue

    def __call__(self, *args, out=None, team=None, rank=None, stream=None, mesh=None, **named):
        """Queues a launch of this process's rank (`rank=` where it has several) on the current
        stream; gives the outputs, which are made on that stream where they are not given. Sizes of
        axes follow from the team's mesh, or from `mesh=`."""
        team = team or Team.current()
        local = 0 if rank is None else _local(team, rank)
        if out is None and mesh is None and not named and len(args) == len(self.params):
            values = args
        else:
            values = self._arrange(args, out, named, self._sizes_of_axes(team, mesh))
        for i in self._outputs:
            if values[i] is None:
                values = list(values)
                self._make_outputs(values, team, local)
                break
        self._launch(self._call_for(values), len(values), team, local, stream)
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
            names = exported(path)
        except OSError:
            # A name that only the loader finds.
            names = []
        except ValueError as error:
            # The loader would map what is not there.
            raise DtileInvalid(f"{path} cannot be loaded: {error}") from None
        try:
            self._lib = ctypes.CDLL(path)
        except OSError as error:
            raise DtileInvalid(f"{path} cannot be loaded: {error}") from None
        self._kernels = {}
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
                                                  self._text(_CLAUSES + found),
                                                  self._text(_MESH + found))
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

    def _text(self, name):
        """What a kernel requires and assumes, or its axes, a line each."""
        try:
            place = ctypes.c_char.in_dll(self._lib, name)
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
    if not isinstance(path, (str, os.PathLike)):
        raise DtileInvalid(f"load wants the path of a shared object, not {path!r}")
    path = os.fspath(path)
    return Library(os.path.abspath(path) if os.path.exists(path) else path)
