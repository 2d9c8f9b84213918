"""Buffers that follow each other in slots."""

from random import Random

from weft.compiler.program.memory.slots import Lifetime, share_by_size
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import F32
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.types import buffer


def lifetime(elements: int, first: int, last: int) -> Lifetime:
    alloc = AllocOp.of(buffer([elements], F32))
    return Lifetime(alloc, Expr.of(4 * elements), first, last)


def test_tenants_of_a_slot_fit_and_follow_each_other():
    """B1: the plan of buffers of which very many are alive at once."""
    random = Random(1)
    found = [
        lifetime(random.choice((16, 32, 64)), start, start + random.randrange(1, 200))
        for start in random.choices(range(1000), k=400)
    ]
    slots = share_by_size(found)
    assert sum(len(slot.tenants) for slot in slots) == len(found)
    for slot in slots:
        assert slot.size == max(life.size.constant or 0 for life in slot.tenants)
        ends = [(life.first, life.last) for life in slot.tenants]
        assert all(last < first for (_, last), (first, _) in zip(ends, ends[1:], strict=False))


def test_buffers_of_one_size_have_as_many_slots_as_are_alive_at_once():
    """B1"""
    found = [lifetime(16, start, 100 - start) for start in range(50)]
    found += [lifetime(16, start, start) for start in range(60, 100)]
    assert len(share_by_size(found)) == 50
