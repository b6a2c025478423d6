# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Teams: the GPUs that run the ranks."""

import contextlib
import ctypes
import math
import os
import socket
import uuid

from ._abi import TRIM_CAPTURED, DeviceOptions, DtileInvalid, check, integer, runtime, string
from ._meshes import Mesh, checked, same_everywhere
from ._nvshmem import nvshmem_home


class _Bytes:
    """Memory of a GPU, as torch.as_tensor takes it."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3,
            "strides": None,
        }


def _host():
    """What tells this host, and its network namespace, from others."""
    try:
        return socket.gethostname() + os.readlink("/proc/self/ns/net")
    except OSError:
        return socket.gethostname()


def _job_name(hosts, source):
    """A name that no other job has; for several hosts with the address and a port of this process,
    which `source` (a rank of all that torch started) gives to all."""
    name = uuid.uuid4().hex
    if len(set(hosts)) == 1:
        return name
    address = os.environ.get("DTILE_JOB_ADDRESS")
    if not address and source == 0:
        address = os.environ.get("MASTER_ADDR")
    address = address or socket.gethostname()
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = int(os.environ.get("DTILE_JOB_PORT") or probe.getsockname()[1])
    return f"tcp://[{address}]:{port}/{name}"


def _ranks_of(mesh):
    """The process group of all ranks of a device mesh, in the mesh's order."""
    import torch.distributed as dist

    ranks = [int(rank) for rank in mesh.mesh.flatten().tolist()]
    if ranks != sorted(ranks):
        raise DtileInvalid(f"the device mesh has its ranks in the order {ranks}, and a team has "
                           "them in theirs")
    if len(ranks) == dist.get_world_size():
        return None
    return dist.new_group(ranks, use_local_synchronization=True)


def group_of(group):
    """A process group of what callers have: one itself, a device mesh of one dimension, its name,
    or None for all ranks."""
    import torch.distributed as dist

    if hasattr(group, "get_group") and hasattr(group, "ndim"):
        if group.ndim != 1:
            names = ", ".join(repr(name) for name in group.mesh_dim_names or ())
            raise DtileInvalid(f"the device mesh has {group.ndim} dimensions; a team has the ranks "
                               f"of one: pass mesh[name]" + (f", of {names}" if names else ""))
        return group.get_group()
    if isinstance(group, str):
        try:
            return dist.distributed_c10d._resolve_process_group(group)
        except (LookupError, RuntimeError) as error:
            raise DtileInvalid(f"there is no process group `{group}`: pass group.group_name of "
                               f"torch.distributed ({error})") from None
    if group is not None and not hasattr(group, "group_name"):
        # new_group gives a number to processes that the group is without.
        raise DtileInvalid(f"{group!r} is no process group of which this process is a rank: pass a "
                           "group of torch.distributed, or mesh[name], on its ranks only")
    return group


def _addresses(memory):
    """Of a handle, or as they are."""
    if memory is None:
        raise DtileInvalid("there is no handle to register: rendezvous gives None for a tensor "
                           "that symm_mem.empty has not made")
    if hasattr(memory, "data_ptr"):
        raise DtileInvalid("a tensor has the address on this rank only: pass the handle that "
                           "symm_mem.rendezvous(tensor, group) gives")
    addresses = getattr(memory, "buffer_ptrs", memory)
    if not isinstance(addresses, (list, tuple)) or not addresses:
        raise DtileInvalid(f"{memory!r} is no handle with addresses, and no list of them, one for "
                           "each rank")
    return [integer(address, "an address", most=2 ** 64 - 1) for address in addresses]


class Trace:
    """The file of a trace, and how many slices it leaves out (None: it is not written yet)."""

    def __init__(self, path):
        self.path = path
        self.dropped = None


