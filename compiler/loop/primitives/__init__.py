"""Schedule primitives: rewrites of loop nests, in place, that raise rather than change meaning.

Structure first, marks last: what restructures a loop refuses one that is already parallel, vector
or unrolled.
"""

from weft.compiler.loop.primitives.bounding import bound_loop
from weft.compiler.loop.primitives.carrying import carry_store
from weft.compiler.loop.primitives.eliminating import eliminate_dead_stores
from weft.compiler.loop.primitives.expanding import expand_scalar
from weft.compiler.loop.primitives.fusing import (
    compute_at,
    compute_inline,
    eliminate_dead_buffer,
    eliminate_empty_loop,
    forward_store,
    fuse_loops,
)
from weft.compiler.loop.primitives.marking import (
    dot_product,
    nontemporal,
    parallelize,
    unroll,
    vectorize,
)
from weft.compiler.loop.primitives.matrix import matrix_product
from weft.compiler.loop.primitives.ordering import distribute, hoist, reorder
from weft.compiler.loop.primitives.packing import dim_innermost as dim_innermost
from weft.compiler.loop.primitives.packing import flatten, hoist_allocation, pack
from weft.compiler.loop.primitives.packing import interleave as interleave
from weft.compiler.loop.primitives.packing import panels as panels
from weft.compiler.loop.primitives.pipelining import compute_among, pipeline
from weft.compiler.loop.primitives.prefetching import prefetch, prefetch_shares
from weft.compiler.loop.primitives.reducing import block_reduction, split_reduction
from weft.compiler.loop.primitives.reusing import reuse_buffer
from weft.compiler.loop.primitives.staging import stage_accumulators, stage_tile
from weft.compiler.loop.primitives.tiling import (
    collapse,
    normalize_loop,
    split_at,
    tile,
    tile_ragged,
)
from weft.compiler.loop.primitives.widening import widen

PRIMITIVES = (
    tile,
    tile_ragged,
    split_at,
    normalize_loop,
    collapse,
    reorder,
    distribute,
    expand_scalar,
    hoist,
    fuse_loops,
    compute_at,
    compute_inline,
    forward_store,
    carry_store,
    eliminate_dead_buffer,
    eliminate_empty_loop,
    eliminate_dead_stores,
    reuse_buffer,
    stage_tile,
    stage_accumulators,
    split_reduction,
    block_reduction,
    pack,
    flatten,
    hoist_allocation,
    widen,
    bound_loop,
    vectorize,
    unroll,
    dot_product,
    matrix_product,
    pipeline,
    compute_among,
    parallelize,
    nontemporal,
    prefetch,
    prefetch_shares,
)
"""All that a schedule is made of; each is a pass as well, and a line of a schedule file."""
