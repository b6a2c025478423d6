# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations of PyTorch that run dtile's kernels: importing this defines torch.ops.dtile.

Names and signatures are those of torch.ops.symm_mem where it has the operation. Groups are named,
as there. Each operation is here, too, with `supports(*args)` and `refusal(*args)` beside it, which
say before a launch whether it would be taken.

An operation is written once, against a `launch`: the real one queues kernels, that of a question
asks them, and that of a trace does nothing, so that shapes come from the same lines."""

from . import _groups, _programs
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

    def vectors(self, kernel, *tensors):
        """Contiguous tensors, each as one dimension."""
        _element_type(tensors)


class _Run:
    """Kernels are queued on the current stream. There is one a team."""

    _of = {}

    def __init__(self, team):
        self._team = team
        self._kernels = {}
        self.ranks = team.size

    @staticmethod
    def of(name):
        team = _groups.team_of(name)
        run = _Run._of.get(name)
        if run is None or run._team is not team:
            run = _Run._of[name] = _Run(team)
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

    def __call__(self, kernel, *tensors):
        self._kernel(kernel, tensors)(*tensors, team=self._team)

    def vectors(self, kernel, *tensors):
        self._kernel(kernel, tensors).on_vectors(tensors, self._team)


class _Ask:
    """Kernels are asked."""

    def __init__(self, name):
        self._team = _groups.team_of(name)
        self.ranks = self._team.size

    def __call__(self, kernel, *tensors):
        found = _programs.kernel(kernel, _element_type(tensors), self._team)
        refusal = found.refusal(*tensors, team=self._team)
        if refusal:
            raise DtileInvalid(refusal)

    def vectors(self, kernel, *tensors):
        self(kernel, *[tensor.view(-1) for tensor in tensors])


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


# ---- The operations ----


def _averaged(launch, out, reduce_op):
    return out.div_(launch.ranks) if reduce_op == "avg" else out


def _check_reduce(reduce_op):
    if reduce_op not in ("sum", "avg"):
        raise DtileInvalid(f"reduce_op is `{reduce_op}`; it must be sum or avg")


def _check_dim(name, dim, tensor):
    if not 0 <= dim < tensor.dim():
        raise DtileInvalid(f"{name} is {dim}; the tensor has {tensor.dim()} dimensions")


def _check_matrices(first, others):
    if first.dim() < 2:
        raise DtileInvalid(f"A has {first.dim()} dimensions; it must have two or more")
    for other in others:
        if other.dim() != 2:
            raise DtileInvalid(f"B has {other.dim()} dimensions; it must be a matrix")
        if other.shape[0] != first.shape[-1]:
            raise DtileInvalid(f"A has {first.shape[-1]} columns, but B has {other.shape[0]} rows")


def _rows(tensor, dim):
    """A matrix whose rows begin with a dimension."""
    if dim == 0 and tensor.dim() == 2:
        return tensor
    return tensor.movedim(dim, 0).flatten(0, -2)


def _from_rows(matrix, shape, dim):
    """The other way, with a last dimension as the matrix has it; `shape` begins with `dim`."""
    if dim == 0 and len(shape) == 2:
        return matrix
    return matrix.view(*shape[:-1], matrix.shape[-1]).movedim(0, dim)


def _gathered(launch, tensor):
    """All ranks' tensors, one behind the other along the first dimension."""
    mine = tensor.contiguous()
    out = mine.new_empty((launch.ranks * mine.shape[0], *mine.shape[1:]))
    launch("all_gather", mine.view(-1), out.view(launch.ranks, mine.numel()))
    return out


def _all_gather(launch, tensor, gather_dim):
    _check_dim("gather_dim", gather_dim, tensor)
    if gather_dim == 0:
        return _gathered(launch, tensor)
    return _gathered(launch, tensor.movedim(gather_dim, 0)).movedim(0, gather_dim)


