"""Meshes of ranks, and how a tensor is cut into their parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from weft.dialects.errors import OptionError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import Shape, TensorType, tensor

Axes = tuple[str, ...]
"""Axes of a mesh; the index in their product counts the last one fastest."""

Dims = tuple[Axes, ...]
"""The axes that cut each dim of a tensor."""


STAGE = "stage"
"""The axis of a mesh whose ranks compute the stages of a pipeline."""


@irdl_attr_definition
class MeshAttr(Data[tuple[tuple[str, int], ...]]):
    """Named axes of ranks, `#graph.mesh<data = 2, model = 4>`: ranks count the last one fastest."""

    name = "graph.mesh"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, int], ...]:
        def axis() -> tuple[str, int]:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            return name, parser.parse_integer(allow_boolean=False, allow_negative=False)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, axis))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self))

    def __str__(self) -> str:
        return ", ".join(f"{name} = {size}" for name, size in self.data)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of ranks along each axis."""
        return dict(self.data)

    @property
    def strides(self) -> Mapping[str, int]:
        """How far apart neighbours along each axis are, in ranks."""
        names = [name for name, _ in self.data]
        sizes = [size for _, size in self.data]
        return {name: prod(sizes[number + 1 :]) for number, name in enumerate(names)}

    @property
    def has_stages(self) -> bool:
        """Whether ranks are those of a pipeline."""
        return self.sizes.get(STAGE, 1) > 1

    @property
    def ranks(self) -> int:
        """How many there are."""
        return prod(size for _, size in self.data)

    def parts(self, axes: Iterable[str]) -> int:
        """Into how many parts these axes cut."""
        return prod(self.sizes[axis] for axis in axes)

    def index(self, rank: int, axes: Sequence[str]) -> int:
        """The index of a rank in the product of these axes."""
        index = 0
        for axis in axes:
            index = index * self.sizes[axis] + rank // self.strides[axis] % self.sizes[axis]
        return index

    def group(self, rank: int, axes: Sequence[str]) -> list[int]:
        """The ranks that differ from one along these axes alone, by their index."""
        others = [name for name, _ in self.data if name not in axes]
        place = self.index(rank, others)
        ranks = [each for each in range(self.ranks) if self.index(each, others) == place]
        return sorted(ranks, key=lambda each: self.index(each, axes))


@irdl_attr_definition
class ShardingAttr(Data[Dims]):
    """How a tensor is cut: the axes of a mesh for each dim, `#graph.sharding<[["data"], []]>`.
    Along axes that no dim has every rank holds the same.
    """

    name = "graph.sharding"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Dims:
        def axes() -> Axes:
            return tuple(
                parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal)
            )

        with parser.in_angle_brackets():
            return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, axes))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self))

    def __str__(self) -> str:
        names = (", ".join(f'"{axis}"' for axis in axes) for axes in self.data)
        return f"[{', '.join(f'[{each}]' for each in names)}]"


def local_shape(shape: Shape, dims: Dims, mesh: MeshAttr) -> Shape:
    """The shape of one rank's part, where the axes divide each dim."""
    return tuple(
        dim if not axes else Expr.of((dim.constant or 0) // mesh.parts(axes))
        for dim, axes in zip(shape, dims, strict=True)
    )


def local_type(whole: TensorType, dims: Dims, mesh: MeshAttr) -> TensorType:
    """The type of one rank's part of a tensor; one that is not cut may be of any shape."""
    return tensor(local_shape(whole.shape, dims, mesh), whole.element) if any(dims) else whole


def require_sharding(whole: TensorType, dims: Dims, mesh: MeshAttr, who: str) -> None:
    """Raises OptionError for a sharding that a tensor cannot have: of another rank, along axes that
    the mesh lacks or that it has twice, or that do not divide a dim, which has to be constant.
    """
    axes = [axis for each in dims for axis in each]
    unknown = [axis for axis in axes if axis not in mesh.sizes]
    if unknown:
        raise OptionError(f"{who} requires axes of the mesh ({mesh}), got {', '.join(unknown)}")
    if len(set(axes)) < len(axes):
        raise OptionError(f"{who} requires each axis once, got {', '.join(axes)}")
    if not any(dims):
        return
    if not whole.has_rank or whole.rank != len(dims):
        raise OptionError(f"{who} requires axes for each dim, got {len(dims)} for {whole}")
    for dim, each in zip(whole.shape, dims, strict=True):
        if each and (dim.constant is None or dim.constant % mesh.parts(each)):
            parts = f"{mesh.parts(each)} ({' and '.join(each)})"
            raise OptionError(f"{who} requires a dim that is a multiple of {parts}, got {dim}")
