# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads a kernel by TVM FFI's stable C ABI with ctypes, where TVM FFI's own library is not there."""

import ctypes
import sys
from ctypes import (POINTER, Structure, Union, byref, c_double, c_float, c_int32, c_int64, c_uint8,
                    c_uint16, c_uint32, c_uint64, c_void_p)


class DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class Value(Union):
    _fields_ = [("v_int64", c_int64), ("v_float64", c_double), ("v_ptr", c_void_p)]


class TVMFFIAny(Structure):
    _anonymous_ = ("value",)
    _fields_ = [("type_index", c_int32), ("zero_padding", c_uint32), ("value", Value)]


def main(runtime, library):
    rt = ctypes.CDLL(runtime)
    rt.dtile_last_error.restype = ctypes.c_char_p
    kernel = getattr(ctypes.CDLL(library), "__tvm_ffi_affine")
    kernel.argtypes = [c_void_p, POINTER(TVMFFIAny), c_int32, POINTER(TVMFFIAny)]

    # dtile_team_options, of which all but the ranks is as by default.
    class Options(Structure):
        _fields_ = [("struct_bytes", c_uint32), ("ranks", c_int32), ("rest", c_uint8 * 32)]

    team = c_void_p()
    options = Options(ctypes.sizeof(Options), 1)
    assert rt.dtile_team_create_threads(byref(options), byref(team)) == 0, rt.dtile_last_error()
    assert rt.dtile_team_use(team) == 0
    x, y = (c_float * 10)(*range(10)), (c_float * 10)()
    shape = (c_int64 * 2)(2, 5)
    tensors = [DLTensor(ctypes.addressof(memory), 1, 0, 2, 2, 32, 1, shape)
               for memory in (x, y)]
    args = (TVMFFIAny * 4)()
    args[0].type_index, args[0].v_float64 = 3, -2.0
    args[1].type_index, args[1].v_int64 = 1, 10
    for i, tensor in enumerate(tensors):
        args[2 + i].type_index, args[2 + i].v_ptr = 7, ctypes.addressof(tensor)
    result = TVMFFIAny()
    assert kernel(None, args, 4, byref(result)) == 0, rt.dtile_last_error()
    assert list(y) == [10.0 - 2 * i for i in range(10)], list(y)
    args[2].type_index = 0
    assert kernel(None, args, 4, byref(result)) == -1
    print("the numbers are right;", rt.dtile_last_error().decode())


main(*sys.argv[1:])
