# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the operations of dtile.ops are. Each is written once: `launches` gives the `launch` of a
group, which queues kernels, asks them, or does nothing (ops.py). Those with scales are in
_scaled.py."""

from ._abi import DtileInvalid


def averaged(launch, out, reduce_op):
    return out.div_(launch.ranks) if reduce_op == "avg" else out


def check_reduce(reduce_op):
    if reduce_op not in ("sum", "avg"):
        raise DtileInvalid(f"reduce_op is `{reduce_op}`; it must be sum or avg")


def check_dim(name, dim, tensor):
    if not 0 <= dim < tensor.dim():
        raise DtileInvalid(f"{name} is {dim}; the tensor has {tensor.dim()} dimensions")


def check_gather_dim(dim, A):
    check_dim("gather_dim", dim, A)
    if dim == A.dim() - 1:
        # The sum goes over what is gathered.
        raise DtileInvalid(f"gather_dim is {dim}, the dimension that the product sums over; it "
                           "must be an earlier one")


def check_matrices(first, others):
    if first.dim() < 2:
        raise DtileInvalid(f"A has {first.dim()} dimensions; it must have two or more")
    for other in others:
        if other.dim() != 2:
            raise DtileInvalid(f"B has {other.dim()} dimensions; it must be a matrix")
        if other.shape[0] != first.shape[-1]:
            raise DtileInvalid(f"A has {first.shape[-1]} columns, but B has {other.shape[0]} rows")


def _check_alike(first, others):
    for other in others:
        if other.dtype != first.dtype:
            raise DtileInvalid(f"A has elements of {first.dtype}, but B of {other.dtype}")


def shape_from(tensor, dim, size):
    """A tensor's shape with a dimension first, and of another size."""
    return (size, *[old for d, old in enumerate(tensor.shape) if d != dim])


def rows_of(tensor, dim):
    """A matrix whose rows begin with a dimension."""
    if dim == 0 and tensor.dim() == 2:
        return tensor
    return tensor.movedim(dim, 0).flatten(0, -2)


def from_rows(matrix, shape, dim):
    """The other way, with a last dimension as the matrix has it; `shape` begins with `dim`."""
    if dim == 0 and len(shape) == 2:
        return matrix
    return matrix.view(*shape[:-1], matrix.shape[-1]).movedim(0, dim)


def gathered(launch, tensor):
    """All ranks' tensors, one behind the other along the first dimension."""
    mine = tensor.contiguous()
    out = mine.new_empty((launch.ranks * mine.shape[0], *mine.shape[1:]))
    launch("all_gather", mine.view(-1), out.view(launch.ranks, mine.numel()))
    return out


def all_gather(launches, tensor, gather_dim, group_name):
    launch = launches(group_name)
    check_dim("gather_dim", gather_dim, tensor)
    if gather_dim == 0:
        return gathered(launch, tensor)
    return gathered(launch, tensor.movedim(gather_dim, 0)).movedim(0, gather_dim)