def _reduce_scatter(launch, tensor, reduce_op, scatter_dim):
    _check_reduce(reduce_op)
    _check_dim("scatter_dim", scatter_dim, tensor)
    _check_parts(launch, tensor, scatter_dim)
    mine = tensor.movedim(scatter_dim, 0).contiguous()
    out = mine.new_empty((mine.shape[0] // launch.ranks, *mine.shape[1:]))
    launch("reduce_scatter", mine.view(launch.ranks, out.numel()), out.view(-1))
    return _averaged(launch, out, reduce_op).movedim(0, scatter_dim)


def _check_parts(launch, tensor, dim):
    if tensor.shape[dim] % launch.ranks != 0:
        raise DtileInvalid(f"dimension {dim} has the size {tensor.shape[dim]}, which "
                           f"{launch.ranks} ranks cannot share evenly")


def _reduced(launch, kernel, tensor, reduce_op):
    _check_reduce(reduce_op)
    mine = tensor.contiguous()
    out = mine.new_empty(mine.shape)
    launch.vectors(kernel, mine, out)
    return _averaged(launch, out, reduce_op)


def _one_shot_all_reduce(launch, input, reduce_op):
    return _reduced(launch, "one_shot", input, reduce_op)


def _one_shot_all_reduce_out(launch, input, reduce_op, out):
    _check_reduce(reduce_op)
    if out.shape != input.shape or not out.is_contiguous():
        raise DtileInvalid("out must be contiguous and have the shape of the input")
    launch.vectors("one_shot", input.contiguous(), out)
    return _averaged(launch, out, reduce_op)


def _two_shot_all_reduce(launch, input, reduce_op):
    return _reduced(launch, "two_shot", input, reduce_op)


def _two_shot_all_reduce_(launch, input, reduce_op):
    # What a kernel writes is no other argument of it.
    return input.copy_(_reduced(launch, "two_shot", input, reduce_op))


def _all_reduce(launch, input, reduce_op):
    return _reduced(launch, "all_reduce", input, reduce_op)


def _fused_all_gather_matmul(launch, A, Bs, gather_dim, return_A=True):
    _check_matrices(A, Bs)
    _check_dim("gather_dim", gather_dim, A)
    if gather_dim == A.dim() - 1:
        # The sum goes over what is gathered.
        raise DtileInvalid(f"gather_dim is {gather_dim}, the dimension that the product sums over; "
                           "it must be an earlier one")
    rows = _rows(A, gather_dim)
    shape = (launch.ranks * A.shape[gather_dim],
             *[size for d, size in enumerate(A.shape) if d != gather_dim])
    if return_A or len(Bs) != 1:
        # Gathered once, whoever reads it.
        whole = _gathered(launch, rows)
        outs = [whole @ B for B in Bs]
    else:
        whole = None
        outs = [rows.new_empty((launch.ranks * rows.shape[0], Bs[0].shape[1]))]
        launch("all_gather_matmul", rows, Bs[0].t(), outs[0])
    return (_from_rows(whole, shape, gather_dim) if return_A else None,
            [_from_rows(out, shape, gather_dim) for out in outs])


def _fused_matmul_reduce_scatter(launch, A, B, reduce_op, scatter_dim):
    _check_reduce(reduce_op)
    _check_matrices(A, (B,))
    _check_dim("scatter_dim", scatter_dim, A)
    if scatter_dim == A.dim() - 1:
        # Columns of the product are rows of the transposed one.
        if B.shape[1] % launch.ranks != 0:
            raise DtileInvalid(f"B has {B.shape[1]} columns, which {launch.ranks} ranks cannot "
                               "share evenly")
        rows = A.flatten(0, -2)
        out = rows.new_empty((B.shape[1] // launch.ranks, rows.shape[0]))
        launch("matmul_reduce_scatter", B.t(), rows, out)
        out = _averaged(launch, out, reduce_op).t()
        return out.reshape(*A.shape[:-1], out.shape[1])
    _check_parts(launch, A, scatter_dim)
    rows = _rows(A, scatter_dim)
    shape = (A.shape[scatter_dim] // launch.ranks,
             *[size for d, size in enumerate(A.shape) if d != scatter_dim])
    out = rows.new_empty((rows.shape[0] // launch.ranks, B.shape[1]))
    launch("matmul_reduce_scatter", rows, B.t(), out)
    return _from_rows(_averaged(launch, out, reduce_op), shape, scatter_dim)


def _fused_matmul_all_reduce(launch, A, B, reduce_op):
    _check_reduce(reduce_op)
    _check_matrices(A, (B,))
    rows = A if A.dim() == 2 else A.flatten(0, -2)
    out = rows.new_empty((rows.shape[0], B.shape[1]))
    launch("matmul_all_reduce", rows, B.t(), out)
    return _averaged(launch, out, reduce_op).view(*A.shape[:-1], B.shape[1])


# Torch's own first, as torch.ops.symm_mem has them.
_SCHEMAS = {
    "fused_all_gather_matmul(Tensor A, Tensor[] Bs, int gather_dim, str group_name, *, "
    "bool return_A = True) -> (Tensor?, Tensor[])": _fused_all_gather_matmul,
    "fused_matmul_reduce_scatter(Tensor A, Tensor B, str reduce_op, int scatter_dim, "
    "str group_name) -> Tensor": _fused_matmul_reduce_scatter,
    "one_shot_all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor":
        _one_shot_all_reduce,
    "one_shot_all_reduce_out(Tensor input, str reduce_op, str group_name, Tensor(a!) out) "
    "-> Tensor(a!)": _one_shot_all_reduce_out,
    "two_shot_all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)":
        _two_shot_all_reduce_,
    "two_shot_all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor":
        _two_shot_all_reduce,
    "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor": _all_reduce,
    "all_gather(Tensor input, int gather_dim, str group_name) -> Tensor": _all_gather,
    "reduce_scatter(Tensor input, str reduce_op, int scatter_dim, str group_name) -> Tensor":
        _reduce_scatter,
    "fused_matmul_all_reduce(Tensor A, Tensor B, str reduce_op, str group_name) -> Tensor":
        _fused_matmul_all_reduce,
}


# ---- Their definition ----


def _parameters(schema):
    """Names of the positional parameters of a schema."""
    inside = schema[schema.index("(") + 1:schema.index(") ->")]
    return [part.split()[-1] for part in inside.split("*,")[0].split(",") if part.strip()]


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

    def _with(self, launcher, args, named):
        args = list(args)
        # As torch has it: by position, or all by name.
        if len(args) > self._group:
            name = args.pop(self._group)
        elif "group_name" in named:
            named = dict(named)
            name = named.pop("group_name")
        else:
            raise DtileInvalid(f"{self.name} wants a group_name: {self.schema}")
        return self._write(launcher(name), *args, **named)

    def run(self, *args, **named):
        at = self._group
        if len(args) > at:
            # As the dispatcher calls it.
            return self._write(_Run.of(args[at]), *args[:at], *args[at + 1:], **named)
        return self._with(_Run.of, args, named)

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
        except DtileInvalid as refused:
            return str(refused)
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
