"""The timeline finds what a search through all items finds."""

import hypothesis.strategies as st
from hypothesis import given

from weft.compiler.program.memory.live_intervals import LiveIntervals

RANGES = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: tuple(sorted(pair)))


@given(st.lists(RANGES, max_size=20), RANGES)
def test_timeline_finds_each_item_that_meets_a_range_once(ranges, asked):
    timeline = LiveIntervals[int](41)
    for number, (first, last) in enumerate(ranges):
        timeline.add(first, last, number)
    wanted = [
        number
        for number, (first, last) in enumerate(ranges)
        if first <= asked[1] and asked[0] <= last
    ]
    assert sorted(timeline.meeting(*asked)) == wanted
