"""Which part of each input and output a rank has, by what a compiled program says of its mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.graph.partition.written import read_dims
from weft.compiler.machine.artifact.signature import TensorSpec
from weft.dialects.errors import InputError, OptionError
from weft.dialects.graph.mesh.attributes import STAGE, Dims, MeshAttr
from weft.dialects.weights import Array
from weft.distributed.messages import Messages
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
        self._mesh, self._world, self._inputs = mesh, world, inputs
        self.inputs: list[Dims] = [read_dims(text) for text in described["inputs"]]
        self.outputs: list[Dims] = [read_dims(text) for text in described["outputs"]]
        self._stages: Sequence[Sequence[int]] = described.get("input_ranks", [()] * len(inputs))
        """Of each input those of a pipeline that have it; none for all."""

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
            start = self._mesh.index(self._world.rank, axes) * size
            array = array[(slice(None),) * axis + (slice(start, start + size),)]
        return np.array(array, order="C")

    def whole(self, position: int, part: Array) -> Array:
        """The whole of an input of which each rank has its part, which all ranks ask for in the
        same order. Raises RankError as calls do.
        """
        if self._world.ranks == 1 or not (any(self.inputs[position]) or self._stages[position]):
            return part
        blocks = self._blocks(position)
        counts = [max(each) + 1 for each in zip(*blocks, strict=True)]
        found = np.empty([n * dim for n, dim in zip(counts, part.shape, strict=True)], part.dtype)
        messages = Messages(MeshAttr((("ranks", self._world.ranks),)), "ranks", self._world.table)
        for block, owner in blocks.items():
            if owner != self._world.rank:
                array = messages.recv(owner, position, part)
            else:
                array = part
                for other in range(self._world.ranks):
                    if other != owner:
                        messages.send(other, position, part)
            starts = [index * dim for index, dim in zip(block, part.shape, strict=True)]
            ends = [start + dim for start, dim in zip(starts, part.shape, strict=True)]
            found[tuple(map(slice, starts, ends))] = array
        return found

    def _blocks(self, position: int) -> dict[tuple[int, ...], int]:
        """The first rank that has each block of an input, by the block's index in each dim."""
        dims, rank = self.inputs[position], len(self._inputs[position].dims)
        stages, mesh = self._stages[position], self._mesh
        blocks: dict[tuple[int, ...], int] = {}
        for each in range(mesh.ranks):
            if not stages or mesh.index(each, (STAGE,)) in stages:
                index = [mesh.index(each, axes) for axes in dims] or [0] * rank
                blocks.setdefault(tuple(index), each)
        return blocks
