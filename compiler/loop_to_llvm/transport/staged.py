"""`all_reduce`, `all_gather`, `reduce_scatter`: collectives of ranks that do not reach each other's
buffers, chunk by chunk through the areas of the segment.

    all_reduce      put others' shares in; arrive; reduce the own one; arrive; take all shares out
    all_gather      put the part in; arrive; take all parts out; arrive
    reduce_scatter  put others' pieces in; arrive; reduce the own one; arrive

What a rank has put in stays until all have arrived again.
"""

from __future__ import annotations

from weft.compiler.loop_to_llvm.runtime.code import I64, i32, i64
from weft.compiler.loop_to_llvm.transport.call import Call


def define_all_reduce(call: Call) -> None:
    """Each rank reduces its share of a chunk, and takes those of all."""
    code, endpoint = call.code, call.endpoint
    shares = code.variable_at_entry(I64)
    own_part, reduced = endpoint.part(endpoint.rank), endpoint.reduced(endpoint.rank)
    with call.chunks(call.room) as (offset, count):
        source = call.at(call.source, offset)
        first, length = call.share(count, call.own)
        end = code.add(first, length)
        call.copy(own_part, source, first)
        call.copy(call.at(own_part, end), call.at(source, end), code.sub(count, end))
        call.arrive()
        call.check_tags()
        call.reduce(call.at(reduced, first), first, call.at(source, first), length)
        call.arrive()
        with code.repeat(call.group, shares) as index:
            begin, size = call.share(count, index)
            found = call.at(endpoint.reduced(call.rank(index)), begin)
            call.copy(call.at(call.target, code.add(offset, begin)), found, size)
    code.ret(i32(0))


def define_all_gather(call: Call) -> None:
    """Each rank takes the parts of all."""
    code, endpoint = call.code, call.endpoint
    members = code.variable_at_entry(I64)
    own_part = endpoint.part(endpoint.rank)
    with call.chunks(call.room) as (offset, count):
        call.copy(own_part, call.at(call.source, offset), count)
        call.arrive()
        call.check_tags()
        with code.repeat(call.group, members) as index:
            place = code.add(code.mul(index, call.count), offset)
            found = endpoint.part(call.rank(index))
            call.copy(call.at(call.target, place), found, count)
        call.arrive()
    code.ret(i32(0))


def define_reduce_scatter(call: Call) -> None:
    """Each rank reduces its piece of what all have put in."""
    code, endpoint = call.code, call.endpoint
    members = code.variable_at_entry(I64)
    own_part = endpoint.part(endpoint.rank)
    piece = code.udiv(call.room, call.group)
    with call.chunks(piece) as (offset, count):
        with code.repeat(call.group, members) as index:
            is_own = code.icmp_unsigned("==", index, call.own)
            size = code.select(is_own, i64(0), count)
            place = code.add(code.mul(index, call.count), offset)
            other = call.at(own_part, code.mul(index, piece))
            call.copy(other, call.at(call.source, place), size)
        call.arrive()
        call.check_tags()
        mine = code.mul(call.own, piece)
        own = call.at(call.source, code.add(code.mul(call.own, call.count), offset))
        call.reduce(call.at(call.target, offset), mine, own, count)
        call.arrive()
    code.ret(i32(0))
