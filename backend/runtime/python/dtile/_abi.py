# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""dtile.h and kernel_abi.h for ctypes."""

import ctypes
import operator
import os
import platform
from ctypes import (POINTER, Structure, Union, c_char_p, c_int32, c_int64, c_uint32, c_uint64,
                    c_void_p)

ABI_VERSION = 20
MAX_RANK = 6

# In the order of dtile_dtype.
DTYPES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f8e4m3", "f8e5m2", "f16",
          "bf16", "f32", "f64")

TRIM_CAPTURED = 1

PARAM_TENSOR, PARAM_SCALAR, PARAM_SIGNAL = range(3)
PARAM_DEFAULT = 8
MODE_VALUE, MODE_IN, MODE_OUT, MODE_INOUT, MODE_SYMM, MODE_SCRATCH = range(6)


class DtileError(RuntimeError):
    """What dtile_last_error says."""


class DtileInvalid(DtileError, ValueError):
    """An argument is wrong."""


class DtileOutOfMemory(DtileError):
    """The symmetric heap, the GPU or the machine is full."""


class DtileDeadlock(DtileError):
    """Every body that is left waits."""


class DtileTrap(DtileError):
    """A run-time check of a kernel failed."""


class DtileTimeout(DtileError):
    """A wait exceeded its budget."""


class DtileUnavailable(DtileError):
    """A driver, device or provider is missing."""


ERRORS = {1: DtileInvalid, 2: DtileOutOfMemory, 3: DtileDeadlock, 4: DtileTrap, 5: DtileTimeout,
          6: DtileUnavailable}


class ParamDesc(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int32), ("mode", c_int32), ("dtype", c_int32),
                ("rank", c_int32), ("flags", c_uint32), ("copies", c_int32),
                ("agreed", c_uint32), ("reserved", c_uint32), ("default_bits", c_uint64)]


class KernelDesc(Structure):
    """The beginning of dtile_kernel_desc."""
    _fields_ = [("abi_version", c_uint32), ("flags", c_uint32), ("name", c_char_p),
                ("file", c_char_p), ("nparams", c_int32), ("nspaces", c_int32),
                ("nsignals", c_int32), ("nalternatives", c_int32), ("params", POINTER(ParamDesc))]


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("ndim", c_int32),
                ("size", c_int64 * MAX_RANK), ("stride", c_int64 * MAX_RANK)]


class Arg(Union):
    _fields_ = [("tensor", POINTER(Tensor)), ("scalar_bits", c_uint64)]


class DeviceOptions(Structure):
    _fields_ = [("struct_bytes", c_uint32), ("ndevices", c_int32), ("devices", POINTER(c_int32)),
                ("target", c_char_p), ("symmetric_bytes", c_int64), ("wait_timeout_ms", c_int32),
                ("rank", c_int32), ("ranks", c_int32), ("device", c_int32), ("job", c_char_p),
                ("plain_launches", c_int32), ("shmem", c_char_p), ("nvshmem_home", c_char_p)]

    def __init__(self):
        super().__init__(struct_bytes=ctypes.sizeof(DeviceOptions))


_SIGNATURES = {
    "dtile_team_create_devices": [POINTER(DeviceOptions), POINTER(c_void_p)],
    "dtile_team_create_device_env": [POINTER(DeviceOptions), POINTER(c_void_p)],
    "dtile_team_create_job": [POINTER(DeviceOptions), POINTER(c_void_p)],
    "dtile_symm_alloc": [c_void_p, c_int64, POINTER(c_void_p)],
    "dtile_symm_free": [c_void_p, c_void_p],
    "dtile_symm_register": [c_void_p, POINTER(c_void_p), c_int64],
    "dtile_symm_unregister": [c_void_p, c_void_p],
    "dtile_launch_on": [c_void_p, c_int32, c_void_p, c_void_p, c_int32, c_void_p],
    "dtile_kernel_supports": [c_void_p, c_int32, c_void_p, c_void_p, c_int32, POINTER(c_int32)],
    "dtile_kernel_sizes": [c_void_p, c_int32, c_void_p, c_void_p, c_int32, c_int32,
                           POINTER(c_int64)],
    "dtile_kernel_scratch": [c_void_p, c_int32, c_void_p, c_char_p, POINTER(Tensor)],
    "dtile_team_synchronize": [c_void_p],
    "dtile_trace_begin": [c_void_p, c_int64],
    "dtile_trace_end": [c_void_p, c_char_p, POINTER(c_int64)],
    "dtile_team_barrier": [c_void_p],
    "dtile_team_use": [c_void_p],
    "dtile_team_trim": [c_void_p, c_uint32],
    "dtile_team_device": [c_void_p, c_int32, POINTER(c_int32)],
    "dtile_device_arch": [c_char_p, c_int32, c_char_p, c_int32],
    "dtile_machine_name": [c_char_p, c_int32, c_char_p, c_int32],
    "dtile_device_count": [c_char_p, POINTER(c_int32)],
}


