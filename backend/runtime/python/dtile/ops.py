# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations of PyTorch that run dtile's kernels: importing this defines torch.ops.dtile.

Names and signatures are those of torch.ops.symm_mem where it has the operation. Groups are named,
as there. Each operation is here, too, with `supports(*args)` and `refusal(*args)` beside it, which
say before a launch whether it would be taken.

An operation is written once, against the `launch` of its group (_operations.py): the real one
queues kernels, that of a question asks them, and that of a trace does nothing, so that shapes come
from the same lines."""

from threading import get_ident

from . import _groups, _operations, _programs, _scaled
from ._abi import DTYPES, DtileInvalid, DtileUnavailable
from ._groups import close, enable
from .kernels import _dtype_number

__all__ = ["close", "enable"]


class _Trace:
    """Only shapes are wanted."""

    def __init__(self, name):
        self.ranks = _groups.size_of(name)

    def __call__(self, kernel, *tensors):
        _element_type(tensors)

    def vectors(self, kernel, source, target):
        """Contiguous tensors with equally many elements, each as one dimension."""
        _element_type((source, target))

    def mixed(self, kernel, *tensors):
        """Tensors of several element types; the kernel is that for the last one's."""
        _element_type(tensors[-1:])

    def own(self, tensor, dim):
        """This rank's part of a tensor that has all ranks' along a dimension."""
        return tensor.narrow(dim, 0, tensor.shape[dim] // self.ranks)


class _Run:
    """Kernels are queued on the current stream. There is one a team."""

    _of = {}
    # Vectors are told apart by types and sizes; so many are kept.
    _MOST_QUEUES = 64

    def __init__(self, team):
        self._team = team
        self._kernels = {}
        self._queues = {}
        self.ranks = team.size

    @staticmethod
    def of(name):
        run = _Run._of.get(name)
        if run is None or run._team is not _groups._teams.get(name):
            run = _Run._of[name] = _Run(_groups.team_of(name))
        return run

    def _kernel(self, kernel, tensors):
        dtype = tensors[0].dtype
        found = self._kernels.get((kernel, dtype))
        if found is None:
            found = _programs.kernel(kernel, _element_type(tensors), self._team)
            self._kernels[kernel, dtype] = found
        for tensor in tensors:
            if tensor.dtype != dtype:
                _element_type(tensors)
        return found

    def mixed(self, kernel, *tensors):
        self._kernel(kernel, tensors[-1:])(*tensors, team=self._team)

    def own(self, tensor, dim):
        size = tensor.shape[dim] // self.ranks
        return tensor.narrow(dim, self._team.rank * size, size)

    def __call__(self, kernel, *tensors):
        self._kernel(kernel, tensors)(*tensors, team=self._team)

    def vectors(self, kernel, source, target):
        key = (kernel, source.dtype, target.dtype, source.numel(), get_ident())
        queue = self._queues.get(key)
        if queue is None:
            if len(self._queues) >= self._MOST_QUEUES:
                self._queues.clear()
            found = self._kernel(kernel, (source, target))
            queue = self._queues[key] = found.queue_of_vectors(source, target, team=self._team)
        queue(source.data_ptr(), target.data_ptr())


class _Ask:
    """Kernels are asked."""

    def __init__(self, name):
        self._team = _groups.team_of(name)
        self.ranks = self._team.size

    def _ask(self, kernel, dtype, tensors):
        refusal = _programs.kernel(kernel, dtype, self._team).refusal(*tensors, team=self._team)
        if refusal:
            raise DtileInvalid(refusal)

    def __call__(self, kernel, *tensors):
        self._ask(kernel, _element_type(tensors), tensors)

    def vectors(self, kernel, source, target):
        self(kernel, source.view(-1), target.view(-1))

    def mixed(self, kernel, *tensors):
        self._ask(kernel, _element_type(tensors[-1:]), tensors)

    def own(self, tensor, dim):
        size = tensor.shape[dim] // self.ranks
        return tensor.narrow(dim, self._team.rank * size, size)


def _element_type(tensors):
    dtype = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype != dtype:
            raise DtileInvalid(f"all tensors of an operation have one element type, not {dtype} "
                               f"and {tensor.dtype}")
    name = DTYPES[_dtype_number(dtype, "an operation's tensor")]
    if name not in _programs.TYPES:
        raise DtileInvalid(f"operations take tensors of {', '.join(_programs.TYPES)}, not {name}")
    return name


# ---- Their definition ----

# Torch's own first, as torch.ops.symm_mem has them.
_SCHEMAS = {
    "fused_all_gather_matmul(Tensor A, Tensor[] Bs, int gather_dim, str group_name, *, "
    "bool return_A = True) -> (Tensor?, Tensor[])": _operations.fused_all_gather_matmul,
    "fused_matmul_reduce_scatter(Tensor A, Tensor B, str reduce_op, int scatter_dim, "
    "str group_name) -> Tensor": _operations.fused_matmul_reduce_scatter,
    "fused_all_gather_scaled_matmul(Tensor A, Tensor[] Bs, Tensor A_scale, Tensor[] B_scales, "
    "int gather_dim, str group_name, Tensor?[] biases, Tensor?[] result_scales, "
    "ScalarType?[] out_dtypes, bool[] use_fast_accum) -> (Tensor, Tensor[])":
        _scaled.fused_all_gather_scaled_matmul,
    "fused_scaled_matmul_reduce_scatter(Tensor A, Tensor B, Tensor A_scale, Tensor B_scale, "
    "str reduce_op, int orig_scatter_dim, int scatter_dim_after_maybe_reshape, str group_name, "
    "SymInt[]? output_shape, Tensor? bias = None, Tensor? result_scale = None, "
    "ScalarType? out_dtype = None, bool use_fast_accum = False) -> Tensor":
        _scaled.fused_scaled_matmul_reduce_scatter,
    "one_shot_all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor":
        _operations.one_shot_all_reduce,
    "one_shot_all_reduce_out(Tensor input, str reduce_op, str group_name, Tensor(a!) out) "
    "-> Tensor(a!)": _operations.one_shot_all_reduce_out,
    "two_shot_all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)":
        _operations.two_shot_all_reduce_,
    "two_shot_all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor":
        _operations.two_shot_all_reduce,
    "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor": _operations.all_reduce,
    "all_gather(Tensor input, int gather_dim, str group_name) -> Tensor": _operations.all_gather,
    "reduce_scatter(Tensor input, str reduce_op, int scatter_dim, str group_name) -> Tensor":
        _operations.reduce_scatter,
    "fused_matmul_all_reduce(Tensor A, Tensor B, str reduce_op, str group_name) -> Tensor":
        _operations.fused_matmul_all_reduce,
}


def _parameters(schema):
    """Names of the positional parameters of a schema."""
    inside = schema[schema.index("(") + 1:schema.index(") ->")]
    return [part.split(" = ")[0].split()[-1] for part in inside.split("*,")[0].split(",")
            if part.strip()]


class Operation:
    """An operation: torch.ops.dtile has it, too."""

    def __init__(self, schema, write):
        self.name = schema[:schema.index("(")]
        self.schema = schema
        self.__doc__ = schema
        self._write = write
        names = _parameters(schema)
        self._group = names.index("group_name")
        self._names = names
        self._called = None

    def __repr__(self):
        return f"<dtile operation {self.schema}>"

    def _with(self, launches, args, named):
        # As torch has it: by position, or all by name.
        if len(args) <= self._group and "group_name" not in named:
            raise DtileInvalid(f"{self.name} wants a group_name: {self.schema}")
        return self._write(launches, *args, **named)

    def run(self, *args, **named):
        """As the dispatcher calls it."""
        return self._write(_Run.of, *args, **named)

    def trace(self, *args, **named):
        return self._with(_Trace, args, named)

    def __call__(self, *args, **named):
        return self._called(*args, **named)

    def refusal(self, *args, **named):
        """Why a call with these would be refused, or "". Nothing runs, and no other rank takes
        part once the group has its team; tensors may be on the device `meta`."""
        try:
            self._with(_Ask, [_without_memory(arg) for arg in args],
                       {name: _without_memory(arg) for name, arg in named.items()})
        except (DtileInvalid, DtileUnavailable) as refused:
            return str(refused)
        except (AttributeError, TypeError, ValueError) as wrong:
            # What PyTorch's dispatcher would not take.
            return f"{self.schema} does not take these arguments: {wrong}"
        return ""

    def supports(self, *args, **named):
        """Whether a call with these would be taken."""
        return not self.refusal(*args, **named)


def _without_memory(value):
    if isinstance(value, (list, tuple)):
        return [_without_memory(one) for one in value]
    if not hasattr(value, "stride"):
        return value
    import torch

    kind = getattr(value.device, "type", value.device)
    if kind not in ("cuda", "meta"):
        raise DtileInvalid(f"a tensor is on the device {value.device}; operations take those of "
                           "GPUs")
    return torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype,
                               device="meta")


def _define():
    try:
        import torch
    except ImportError as missing:
        raise DtileUnavailable(f"dtile.ops needs PyTorch, which cannot be imported ({missing}); "
                               "kernels do not: dtile.build, dtile.load") from missing
    fake = getattr(torch.library, "register_fake", None)
    if fake is None:
        raise DtileUnavailable("dtile.ops needs PyTorch 2.4 or later, with "
                               f"torch.library.register_fake; this is {torch.__version__}")
    library = torch.library.Library("dtile", "DEF")
    # A matrix that is stored by columns is as good as one by rows: it is not to be copied.
    tags = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
    for schema, write in _SCHEMAS.items():
        operation = Operation(schema, write)
        library.define(schema, tags=tags)
        library.impl(operation.name, operation.run, "CUDA")
        fake(f"dtile::{operation.name}", operation.trace, lib=library)
        operation._called = getattr(torch.ops.dtile, operation.name)
        globals()[operation.name] = operation
        __all__.append(operation.name)
    return library


# Definitions last as long as this does.
_library = _define()
