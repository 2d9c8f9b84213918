"""pipeline: epilogues among the reductions of the next iteration, of any lengths, in any layout."""

from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from tests.compiler.loop.kernels import kernel, loops, same
from weft.compiler.loop.nest import accesses_in
from weft.compiler.loop.primitives import dim_innermost, pack, pipeline
from weft.dialects.graph.core.types import F32
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.program import KernelOp


def sums_of_tiles(tiles: int, rows: int, terms: int) -> KernelOp:
    """y[j, i, n] = 2 * (sum over k of x[j, i, k, n]), by way of the sums of a tile."""

    def sums(b: LoopBuilder, x: SSAValue, y: SSAValue) -> None:
        with b.loops([tiles], "j") as (j,):
            tile = b.scratch([rows, 2], F32, "tile")
            with b.loops([rows, 2], "zn") as index:
                b.store(tile, index, b.constant(0, F32))
            with b.reduce([terms], "add", "k") as (k,), b.loops([rows, 2], "mn") as (i, n):
                b.store(tile, (i, n), b.load(tile, (i, n)) + b.load(x, (j, i, k, n)))
            with b.loops([rows, 2], "en") as (i, n):
                b.store(y, (j, i, n), b.load(tile, (i, n)) * 2)

    return kernel(sums, x=[tiles, rows, terms, 2], y=[tiles, rows, 2])


@given(
    tiles=st.integers(2, 4),
    rows=st.integers(2, 7),
    terms=st.integers(2, 9),
    transposed=st.booleans(),
)
def test_epilogues_of_any_length(tiles: int, rows: int, terms: int, transposed: bool) -> None:
    op = sums_of_tiles(tiles, rows, terms)
    if transposed:
        buffer = accesses_in(op)[0].buffer
        pack(buffer, dim_innermost(buffer.type, 0))
    reduction, epilogue = loops(op, "k", "e")
    main = pipeline(reduction, epilogue)
    assert main.extent == tiles - 1
    last = [each for each in main.body.block.ops if isinstance(each, ForOp)][-1]
    assert last.reduction is not None, "the epilogue is inside of the reduction"
    same(sums_of_tiles(tiles, rows, terms), op)