def installed_prefix():
    """Where `cmake --install` has put things: the package is in share/dtile/python there."""
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.normpath(os.path.join(here, *[os.pardir] * 4))


def _candidates():
    named = os.environ.get("DTILE_RT")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    prefix = installed_prefix()
    folders = [here, os.path.dirname(here), os.path.join(os.path.dirname(here), "lib"),
               os.path.join(prefix, "lib"), os.path.join(prefix, "lib64"),
               os.path.join(prefix, "lib", f"{platform.machine()}-linux-gnu")]
    found = [os.path.join(folder, "libdtile_rt.so") for folder in folders]
    return [path for path in found if os.path.exists(path)] + ["libdtile_rt.so.0", "libdtile_rt.so"]


_runtime = None


def runtime():
    """The library, opened when first asked for. Its symbols are global: kernels use them."""
    global _runtime
    if _runtime is not None:
        return _runtime
    tried = []
    for path in _candidates():
        try:
            lib = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            break
        except OSError as error:
            tried.append(str(error))
    else:
        raise DtileUnavailable("libdtile_rt.so cannot be opened; set DTILE_RT to its path:\n  " +
                               "\n  ".join(tried))
    if not hasattr(lib, "dtile_abi_version"):
        raise DtileUnavailable(f"{path} is not the runtime of dtile; set DTILE_RT to the path of "
                               "libdtile_rt.so")
    lib.dtile_last_error.restype = c_char_p
    lib.dtile_last_error.argtypes = []
    lib.dtile_abi_version.restype = c_uint32
    # Before what a library of another version may lack.
    if lib.dtile_abi_version() != ABI_VERSION:
        raise DtileUnavailable(f"{lib._name} has version {lib.dtile_abi_version()} of the ABI, "
                               f"this package has version {ABI_VERSION}: install both from one "
                               "release")
    lib.dtile_team_destroy.argtypes = [c_void_p]
    lib.dtile_team_destroy.restype = None
    lib.dtile_symm_address.argtypes = [c_void_p, c_void_p, c_int32]
    lib.dtile_symm_address.restype = c_void_p
    for count in ("size", "first_local", "local_count"):
        function = getattr(lib, "dtile_team_" + count)
        function.argtypes = [c_void_p]
        function.restype = c_int32
    for name, arguments in _SIGNATURES.items():
        function = getattr(lib, name)
        function.argtypes = arguments
        function.restype = c_int32
    _runtime = lib
    return lib


def integer(value, what, least=0, most=2 ** 63 - 1):
    """An argument of a caller as an integer within bounds: ctypes would cut off what is beyond."""
    try:
        number = operator.index(value)
    except TypeError:
        raise DtileInvalid(f"{what} is {value!r}; it must be an integer") from None
    if not least <= number <= most:
        raise DtileInvalid(f"{what} is {number}; it must be from {least} to {most}")
    return number


def string(value, what):
    """An argument of a caller as bytes of a C string."""
    if not isinstance(value, str):
        raise DtileInvalid(f"{what} is {value!r}; it must be a string")
    return value.encode()


def check(status):
    """Raises what a status says."""
    if status != 0:
        words = runtime().dtile_last_error().decode(errors="replace")
        raise ERRORS.get(status, DtileError)(words)
