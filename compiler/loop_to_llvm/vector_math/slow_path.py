"""What few arguments need: a branch that is taken where some lane does, and in it lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from weft.compiler.loop_to_llvm.vector_math.lanes import Integer, Mask, Real

Value = Real | Integer


def one_by_one(
    operands: Sequence[Real], of_one: Callable[[Sequence[Real]], Sequence[Value]]
) -> list[Any]:
    """What a function of scalars gives for every lane, in a loop."""
    at, builder = operands[0].at, operands[0].at.builder
    if not at.lanes:
        return [*of_one(operands)]
    index_type, entry = ir.IntType(32), builder.block
    loop, done = builder.append_basic_block("lane"), builder.append_basic_block("lanes_done")
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(index_type)
    scalars = [
        Real(at.scalar(), each.format, builder.extract_element(each.value, index))
        for each in operands
    ]
    of_lane = of_one(scalars)
    last = builder.block
    builder.position_at_start(loop)  # where phis stand
    sofar = [builder.phi(at.shaped(part.value.type)) for part in of_lane]
    builder.position_at_end(last)
    updated: list[Any] = []
    for part, whole in zip(of_lane, sofar, strict=True):
        whole.add_incoming(ir.Constant(whole.type, ir.Undefined), entry)
        updated.append(builder.insert_element(whole, part.value, index))
        whole.add_incoming(updated[-1], last)
    following = builder.add(index, ir.Constant(index_type, 1))
    index.add_incoming(ir.Constant(index_type, 0), entry)
    index.add_incoming(following, builder.block)
    more = builder.icmp_unsigned("<", following, ir.Constant(index_type, at.lanes))
    builder.cbranch(more, loop, done)
    builder.position_at_end(done)
    return [_lanes_of(at, part, value) for part, value in zip(of_lane, updated, strict=True)]


def _lanes_of(at: Any, part: Value, value: Any) -> Value:
    if isinstance(part, Real):
        return Real(at, part.format, value)
    return Integer(at, part.bits, value)


def where_any(
    mask: Mask, usual: Sequence[Value], slow_path: Callable[[], Sequence[Value]]
) -> list[Any]:
    """The usual values, or what `slow_path` returns where the mask holds for some lane."""
    builder: Any = mask.at.builder
    before = builder.block
    slow, after = builder.append_basic_block("slow"), builder.append_basic_block("after")
    builder.cbranch(mask.any(), slow, after).set_weights([1, 2000])
    builder.position_at_end(slow)
    others = slow_path()
    slow_end = builder.block
    builder.branch(after)
    builder.position_at_end(after)
    merged: list[Value] = []
    for each, other in zip(usual, others, strict=True):
        phi = builder.phi(each.value.type)
        phi.add_incoming(each.value, before)
        phi.add_incoming(other.value, slow_end)
        merged.append(each.like(phi))
    return merged