class Team:
    """A set of ranks. The first one made is the one that kernels use where none is named."""

    _current = None

    def __init__(self, handle, target="nvptx"):
        if not isinstance(handle, ctypes.c_void_p):
            raise DtileInvalid("teams are made by dtile.Team.local(devices), "
                               "dtile.Team.from_torch(), and dtile.Team.from_env()")
        self._handle = handle
        self.target = target
        self._changes = 0
        self._mesh = None
        lib = runtime()
        self.size = lib.dtile_team_size(handle)
        self.first_local = lib.dtile_team_first_local(handle)
        self.local_count = lib.dtile_team_local_count(handle)
        self.devices = []
        for local in range(self.local_count):
            device = ctypes.c_int32()
            check(lib.dtile_team_device(handle, local, ctypes.byref(device)))
            self.devices.append(device.value)
        if Team._current is None:
            self.use()

    @property
    def rank(self):
        """The rank of this process, or the first one."""
        return self.first_local

    @property
    def mesh(self):
        """How kernels of a mesh number its ranks, or None: set it to (2, 4), to {"node": 2,
        "local": 4}, or to a device mesh, alike in all processes."""
        return self._mesh

    @mesh.setter
    def mesh(self, value):
        self._mesh = checked(value, self.size)

    def state(self):
        """Another one whenever callers have other objects in the symmetric heap than before."""
        return (self._handle.value if self._handle else None, self._changes)

    def use(self):
        """Kernels that are called without a team take this one: also those that others call by TVM
        FFI's calling convention."""
        if self._handle is None:
            raise DtileInvalid("the team has been closed")
        Team._set_current(self)

    @staticmethod
    def _set_current(team):
        check(runtime().dtile_team_use(team._handle if team else None))
        Team._current = team

    @staticmethod
    def current():
        if Team._current is None:
            raise DtileInvalid("there is no team; make one by dtile.Team.from_torch() or "
                               "dtile.Team.local([0])")
        return Team._current

    @staticmethod
    def _options(symmetric_bytes, wait_timeout_ms, target, plain_launches, shmem):
        options = DeviceOptions()
        options.target = string(target, "target")
        options.symmetric_bytes = integer(symmetric_bytes, "symmetric_bytes")
        options.wait_timeout_ms = integer(wait_timeout_ms, "wait_timeout_ms", most=2 ** 31 - 1)
        options.plain_launches = bool(plain_launches)
        shmem = shmem or os.environ.get("DTILE_SHMEM") or "p2p"
        options.shmem = string(shmem, "shmem")
        home = nvshmem_home() if shmem == "nvshmem" else None
        if home:
            options.nvshmem_home = home.encode()
        return options

    @classmethod
    def _create(cls, function, options):
        handle = ctypes.c_void_p()
        check(function(ctypes.byref(options), ctypes.byref(handle)))
        return cls(handle, options.target.decode())

    @classmethod
    def local(cls, devices=(0,), symmetric_bytes=0, wait_timeout_ms=0, target="nvptx",
              plain_launches=False, shmem=None):
        """All ranks in this process, one for each of the devices; kernels take `rank=`.
        `plain_launches`: a little faster; only where nothing else that waits runs on a GPU at the
        same time. `shmem`: "p2p", or "nvshmem" (one rank a process) for kernels that were built
        with it; by default what DTILE_SHMEM says, else p2p."""
        options = cls._options(symmetric_bytes, wait_timeout_ms, target, plain_launches, shmem)
        if not isinstance(devices, (list, tuple, range)):
            raise DtileInvalid(f"devices are {devices!r}; a list of GPUs is wanted, one for each "
                               "rank")
        ordinals = (ctypes.c_int32 * len(devices))(
            *[integer(device, "a device", most=2 ** 31 - 1) for device in devices])
        options.ndevices = len(devices)
        options.devices = ordinals
        return cls._create(runtime().dtile_team_create_devices, options)

    @classmethod
    def from_env(cls, symmetric_bytes=0, wait_timeout_ms=0, target="nvptx",
                 plain_launches=False, shmem=None):
        """One rank a process, as torchrun or mpirun started them."""
        options = cls._options(symmetric_bytes, wait_timeout_ms, target, plain_launches, shmem)
        return cls._create(runtime().dtile_team_create_device_env, options)

    @classmethod
    def from_torch(cls, group=None, device=None, symmetric_bytes=0, wait_timeout_ms=0,
                   target="nvptx", plain_launches=False, shmem=None):
        """The ranks of a process group (the default one) or of a device mesh, each on its current
        device; of a device mesh of several dimensions, the team has its axes. Collective. Without
        one: this process alone."""
        try:
            import torch
            import torch.distributed as dist
        except ImportError as missing:
            raise DtileInvalid("Team.from_torch needs PyTorch, which cannot be imported "
                               f"({missing}); Team.local needs none") from missing

        if device is None:
            device = torch.cuda.current_device()
        elif not isinstance(device, int):
            # As PyTorch names devices.
            try:
                device = torch.device(device).index
            except (RuntimeError, TypeError) as error:
                raise DtileInvalid(f"device is {device!r}: {error}") from None
        device = integer(device, "device", most=2 ** 31 - 1)
        if not dist.is_available() or not dist.is_initialized():
            return cls.local([device], symmetric_bytes, wait_timeout_ms, target, plain_launches,
                             shmem)
        mesh = Mesh.of(group) if getattr(group, "ndim", 1) != 1 else None
        group = _ranks_of(group) if mesh else group_of(group)
        source = dist.get_global_rank(group, 0) if group is not None else 0
        about = [None] * dist.get_world_size(group)
        dist.all_gather_object(about, (_host(), mesh), group=group)
        hosts = [host for host, _ in about]
        same_everywhere([one for _, one in about])
        name = [_job_name(hosts, source)]
        dist.broadcast_object_list(name, src=source, group=group)
        options = cls._options(symmetric_bytes, wait_timeout_ms, target, plain_launches, shmem)
        options.rank = dist.get_rank(group)
        options.ranks = dist.get_world_size(group)
        options.device = device
        options.job = name[0].encode()
        team = cls._create(runtime().dtile_team_create_job, options)
        team.mesh = mesh
        return team

    def symm_empty(self, shape, dtype=None, rank=None):
        """A tensor in the symmetric heap, zero at first, on the first rank of this process or on
        `rank`. Collective: all processes ask for the same in the same order. What this gives is one
        object; `symm_on` says where it is on this process's other ranks."""
        import torch

        dtype = dtype or torch.get_default_dtype()
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        bytes_ = max(math.prod(shape) * torch.empty((), dtype=dtype).element_size(), 1)
        address = ctypes.c_void_p()
        check(runtime().dtile_symm_alloc(self._handle, bytes_, ctypes.byref(address)))
        self._changes += 1
        tensor = self._view(address.value, bytes_, 0, shape, dtype)
        return tensor if rank is None else self.symm_on(tensor, rank)

    def symm_on(self, tensor, rank):
        """The same object on another rank of this process."""
        local = rank - self.first_local
        address = runtime().dtile_symm_address(self._handle, tensor.data_ptr(), local)
        if not address:
            raise DtileInvalid(f"rank {rank} is not of this process, or the tensor is not "
                               "symmetric")
        return self._tensor_at(address, local, tuple(tensor.shape), tensor.dtype)

    def symm_free(self, tensor):
        """Collective."""
        check(runtime().dtile_symm_free(self._handle, tensor.data_ptr()))
        self._changes += 1

    def register(self, memory, bytes_=None):
        """Makes memory of others symmetric as it stands: the handle that PyTorch's symmetric memory
        gives at a rendezvous, or addresses as this process has them, one a rank, of so many bytes.
        Tensors in it may be `symm` arguments. Collective, in the same order on all ranks."""
        pointers = _addresses(memory)
        size = bytes_ if bytes_ is not None else getattr(memory, "buffer_size", None)
        if size is None:
            raise DtileInvalid("addresses have no size: register(addresses, bytes)")
        if len(pointers) != self.size:
            raise DtileInvalid(f"{len(pointers)} addresses; the team has {self.size} ranks, and "
                               "wants one for each")
        check(runtime().dtile_symm_register(
            self._handle, (ctypes.c_void_p * len(pointers))(*pointers), integer(size, "bytes")))
        self._changes += 1

    def unregister(self, memory):
        """Ends that, for the same handle or addresses. Collective; waits for what runs. Memory that
        a captured graph uses stays registered until `trim(captured=True)`."""
        pointers = _addresses(memory)
        if len(pointers) != self.size:
            raise DtileInvalid(f"{len(pointers)} addresses; the team has {self.size} ranks, and "
                               "wants one for each")
        check(runtime().dtile_symm_unregister(self._handle, pointers[self.first_local]))
        self._changes += 1

    def _tensor_at(self, address, local, shape, dtype):
        import torch

        size = torch.empty((), dtype=dtype).element_size()
        return self._view(address, max(math.prod(shape) * size, 1), local, shape, dtype)

    def _view(self, address, bytes_, local, shape, dtype):
        import torch

        raw = torch.as_tensor(_Bytes(address, bytes_), device=f"cuda:{self.devices[local]}")
        count = 1
        for size in shape:
            count *= size
        if count == 0:
            return torch.empty(shape, dtype=dtype, device=raw.device)
        return raw.view(dtype).view(shape)

    def trim(self, captured=False):
        """Gives back what kernels have made in the symmetric heap, scratch objects and signals;
        their next launches make it again. Collective; waits for what runs. What captured graphs
        use stays, unless `captured`: then no graph that was captured before is replayed."""
        check(runtime().dtile_team_trim(self._handle, TRIM_CAPTURED if captured else 0))

    def barrier(self):
        """All processes meet, on the host."""
        check(runtime().dtile_team_barrier(self._handle))

    def synchronize(self):
        """Waits for this process's GPUs; raises what a launch has reported."""
        check(runtime().dtile_team_synchronize(self._handle))

    @contextlib.contextmanager
    def trace(self, path, most_events=0):
        """Writes what launches in the block do to a file, for ui.perfetto.dev and `dtilec trace`:
        at most so many slices (0: 250000). Kernels are recorded that were built with the flag
        `--trace`. Of a job each process writes its own file. Gives a Trace, which has `dropped`
        behind the block: slices for which there was no room."""
        library = runtime()
        check(library.dtile_trace_begin(self._handle, most_events))
        trace = Trace(os.fspath(path))
        try:
            yield trace
        finally:
            dropped = ctypes.c_int64()
            check(library.dtile_trace_end(self._handle, os.fsencode(path),
                                          ctypes.byref(dropped)))
            trace.dropped = dropped.value

    def close(self):
        """Ends the team: collective where there are several processes. No other thread may be in a
        call with it."""
        if self._handle:
            runtime().dtile_team_destroy(self._handle)
            self._handle = None
        if Team._current is self:
            Team._current = None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
