# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Meshes of ranks: of teams, and of the kernels that number their ranks by coordinates."""

from ._abi import DtileInvalid


class Mesh:
    """Axes of ranks, of which the last changes from rank to rank: sizes, and names or None."""

    def __init__(self, sizes, names=None):
        self.sizes = tuple(sizes)
        self.names = tuple(names) if names else None

    @classmethod
    def of(cls, value):
        """What callers have: a mesh, sizes, sizes by names, or PyTorch's device mesh."""
        if value is None or isinstance(value, cls):
            return value
        if hasattr(value, "get_group") and hasattr(value, "ndim"):
            return cls([value.size(axis) for axis in range(value.ndim)], value.mesh_dim_names)
        names = list(value) if hasattr(value, "items") else None
        sizes = list(value.values()) if names else list(value)
        if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
            raise DtileInvalid(f"a mesh has a size for each axis, as in (2, 4) or "
                               f"{{\"node\": 2, \"local\": 4}}, and this is {value!r}")
        return cls(sizes, names)

    def ranks(self):
        count = 1
        for size in self.sizes:
            count *= size
        return count

    def __str__(self):
        text = "x".join(map(str, self.sizes))
        return f"{text} ({', '.join(self.names)})" if self.names else text

    def __eq__(self, other):
        return isinstance(other, Mesh) and (self.sizes, self.names) == (other.sizes, other.names)

    def __hash__(self):
        return hash((self.sizes, self.names))


def checked(value, ranks):
    """The mesh of so many ranks."""
    mesh = Mesh.of(value)
    if mesh is not None and mesh.ranks() != ranks:
        raise DtileInvalid(f"a mesh of {mesh} has {mesh.ranks()} ranks, and the team has {ranks}")
    return mesh


def same_everywhere(meshes):
    """Refuses ranks whose meshes differ."""
    for rank, mesh in enumerate(meshes):
        if mesh != meshes[0]:
            raise DtileInvalid(f"the mesh is {meshes[0]} on rank 0, and {mesh} on rank {rank}")


class KernelMesh:
    """The axes of a kernel: a line each, `local L` where L is the argument that is its size, and
    `local 8` where it has 8 places."""

    def __init__(self, kernel, text):
        self._kernel = kernel
        self.axes = [(line.split() + [None])[:2] for line in text.splitlines()]

    def __str__(self):
        return ", ".join(axis for axis, _ in self.axes)

    def arguments(self, mesh):
        """The arguments that the mesh of a launch gives, by name."""
        if len(mesh.sizes) != len(self.axes):
            raise DtileInvalid(f"{self._kernel} has the axes {self}, and the mesh is {mesh}")
        own = [axis for axis, _ in self.axes]
        if mesh.names and list(mesh.names) != own and set(mesh.names) == set(own):
            raise DtileInvalid(f"{self._kernel} has the axes {self}, in this order, and the mesh "
                               f"is {mesh}")
        given = {}
        for (axis, size), places in zip(self.axes, mesh.sizes):
            if size is None:
                continue
            known = int(size) if size.isdigit() else given.setdefault(size, places)
            if known != places:
                raise DtileInvalid(f"{self._kernel} has {known} places on the axis {axis}, and the "
                                   f"mesh is {mesh}")
        return given
