# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays of PyTorch, CuPy and JAX, as far as they are installed, in a kernel's TVM FFI function:

    PYTHONPATH=… python3 tests/gpu/dlpack_arrays.py

Each library makes its arrays on GPU 0, which are passed as it gives them by DLPack, without a copy.
Results are compared with NumPy's in float64. Ends with 1 where anything is wrong."""

import ctypes
import importlib
import os
import subprocess
import sys
import tempfile
from ctypes import POINTER, Structure, Union, c_double, c_int32, c_int64, c_uint32, c_void_p

import numpy as np

import dtile
from dtile._abi import runtime

KERNEL = """
kernel affine(alpha: f32, x: in f32[M, N], y: out f32[M, N]) over (i in M by 1, j in N by 64) {
    y[i, j] = x[i, j] * alpha + 1.0;
}
"""
FLOAT, TENSOR = 3, 7


class Value(Union):
    _fields_ = [("integer", c_int64), ("number", c_double), ("pointer", c_void_p)]


class Any(Structure):
    _anonymous_ = ("value",)
    _fields_ = [("type", c_int32), ("padding", c_uint32), ("value", Value)]


def built(folder):
    source, obj, library = (os.path.join(folder, name) for name in ("k.dtile", "k.o", "k.so"))
    with open(source, "w", encoding="utf-8") as file:
        file.write(KERNEL)
    subprocess.run([os.environ.get("DTILEC") or "dtilec", "build", source, "--target", "nvptx",
                    "--emit=tvm-ffi", "-o", obj], check=True)
    subprocess.run([os.environ.get("CC") or "cc", "-shared", obj, "-o", library], check=True)
    function = getattr(ctypes.CDLL(library), "__tvm_ffi_affine")
    function.argtypes = [c_void_p, POINTER(Any), c_int32, POINTER(Any)]
    return function


def tensor_of(array):
    """The address of the DLTensor that a capsule has, and what keeps it alive."""
    capsule = array.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, b"dltensor"), capsule


def call(function, alpha, x, y):
    arguments = (Any * 3)()
    arguments[0].type, arguments[0].number = FLOAT, alpha
    kept = []
    for i, array in ((1, x), (2, y)):
        address, capsule = tensor_of(array)
        kept.append(capsule)
        arguments[i].type, arguments[i].pointer = TENSOR, address
    result = Any()
    if function(None, arguments, 3, ctypes.byref(result)) != 0:
        raise RuntimeError(runtime().dtile_last_error().decode())


def of_torch(torch, values):
    x = torch.tensor(values, device="cuda")
    return x, torch.full_like(x, float("nan"))


def of_cupy(cupy, values):
    return cupy.asarray(values), cupy.full(values.shape, float("nan"), dtype=cupy.float32)


def of_jax(jax, values):
    x = jax.device_put(values, jax.devices("gpu")[0])
    return x, jax.numpy.full_like(x, float("nan")).block_until_ready()


LIBRARIES = {
    "torch": (of_torch, lambda array: array.cpu().numpy()),
    "cupy": (of_cupy, lambda array: array.get()),
    "jax": (of_jax, np.asarray),
}


def main():
    seed = int.from_bytes(os.urandom(4), "little")
    random = np.random.default_rng(seed)
    print("seed", seed)
    wrong = tried = 0
    with tempfile.TemporaryDirectory() as folder, dtile.Team.local([0]) as team:
        function = built(folder)
        for name, (make, to_host) in LIBRARIES.items():
            try:
                module = importlib.import_module(name)
            except ImportError as missing:
                print(f"{name} is not installed ({missing})")
                continue
            tried += 1
            for shape in ((1, 1), (3, 70), (257, 1001)):
                values = random.standard_normal(shape).astype(np.float32)
                x, y = make(module, values)
                call(function, -2.5, x, y)
                team.synchronize()
                want = values.astype(np.float64) * -2.5 + 1
                error = float(np.abs(to_host(y).astype(np.float64) - want).max())
                wrong += not error < 1e-5
                print(f"{name} {module.__version__} {shape}: error {error:.1e}"
                      f"{'' if error < 1e-5 else '  WRONG'}")
    print(f"{tried} libraries, {wrong} wrong")
    return 1 if wrong or not tried else 0


sys.exit(main())
