"""What a model takes, and what it gives in each bucket -> a graph of any sizes that says so, for a
model that compiles with the buckets' sizes alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from xdsl.dialects.func import ReturnOp
from xdsl.rewriter import InsertPoint

from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.graph.bound_sizes import graph_function
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import TensorType, tensor, type_of

Table = Sequence[Mapping[str, int]]
"""The sizes of each bucket."""


def bucket_signature(
    inputs: ImportedModel, table: Table, buckets: Sequence[ImportedModel]
) -> ImportedModel:
    """A graph with these inputs that gives zeros of the shapes that the model's results have in its
    buckets. Raises UnsupportedError where no formula of one size says what these are.
    """
    function, block = graph_function(inputs.module), graph_function(inputs.module).body.block
    returned = block.last_op
    assert isinstance(returned, ReturnOp), "a graph function returns"
    by_name = {op.name.removeprefix("graph."): op for op in OPS}
    b = GraphBuilder(InsertPoint.before(returned), by_name)
    columns = zip(*(_results(each) for each in buckets), strict=True)
    results = [_result(column, table) for column in columns]
    zeros = [b.expand(b.constant_of(0, each.element), shape=each.dims) for each in results]
    block.insert_op_before(ReturnOp(*zeros), returned)
    returned.detach()
    names = graph_function(buckets[0].module).attributes["output_names"]
    function.attributes["output_names"] = names
    function.update_function_type()
    return replace(inputs, output_names=buckets[0].output_names)


def _results(imported: ImportedModel) -> list[TensorType]:
    returned = graph_function(imported.module).get_return_op()
    assert returned is not None, "a graph function returns"
    return [type_of(value) for value in returned.operands]


def _result(column: Sequence[TensorType], table: Table) -> TensorType:
    """The type of a result that has these types in the buckets."""
    first = column[0]
    alike = all(each.has_rank and each.rank == first.rank for each in column)
    if not alike or len({each.element for each in column}) > 1:
        got = " and ".join(map(str, column))
        raise UnsupportedError(f"buckets require results of one rank and element type, got {got}")
    shapes = zip(*(each.shape for each in column), strict=True)
    return tensor([_dim(dims, table) for dims in shapes], first.element)


def _dim(dims: Sequence[Expr], table: Table) -> Expr:
    """A size that is these in the buckets: `a * n + b` of one of their names."""
    if len(set(dims)) == 1:
        return dims[0]
    numbers = [dim.constant for dim in dims]
    known = [number for number in numbers if number is not None]
    for name in table[0] if len(known) == len(numbers) else ():
        line = _line([sizes[name] for sizes in table], known)
        if line is not None:
            return Expr.of(name) * line[0] + line[1]
    got = ", ".join(map(str, dims))
    raise UnsupportedError(f"buckets require results whose sizes follow from one, got {got}")


def _line(at: Sequence[int], values: Sequence[int]) -> tuple[int, int] | None:
    """The integers `a` and `b` of the line through these points, if there is one."""
    other = next((number for number, x in enumerate(at) if x != at[0]), None)
    if other is None or (values[other] - values[0]) % (at[other] - at[0]):
        return None
    slope = (values[other] - values[0]) // (at[other] - at[0])
    start = values[0] - slope * at[0]
    fits = all(slope * x + start == value for x, value in zip(at, values, strict=True))
    return (slope, start) if fits else None
