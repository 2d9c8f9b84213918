"""Primitives that mark how a loop's iterations run, vectorize, unroll, dot_product and parallelize,
and that a store is non-temporal.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, UnitAttr

from weft.compiler.loop.legality import require_independent_iterations
from weft.compiler.loop.matchers import product_of_words
from weft.compiler.loop.nest import (
    describe,
    element_address,
    is_branch,
    loads_in,
    loops_in,
    most_iterations,
    ranges_around,
)
from weft.compiler.loop.primitives.recording import primitive
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import AllocOp, ForOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import KernelOp

LONGEST_UNROLL = 256
"""Iterations that an unrolled loop may have: code grows with it, and compile time with code."""


@primitive
def vectorize(loop: ForOp, lanes: int) -> ForOp:
    """Marks a loop to run `lanes` iterations at a time, as the lanes of vectors.

        for j < 16:  S(j)   ->   for j < 16 vector(16):  S(j)

    Raises IllegalSchedule where fewer than `lanes` iterations apart one depends on another, where
    the body branches or allocates, and where an inner loop's bounds differ between lanes. A
    reduction is made independent by split_reduction first.
    """
    if lanes < 1:
        raise IllegalSchedule(f"vectorize requires at least one lane, got {lanes}")
    for op in loop.body.walk():
        varies = isinstance(op, ForOp) and loop.index in op.operands_
        if is_branch(op) or isinstance(op, AllocOp) or varies:
            rule = "a body that is the same for every lane"
            raise IllegalSchedule(f"vectorize requires {rule}, got {describe(op)}")
    if any(other.vector is not None for other in (*loops_in(loop), *enclosing_loops(loop))):
        raise IllegalSchedule(f"vectorize requires one vector loop in a nest, got {describe(loop)}")
    require_independent_iterations("vectorize", loop, lanes - 1)
    loop.properties["vector"] = IntAttr(lanes)
    return loop


@primitive
def unroll(loop: ForOp) -> ForOp:
    """Marks a loop to be unrolled, one copy of the body per iteration (or vector of them).

        for i < 6:  S(i)   ->   for i < 6 unroll:  S(i)

    A vector loop of varying length is unrolled to the most vectors that it can have, with the lanes
    behind its end masked. Raises IllegalSchedule where the number of iterations is not
    constant, or more than LONGEST_UNROLL.
    """
    count = loop.extent.constant
    if count is None and loop.vector is not None and loop.vector.data > 1:
        count = most_iterations(loop)
    copies = None if count is None else -(-count // (loop.vector.data if loop.vector else 1))
    if copies is None or copies > LONGEST_UNROLL:
        got = f"{describe(loop)} with {loop.extent}"
        rule = f"at most {LONGEST_UNROLL} iterations"
        raise IllegalSchedule(f"unroll requires {rule}, got {got}")
    loop.properties["unroll"] = UnitAttr()
    return loop


@primitive
def dot_product(loop: ForOp) -> ForOp:
    """Marks the innermost loop of a sum of products of bytes or bf16, over those of a word of 32
    bits, to be one instruction in each lane of the vector loop around it.

        for j vector(16):  for k < 4 reduction(add):  acc[j] += x[i, k] * y[k, j]
        ->  for j vector(16):  for k < 4 unroll dot reduction(add):  ...

    Raises IllegalSchedule for another number of iterations, for a body that is not the product of
    an unsigned and a signed byte or of two bf16, summed in 32 bits, and where consecutive
    iterations do not load neighbouring elements of both.
    """
    product = product_of_words(loop)
    if product is None:
        rule = "the sum of products of an unsigned and a signed byte, or of bf16"
        raise IllegalSchedule(f"dot_product requires {rule}, got {describe(loop)}")
    if loop.extent != product.terms or loop.lower != 0 or loop.step.data != 1:
        rule = f"a loop over {product.terms} terms"
        raise IllegalSchedule(f"dot_product requires {rule}, got {describe(loop)}")
    for load in (product.lhs, product.rhs):
        address = element_address(load).simplify(ranges_around(load))
        if not address.is_affine_in(loop.index) or address.coefficient(loop.index) != 1:
            rule = "neighbouring elements in consecutive iterations"
            raise IllegalSchedule(f"dot_product requires {rule}, got {describe(load)}")
    loop.properties["unroll"] = UnitAttr()
    loop.properties["dot"] = UnitAttr()
    return loop


@primitive
def parallelize(loop: ForOp) -> ForOp:
    """Marks a loop whose iterations may run at the same time on several threads.

        for i < n:  S(i)   ->   for i < n parallel:  S(i)

    Raises IllegalSchedule where an iteration depends on another, through a reduction too, and where
    the body allocates in the workspace, which threads share.
    """
    for op in loop.body.walk():
        if isinstance(op, AllocOp) and op.scope.data == "workspace":
            rule = "that each thread allocates scratch of its own"
            raise IllegalSchedule(f"parallelize requires {rule}, got {describe(op)}")
    require_independent_iterations("parallelize", loop)
    loop.properties["parallel"] = UnitAttr()
    return loop


@primitive
def nontemporal(store: StoreOp) -> StoreOp:
    """Marks a store as non-temporal: its vectors bypass the caches where they fill whole lines.

        store x, y[i]   ->   store x, y[i] nontemporal

    Memory is then not read before it is written, and the caches keep what is in them. Raises
    IllegalSchedule for what the kernel reads again, and for a buffer of the kernel's own.
    """
    if isinstance(store.buffer.owner, AllocOp):
        rule = "an argument of the kernel"
        raise IllegalSchedule(f"nontemporal requires {rule}, got {describe(store)}")
    kernel = store.parent_op()
    while not isinstance(kernel, KernelOp):
        assert kernel is not None, "an operation under schedule is in a kernel"
        kernel = kernel.parent_op()
    for load in loads_in(kernel):
        if load.buffer is store.buffer:
            rule = "a buffer that the kernel does not read"
            raise IllegalSchedule(f"nontemporal requires {rule}, got {describe(load)}")
    store.properties["nontemporal"] = UnitAttr()
    return store
