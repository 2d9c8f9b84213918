"""Which part of each input and output a rank has, by what a compiled program says of its mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.graph.partition.written import read_dims
from weft.compiler.machine.artifact.signature import TensorSpec
from weft.dialects.errors import InputError, OptionError
from weft.dialects.graph.mesh.attributes import Dims
from weft.dialects.weights import Array
from weft.distributed.world import World


class Placement:
    """The parts of one rank. Raises OptionError where the ranks are not those of the mesh."""

    def __init__(self, described: Mapping[str, Any], inputs: Sequence[TensorSpec], world: World):
        mesh = read_mesh(described["axes"])
        assert mesh is not None, "a mesh has axes"
        if mesh.ranks != world.ranks:
            rule = f"a mesh ({mesh}) requires {mesh.ranks} ranks"
            got = f"{world.ranks} (weft launch -n {mesh.ranks}, mpirun, or weft.simulate)"
            raise OptionError(f"{rule}, got {got}")
        self._mesh, self._rank, self._inputs = mesh, world.rank, inputs
        self.inputs: list[Dims] = [read_dims(text) for text in described["inputs"]]
        self.outputs: list[Dims] = [read_dims(text) for text in described["outputs"]]

    def part(self, position: int, array: Array) -> Array:
        """The rank's part of an input: of a whole array a copy of it, of a part the part. Raises
        InputError for arrays that are neither.
        """
        dims, spec = self.inputs[position], self._inputs[position]
        if not any(dims) or array.shape == spec.dims:
            return array
        wanted = [int(dim) for dim in spec.dims]
        parts = [self._mesh.parts(axes) for axes in dims]
        whole = tuple(size * count for size, count in zip(wanted, parts, strict=True))
        if array.shape != whole:
            rule = f"a rank requires {list(whole)}, or its part {wanted}, for input '{spec.name}'"
            raise InputError(f"{rule}, got {list(array.shape)}")
        for axis, (size, axes) in enumerate(zip(wanted, dims, strict=True)):
            start = self._mesh.index(self._rank, axes) * size
            array = array[(slice(None),) * axis + (slice(start, start + size),)]
        return np.array(array, order="C")
