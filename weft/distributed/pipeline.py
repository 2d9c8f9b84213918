"""An executable whose ranks are stages of a pipeline: results reach all ranks, and of a stream of
inputs each stage works on another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.machine.python.executable import Executable, call_with
from weft.dialects.graph.mesh.attributes import STAGE
from weft.dialects.weights import Array
from weft.distributed.messages import Messages
from weft.distributed.world import World


class Pipeline:
    """The calls of one rank. Outputs that take donated inputs' memory stay where they are
    computed and read: `held` says of each output whether this rank has it, `reads` of each input
    whether it reads it.
    """

    def __init__(self, executable: Executable, described: Mapping[str, Any], world: World):
        mesh = read_mesh(described["axes"])
        assert mesh is not None, "a mesh has axes"
        self._call = executable.__call__
        self._position = mesh.index(world.rank, (STAGE,))
        self._others = [each for each in range(mesh.sizes[STAGE]) if each != self._position]
        self._messages = Messages(mesh, STAGE, world.table)
        donated = {target for _, target in executable.donated}
        ranks: list[list[int]] = described["output_ranks"]
        self.reads = [self._position in each for each in described["input_ranks"]]
        self.held = [not each or self._position in each for each in ranks]
        self._owners = {
            number: each[0] for number, each in enumerate(ranks) if each and number not in donated
        }
        last = max(self._owners.values(), default=0) if described["one_way"] else 0
        self._lookahead = 2 * max(0, last - self._position)

    def __call__(self, *arrays: Any, **named: Any) -> tuple[Array, ...]:
        """The results, each from the rank that computes it."""
        results = self._run(arrays, named)
        self._complete(results)
        return tuple(results)

    def stream(self, inputs: Iterable[Any]) -> Iterator[tuple[Array, ...]]:
        """The results for each of the inputs. A rank runs ahead of those that compute results by an
        input for each stage between them, and one for each message on its way.
        """
        under_way: deque[list[Array]] = deque()
        for given in inputs:
            under_way.append(call_with(lambda *arrays, **named: self._run(arrays, named), given))
            if len(under_way) > self._lookahead:
                yield self._oldest(under_way)
        while under_way:
            yield self._oldest(under_way)

    def _oldest(self, under_way: deque[list[Array]]) -> tuple[Array, ...]:
        results = under_way.popleft()
        self._complete(results)
        return tuple(results)

    def _run(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> list[Array]:
        """Calls the rank's stages, gives results to all others, and takes those of ranks in front,
        which come between what these send for the next call.
        """
        results = list(self._call(*arrays, **named))
        for number, owner in self._owners.items():
            if owner == self._position:
                for other in self._others:
                    self._messages.send(other, number, results[number])
        self._take(results, before=True)
        return results

    def _complete(self, results: list[Array]) -> None:
        self._take(results, before=False)

    def _take(self, results: list[Array], *, before: bool) -> None:
        for number, owner in self._owners.items():
            if owner != self._position and (owner < self._position) == before:
                results[number] = self._messages.recv(owner, number, results[number])


def join_stages(executable: Executable, world: World) -> None:
    """Gives an executable the calls of a pipeline, where it is one."""
    described = executable.metadata.get("mesh", {})
    if "output_ranks" in described and world.table is not None:
        executable.pipeline = Pipeline(executable, described, world)
        executable.__call__ = executable.pipeline
