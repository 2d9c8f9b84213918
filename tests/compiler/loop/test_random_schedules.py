"""Schedules drawn at random: whatever the primitives accept keeps the answer."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from tests.compiler.loop.kernels import (
    bordered,
    convolution,
    gather,
    matmul,
    outcome,
    pointwise,
    prefix_sum,
    row_sum,
    scatter,
    softmax,
)
from weft.compiler.loop.nest import accesses_in, loops_in, only_loop, stores_in
from weft.compiler.loop.primitives import (
    block_reduction,
    bound_loop,
    carry_store,
    collapse,
    compute_inline,
    distribute,
    eliminate_dead_stores,
    expand_scalar,
    flatten,
    forward_store,
    fuse_loops,
    hoist,
    nontemporal,
    pack,
    panels,
    parallelize,
    pipeline,
    prefetch,
    prefetch_shares,
    reorder,
    reuse_buffer,
    split_at,
    split_reduction,
    stage_accumulators,
    stage_tile,
    tile,
    tile_ragged,
    vectorize,
    widen,
)
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import KernelOp

KERNELS = (
    bordered,
    convolution,
    gather,
    lambda: matmul(4, 6, 3),
    pointwise,
    prefix_sum,
    row_sum,
    scatter,
    softmax,
)
LARGEST = 40
"""Loops that a kernel may grow to before the rest of its schedule is left out."""


def step(op: KernelOp, action: str, choice: int, size: int) -> None:
    """Applies a primitive to the loop, operation or buffer that `choice` stands for."""
    loops = loops_in(op)
    loop = loops[choice % len(loops)]
    accesses = accesses_in(op)
    access = accesses[choice % len(accesses)]
    body = list(loop.body.block.ops)
    inner = only_loop(loop.body.block)
    actions: dict[str, Callable[[], object]] = {
        "tile": lambda: tile(loop, size),
        "tile_ragged": lambda: tile_ragged(loop, size),
        "split_at": lambda: split_at(loop, size),
        "collapse": lambda: inner and collapse(loop, inner),
        "reorder": lambda: inner and reorder(inner, loop),
        "distribute": lambda: distribute(loop, body[size % len(body)]),
        "expand_scalar": lambda: expand_scalar(body[size % len(body)]),
        "hoist": lambda: hoist(body[size % len(body)]),
        "fuse_loops": lambda: isinstance(after(loop), ForOp) and fuse_loops(loop, after(loop)),
        "pipeline": lambda: isinstance(after(loop), ForOp) and pipeline(loop, after(loop)),
        "compute_inline": lambda: isinstance(access, StoreOp) and compute_inline(access),
        "carry_store": lambda: isinstance(access, LoadOp) and carry_store(access),
        "forward_store": lambda: isinstance(access, LoadOp) and forward_store(access),
        "stage_tile": lambda: stage_tile(access.buffer, loop, "scratch"),
        "stage_accumulators": lambda: stage_accumulators(access.buffer, loop, "scratch"),
        "split_reduction": lambda: split_reduction(loop, size),
        "split_reduction with a rest": lambda: split_reduction(loop, 2 * size, rest=size),
        "block_reduction": lambda: block_reduction(loop, size),
        "pack": lambda: pack_in_panels(access.buffer, size),
        "flatten": lambda: (
            isinstance(access.buffer.owner, AllocOp) and flatten(access.buffer.owner, size - 1)
        ),
        "widen": lambda: isinstance(access.buffer.owner, AllocOp) and widen(access.buffer.owner),
        "bound_loop": lambda: bound_loop(
            loop, body[choice % len(body)], [*enclosing_loops(loop), loop][0], size
        ),
        "vectorize": lambda: vectorize(loop, size),
        "parallelize": lambda: parallelize(loop),
        "nontemporal": lambda: isinstance(access, StoreOp) and nontemporal(access),
        "eliminate_dead_stores": lambda: eliminate_dead_stores(loop),
        "reuse_buffer": lambda: [
            reuse_buffer(access.buffer.owner, store)
            for store in stores_in(op)[:1]
            if isinstance(access.buffer.owner, AllocOp)
        ],
        "prefetch": lambda: prefetch(access, loop, size),
        "prefetch_lines": lambda: inner and prefetch(access, loop, size, before=inner),
        "prefetch_around": lambda: inner and prefetch(access, inner, size, around=loop),
        "prefetch_shares": lambda: prefetch_shares(access, loop, loops[size % len(loops)]),
    }
    actions[action]()


def after(loop: ForOp) -> object:
    """The next loop of the same block, if there is one."""
    following = loop.next_op
    while following is not None and not isinstance(following, ForOp):
        following = following.next_op
    return following


def pack_in_panels(buffer: SSAValue, width: int) -> None:
    if buffer.type.storage == buffer.type.shape:
        pack(buffer, panels(buffer.type, 0, width))


ACTIONS = [
    "tile",
    "tile_ragged",
    "split_at",
    "collapse",
    "reorder",
    "distribute",
    "expand_scalar",
    "hoist",
    "fuse_loops",
    "compute_inline",
    "forward_store",
    "carry_store",
    "stage_tile",
    "stage_accumulators",
    "split_reduction",
    "split_reduction with a rest",
    "bound_loop",
    "block_reduction",
    "pack",
    "flatten",
    "widen",
    "vectorize",
    "parallelize",
    "nontemporal",
    "prefetch",
    "prefetch_lines",
    "prefetch_around",
    "prefetch_shares",
    "eliminate_dead_stores",
    "reuse_buffer",
    "pipeline",
]
STEP = st.tuples(st.sampled_from(ACTIONS), st.integers(0, 30), st.integers(1, 4))


@settings(max_examples=150)
@given(make=st.sampled_from(KERNELS), schedule=st.lists(STEP, min_size=2, max_size=8))
def test_whatever_is_accepted_keeps_the_answer(make, schedule: list[tuple[str, int, int]]):
    op = make()
    for action, choice, size in schedule:
        if len(loops_in(op)) > LARGEST:
            break
        try:
            step(op, action, choice, size)
        except IllegalSchedule:
            continue
    for expected, got in zip(outcome(make()), outcome(op), strict=True):
        assert got == pytest.approx(expected, nan_ok=True)