def reduce_scatter(launches, tensor, reduce_op, scatter_dim, group_name):
    launch = launches(group_name)
    check_reduce(reduce_op)
    check_dim("scatter_dim", scatter_dim, tensor)
    check_parts(launch, tensor, scatter_dim)
    mine = tensor.movedim(scatter_dim, 0).contiguous()
    out = mine.new_empty((mine.shape[0] // launch.ranks, *mine.shape[1:]))
    launch("reduce_scatter", mine.view(launch.ranks, out.numel()), out.view(-1))
    return averaged(launch, out, reduce_op).movedim(0, scatter_dim)


def check_parts(launch, tensor, dim):
    if tensor.shape[dim] % launch.ranks != 0:
        raise DtileInvalid(f"dimension {dim} has the size {tensor.shape[dim]}, which "
                           f"{launch.ranks} ranks cannot share evenly")


def _reduced(launch, kernel, tensor, reduce_op):
    check_reduce(reduce_op)
    mine = tensor.contiguous()
    out = mine.new_empty(mine.shape)
    launch.vectors(kernel, mine, out)
    return averaged(launch, out, reduce_op)


def one_shot_all_reduce(launches, input, reduce_op, group_name):
    return _reduced(launches(group_name), "one_shot", input, reduce_op)


def one_shot_all_reduce_out(launches, input, reduce_op, group_name, out):
    launch = launches(group_name)
    check_reduce(reduce_op)
    if out.shape != input.shape or not out.is_contiguous():
        raise DtileInvalid("out must be contiguous and have the shape of the input")
    launch.vectors("one_shot", input.contiguous(), out)
    return averaged(launch, out, reduce_op)


def two_shot_all_reduce(launches, input, reduce_op, group_name):
    return _reduced(launches(group_name), "two_shot", input, reduce_op)


def two_shot_all_reduce_(launches, input, reduce_op, group_name):
    # What a kernel writes is no other argument of it.
    return input.copy_(_reduced(launches(group_name), "two_shot", input, reduce_op))


def all_reduce(launches, input, reduce_op, group_name):
    return _reduced(launches(group_name), "all_reduce", input, reduce_op)


def fused_all_gather_matmul(launches, A, Bs, gather_dim, group_name, return_A=True):
    launch = launches(group_name)
    check_matrices(A, Bs)
    _check_alike(A, Bs)
    check_gather_dim(gather_dim, A)
    rows = rows_of(A, gather_dim)
    shape = shape_from(A, gather_dim, launch.ranks * A.shape[gather_dim])
    if return_A or len(Bs) != 1:
        # Gathered once, whoever reads it.
        whole = gathered(launch, rows)
        outs = [whole @ B for B in Bs]
    else:
        whole = None
        outs = [rows.new_empty((launch.ranks * rows.shape[0], Bs[0].shape[1]))]
        launch("all_gather_matmul", rows, Bs[0].t(), outs[0])
    return (from_rows(whole, shape, gather_dim) if return_A else None,
            [from_rows(out, shape, gather_dim) for out in outs])


def fused_matmul_reduce_scatter(launches, A, B, reduce_op, scatter_dim, group_name):
    launch = launches(group_name)
    check_reduce(reduce_op)
    check_matrices(A, (B,))
    _check_alike(A, (B,))
    check_dim("scatter_dim", scatter_dim, A)
    if scatter_dim == A.dim() - 1:
        # Columns of the product are rows of the transposed one.
        if B.shape[1] % launch.ranks != 0:
            raise DtileInvalid(f"B has {B.shape[1]} columns, which {launch.ranks} ranks cannot "
                               "share evenly")
        rows = A.flatten(0, -2)
        out = rows.new_empty((B.shape[1] // launch.ranks, rows.shape[0]))
        launch("matmul_reduce_scatter", B.t(), rows, out)
        out = averaged(launch, out, reduce_op).t()
        return out.reshape(*A.shape[:-1], out.shape[1])
    check_parts(launch, A, scatter_dim)
    rows = rows_of(A, scatter_dim)
    shape = shape_from(A, scatter_dim, A.shape[scatter_dim] // launch.ranks)
    out = rows.new_empty((rows.shape[0] // launch.ranks, B.shape[1]))
    launch("matmul_reduce_scatter", rows, B.t(), out)
    return from_rows(averaged(launch, out, reduce_op), shape, scatter_dim)


def fused_matmul_all_reduce(launches, A, B, reduce_op, group_name):
    launch = launches(group_name)
    check_reduce(reduce_op)
    check_matrices(A, (B,))
    _check_alike(A, (B,))
    rows = A if A.dim() == 2 else A.flatten(0, -2)
    out = rows.new_empty((rows.shape[0], B.shape[1]))
    launch("matmul_all_reduce", rows, B.t(), out)
    return averaged(launch, out, reduce_op).view(*A.shape[:-1], B.shape[1])
