"""`Captured`: a graph in the making that tensors with values run as one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.dialects.graph.reindexing.constant import INLINE_ELEMENTS
from weft.eager.tape import computed
from weft.eager.templates import program_of
from weft.eager.tensor import Tensor
from weft.tracing.traced import Recording, Traced, declared


class Captured(Recording):
    """A graph that is computed at once: tensors, and large arrays, that it reads are its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.tensors = self.block, list[Tensor]()

    def held(self, tensor: Any) -> Traced:
        given = tensor if isinstance(tensor, Tensor) else Tensor.of(np.asarray(tensor))
        self.tensors.append(given)
        input_type = declared(given.dtype.name, given.shape)
        return Traced(self, self.inputs.insert_arg(input_type, len(self.inputs.args)))

    def constant(self, array: Any) -> Any:
        is_large = array.size > INLINE_ELEMENTS and array.dtype.kind != "c"
        return self.held(array) if is_large else super().constant(array)

    def computed(self, results: Sequence[Traced]) -> list[Tensor]:
        """The values of traced tensors."""
        template = program_of(self.block, [each.value for each in results])
        return computed(Tensor, template, self.tensors)
