# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations of dtile.ops on f8 with scales: one for a whole operand, or one for each row of A and
each column of B. Written against `launches`, as those of _operations.py are."""

import math

from ._abi import DTYPES, DtileInvalid
from ._operations import (averaged, check_dim, check_gather_dim, check_matrices, check_parts,
                          check_reduce, from_rows, gathered, rows_of, shape_from)
from .kernels import _dtype_number

# Of c10::ScalarType: what PyTorch's dispatcher makes of element types in a list.
_LISTED_TYPES = {5: "float16", 6: "float32", 15: "bfloat16"}


def _output_type(dtype):
    import torch

    known = [getattr(torch, name) for name in _LISTED_TYPES.values()]
    if isinstance(dtype, int) and dtype in _LISTED_TYPES:
        dtype = getattr(torch, _LISTED_TYPES[dtype])
    if dtype not in known:
        raise DtileInvalid(f"out_dtype is {dtype}; it must be one of "
                           f"{', '.join(map(str, known))}")
    return dtype


def _check_type(name, tensor, wanted):
    kind = DTYPES[_dtype_number(tensor.dtype, name)]
    if kind != wanted:
        raise DtileInvalid(f"{name} has elements of {kind}; they must be of {wanted}")


def _check_operands(A, B, A_scale, B_scale, result_scale):
    check_matrices(A, (B,))
    _check_type("A", A, "f8e4m3")
    _check_type("B", B, "f8e4m3")
    _check_type("A_scale", A_scale, "f32")
    _check_type("B_scale", B_scale, "f32")
    if B_scale.numel() not in (1, B.shape[1]):
        raise DtileInvalid(f"B_scale has {B_scale.numel()} elements; it must have one, or one for "
                           f"each of B's {B.shape[1]} columns")
    if result_scale is not None:
        raise DtileInvalid("result_scale must be None, since results are not f8")


def _check_row_scales(A, A_scale):
    wanted = [*A.shape[:-1], 1]
    if A_scale.numel() != 1 and list(A_scale.shape) != wanted:
        raise DtileInvalid(f"A_scale has the shape {list(A_scale.shape)}; it must have one "
                           f"element, or the shape {wanted}: one for each row of A")


def _vector(scale, count):
    if scale.numel() == 1:
        scale = scale.view(1).expand(count)
    return scale.contiguous().view(count)


def _scales(a_scale, rows, b_scale, columns, by_rows=False):
    """Which of the products takes these scales, and the scales as it takes them."""
    if a_scale.numel() == 1 and b_scale.numel() == 1 and not by_rows:
        return "tensor_scaled_matmul", a_scale.view(1), b_scale.view(1)
    return ("row_scaled_matmul", _vector(a_scale, rows).view(1, rows), _vector(b_scale, columns))


def _bias(out, bias):
    """It, or one without elements."""
    if bias is None:
        return out.new_empty((0,))
    if bias.dtype != out.dtype or bias.numel() != out.shape[1]:
        raise DtileInvalid(f"a bias has {bias.numel()} elements of {bias.dtype}; it must have "
                           f"{out.shape[1]} of {out.dtype}, as the result has columns")
    return bias.contiguous().view(out.shape[1])


def _check_lists(Bs, **lists):
    if not Bs:
        raise DtileInvalid("Bs is empty; there must be a matrix to multiply by")
    for name, values in lists.items():
        if len(values) != len(Bs):
            raise DtileInvalid(f"{name} has {len(values)} elements, but Bs {len(Bs)}")


def fused_all_gather_scaled_matmul(launches, A, Bs, A_scale, B_scales, gather_dim, group_name,
                                   biases, result_scales, out_dtypes, use_fast_accum):
    launch = launches(group_name)
    # use_fast_accum allows sums that are less exact than those that are made.
    _check_lists(Bs, B_scales=B_scales, biases=biases, result_scales=result_scales,
                 out_dtypes=out_dtypes, use_fast_accum=use_fast_accum)
    for B, B_scale, result_scale in zip(Bs, B_scales, result_scales):
        _check_operands(A, B, A_scale, B_scale, result_scale)
    check_gather_dim(gather_dim, A)
    shape = shape_from(A, gather_dim, launch.ranks * A.shape[gather_dim])
    rows = rows_of(A, gather_dim)
    # Where a rank has one row, its one scale may be another than those of the other ranks.
    by_rows = A_scale.numel() != 1 or rows.shape[0] == 1
    if by_rows:
        of_all = [size * (launch.ranks if d == gather_dim else 1)
                  for d, size in enumerate(A.shape[:-1])]
        if list(A_scale.shape) == [*of_all, 1]:
            # Every rank has all of them.
            A_scale = launch.own(A_scale, gather_dim)
        _check_row_scales(A, A_scale)
        if A_scale.numel() != 1:
            A_scale = rows_of(A_scale, gather_dim)
    whole = rows.new_empty((launch.ranks * rows.shape[0], rows.shape[1]))
    outs = []
    for B, B_scale, bias, dtype in zip(Bs, B_scales, biases, out_dtypes):
        out = rows.new_empty((whole.shape[0], B.shape[1]), dtype=_output_type(dtype))
        weights, added = B.t(), _bias(out, bias)
        if not outs:
            kernel, a, b = _scales(A_scale, rows.shape[0], B_scale, B.shape[1], by_rows)
            launch.mixed("all_gather_" + kernel, rows, a, weights, b, added, whole, out)
            if by_rows and len(Bs) > 1:
                A_scale = gathered(launch, a.view(-1))
        else:
            kernel, a, b = _scales(A_scale, whole.shape[0], B_scale, B.shape[1], by_rows)
            launch.mixed(kernel, whole, a, weights, b, added, out)
        outs.append(out)
    return (from_rows(whole, shape, gather_dim),
            [from_rows(out, shape, gather_dim) for out in outs])


def fused_scaled_matmul_reduce_scatter(launches, A, B, A_scale, B_scale, reduce_op,
                                       orig_scatter_dim, scatter_dim_after_maybe_reshape,
                                       group_name, output_shape, bias=None, result_scale=None,
                                       out_dtype=None, use_fast_accum=False):
    launch = launches(group_name)
    check_reduce(reduce_op)
    _check_operands(A, B, A_scale, B_scale, result_scale)
    _check_row_scales(A, A_scale)
    dtype = _output_type(out_dtype)
    # PyTorch's compiler makes matrices of operands that had more dimensions; this is what it had.
    # It says where the scattered dimension of A is then, too, which follows from this.
    shape = tuple(output_shape or (*A.shape[:-1], B.shape[1]))
    if shape[-1] != B.shape[1] or math.prod(shape[:-1]) != math.prod(A.shape[:-1]):
        raise DtileInvalid(f"output_shape is {list(shape)}; the product has the shape "
                           f"{[*A.shape[:-1], B.shape[1]]}, or that of another number of "
                           "dimensions with as many rows")
    if tuple(A.shape[:-1]) != shape[:-1]:
        A = A.reshape(*shape[:-1], A.shape[-1])
    check_dim("orig_scatter_dim", orig_scatter_dim, A)
    if A_scale.numel() != 1:
        A_scale = A_scale.reshape(*shape[:-1], 1)
    if orig_scatter_dim == A.dim() - 1:
        return _scatter_columns(launch, A, B, A_scale, B_scale, reduce_op, bias, dtype)
    check_parts(launch, A, orig_scatter_dim)
    rows = rows_of(A, orig_scatter_dim)
    if A_scale.numel() != 1:
        A_scale = rows_of(A_scale, orig_scatter_dim)
    out = rows.new_empty((rows.shape[0] // launch.ranks, B.shape[1]), dtype=dtype)
    kernel, a, b = _scales(A_scale, rows.shape[0], B_scale, B.shape[1])
    launch.mixed(kernel + "_reduce_scatter", rows, a, B.t(), b, _bias(out, bias), out)
    share = shape_from(A, orig_scatter_dim, A.shape[orig_scatter_dim] // launch.ranks)
    return from_rows(averaged(launch, out, reduce_op), share, orig_scatter_dim)


def _scatter_columns(launch, A, B, A_scale, B_scale, reduce_op, bias, dtype):
    """Columns of the product are rows of the transposed one."""
    if bias is not None:
        raise DtileInvalid("a bias is not taken where the last dimension is scattered: add it to "
                           "the result, once for each rank")
    if B.shape[1] % launch.ranks != 0:
        raise DtileInvalid(f"B has {B.shape[1]} columns, which {launch.ranks} ranks cannot share "
                           "evenly")
    rows = A.flatten(0, -2)
    out = rows.new_empty((B.shape[1] // launch.ranks, rows.shape[0]), dtype=dtype)
    kernel, a, b = _scales(B_scale, B.shape[1], A_scale, rows.shape[0])
    launch.mixed(kernel + "_reduce_scatter", B.t(), a, rows, b, _bias(out, None), out)
    out = averaged(launch, out, reduce_op).t()
    return out.reshape(*A.shape[:-1], out.shape[1])
