"""A condition that only a call knows: both ways become regions of `graph.if`, and whatever one of
them changes is a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field
from xdsl.ir import Block, SSAValue

from weft.array.complex_numbers import Complex
from weft.dialects.errors import SourceError
from weft.dialects.graph import EffectOp, IfOp, YieldOp
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.regions.control import join
from weft.source.leaves import LeafType, common, is_leaf, leaf_type_of, same, shown, value_as, wrap
from weft.source.recording import SourceRecording
from weft.source.run import VALUE, Ended, Run
from weft.source.syntax import Location
from weft.source.undo_log import MISSING, Change, NameSlot, Slot
from weft.source.values import Array, Number, Undefined, is_dynamic, is_scalar
from weft.tracing.traced import Traced
from weft.trees import described, flatten_exactly, parts_of, unflatten

Key = tuple[object, ...]
Thunk = Callable[[], None]


class Region(Struct):
    """One way: its operators, what it changed, and whether it ends with an error."""

    block: Block
    changes: dict[Key, Change]
    ended: bool = False

    def after(self, slot: Slot) -> Any:
        """What a slot holds behind it; nothing where there is none."""
        if self.ended:
            return MISSING
        change = self.changes.get(slot.key)
        return slot.get() if change is None else change.after

    def shows_outer(self, value: Any) -> bool:
        """Whether a value is an array that was there before it."""
        array = isinstance(value, Array) and value.ndim > 0
        return array and not _is_within(value.value, self.block)

    def expanded(self, value: Any) -> Any:
        """A value whose lists and dicts are as they were behind it."""
        found = value if isinstance(value, Array) else self.content(value)
        if isinstance(found, dict):
            return {key: self.expanded(each) for key, each in found.items()}
        if isinstance(found, list):
            return [self.expanded(each) for each in found]
        if isinstance(found, tuple):
            values = [self.expanded(each) for each in found]
            return type(found)(*values) if hasattr(found, "_fields") else tuple(values)
        return found

    def content(self, value: Any) -> Any:
        """What an array, list or dict holds behind it, which is undone already."""
        change = self.changes.get((id(value),))
        return value if change is None else change.after


def region(run: Run, block: Block, body: Thunk) -> Region:
    """Reads a piece of the program into a block; afterwards everything is as it was before."""
    run.undo_log.begin()
    run.regions += 1
    try:
        with run.recording.inside(block):
            body()
    except Ended:
        rule = "raise in a loop requires a condition"
        raise run.location.refuse(rule, "an iteration that always ends with it") from None
    finally:
        run.regions -= 1
        changes = run.undo_log.undo()
    return Region(block, {change.slot.key: change for change in changes})


def _way(run: Run, body: Thunk) -> Region:
    """Reads a way through a branch, which may end with an error."""
    ended: list[Ended] = []

    def until_the_end() -> None:
        try:
            body()
        except Ended as end:
            ended.append(end)

    found = region(run, Block(), until_the_end)
    found.ended = bool(ended)
    return found


def acts(way: Region) -> bool:
    """Whether a way prints, or requires something."""
    return any(isinstance(op, EffectOp) for op in way.block.walk())


def trial(run: Run, body: Thunk) -> Region:
    """Reads a piece of the program for what it changes, and forgets it."""
    notes = dict(run.notes)
    try:
        return region(run, Block(), body)
    finally:
        run.notes = notes


def attempt(run: Run, body: Thunk) -> SourceError | None:
    """Reads a piece of the program; after a refusal, which it gives back, all is as it was."""
    block = run.recording.block
    last, notes = block.last_op, dict(run.notes)
    run.undo_log.begin()
    try:
        body()
    except SourceError as error:
        run.undo_log.undo()
        run.notes = notes
        while block.last_op is not last and block.last_op is not None:
            block.erase_op(block.last_op, safe_erase=False)
        return error
    except Ended:
        run.undo_log.keep()
        raise
    run.undo_log.keep()
    return None


class _Pair(Struct):
    """The two values of a leaf, the kind that both become, and arrays that the result may be."""

    values: tuple[Any, Any]
    leaf_type: LeafType
    aliases: list[Array]


class _Position(Struct):
    """Stands for a result of the branch."""

    number: int


class _Joiner(Struct):
    """Finds out what the values behind a branch are."""

    run: Run
    location: Location
    regions: Sequence[Region]
    pairs: list[_Pair] = field(default_factory=list[_Pair])

    def slot(self, slot: Slot) -> Any:
        """What a slot holds behind the branch, with places for results."""
        first, second = (each.after(slot) for each in self.regions)
        ways = zip(self.regions, (first, second), strict=True)
        going_on = [each for way, each in ways if not way.ended]
        if len(going_on) == 1 and not is_dynamic(going_on[0]) and is_scalar(going_on[0]):
            return going_on[0]
        returned = isinstance(slot, NameSlot) and slot.name == VALUE or len(going_on) == 1
        if (first is MISSING or second is MISSING) and not returned:
            got = f"{slot}, which one way through line {self.location.line} leaves without one"
            return Undefined(got)
        if not isinstance(slot, NameSlot) or not slot.variable:
            return self.value("what is returned" if returned else str(slot), first, second)
        kept = len(self.pairs)
        try:
            return self.value(str(slot), first, second)
        except SourceError as error:
            del self.pairs[kept:]
            return Undefined(str(slot), error)

    def value(self, what: str, first: Any, second: Any) -> Any:
        """A value behind the branch."""
        if first is second:
            return first
        for each in (first, second):
            if isinstance(each, Undefined):
                return each
        raw = first, second
        first, second = (way.content(each) for way, each in zip(self.regions, raw, strict=True))
        for missing, present in ((first, second), (second, first)):
            if missing is MISSING and isinstance(present, tuple | list | dict):
                leaves, tree = flatten_exactly(present)
                nothing = unflatten(tree, [MISSING] * len(leaves))
                pair = (nothing, present) if missing is first else (present, nothing)
                return self._container(what, *pair)
        if not same(first, second) and None not in (pair := _pairs(first, second)):
            return Complex([self.value(what, *sides) for sides in zip(*pair, strict=True)])
        if isinstance(first, tuple | list | dict) or isinstance(second, tuple | list | dict):
            return self._container(what, first, second)
        return self._leaf(what, first, second, raw)

    def _container(self, what: str, first: Any, second: Any) -> Any:
        if isinstance(first, frozenset) or type(first) is not type(second):
            self._refuse(what, _form(first), _form(second))
        if isinstance(first, dict):
            if list(first) != list(second):
                self._refuse(
                    what,
                    described(flatten_exactly(first)[1]),
                    described(flatten_exactly(second)[1]),
                )
            return {key: self.value(what, first[key], second[key]) for key in first}
        if len(first) != len(second):
            rule = f"{what} requires one length on every way through a condition on a tensor"
            advice = "keep an array of the greatest length and a count beside it"
            raise self.location.refuse(rule, f"{len(first)} and {len(second)}", advice)
        values = [self.value(what, *pair) for pair in zip(first, second, strict=True)]
        if isinstance(first, list):
            return values
        return type(first)(*values) if hasattr(first, "_fields") else tuple(values)

    def _leaf(self, what: str, first: Any, second: Any, raw: tuple[Any, Any]) -> Any:
        if same(first, second) and is_scalar(first):
            return first
        given = [each for each in (first, second) if each is not MISSING]
        if not all(map(is_leaf, given)):
            if len(given) == 1:
                return given[0]  # it is looked at where the call has returned, and nowhere else
            self._refuse(what, shown(first), shown(second))
        leaf_type = common([leaf_type_of(each) for each in given], self.location, what)
        pairs = zip(self.regions, raw, strict=True)
        aliases = [each for way, each in pairs if way.shows_outer(each)]
        self.pairs.append(_Pair((first, second), leaf_type, aliases))
        return _Position(len(self.pairs) - 1)

    def _refuse(self, what: str, first: str, second: str) -> None:
        rule = f"{what} requires a tensor or number, or one value on every way"
        advice = "choose with a condition that is known while compiling, or give both one form"
        raise self.location.refuse(rule, f"{first} and {second}", advice)


def _pairs(first: Any, second: Any) -> list[Any]:
    """The parts of two complex values, of which one may be missing."""
    parts = [parts_of(each) for each in (first, second)]
    if parts == [None, None]:
        return parts
    values = zip((first, second), parts, strict=True)
    return [(MISSING, MISSING) if each is MISSING else part for each, part in values]


def _is_within(value: SSAValue, block: Block) -> bool:
    """Whether the value was computed in a block or in one that ended up inside of it."""
    owner = value.owner
    home = owner if isinstance(owner, Block) else owner.parent
    while home is not None:
        if home is block:
            return True
        parent = home.parent_op()
        home = None if parent is None else parent.parent
    return False


def branch(run: Run, condition: Number, then: Thunk, otherwise: Thunk, location: Location) -> None:
    """Reads both ways and joins what they change. Raises SourceError for what has no join."""
    test = condition.value
    regions = [_way(run, way) for way in (then, otherwise)]
    if all(way.ended for way in regions):
        if not run.regions:
            rule = "a program requires a way that ends without an error"
            raise location.refuse(rule, "a condition of which both ways raise one")
        _insert(run.recording, test, regions, [])
        raise Ended
    slots = {key: each.slot for way in regions for key, each in way.changes.items()}
    joiner = _Joiner(run, location, regions)
    after = {key: joiner.slot(slot) for key, slot in slots.items()}
    results = _insert(run.recording, test, regions, joiner.pairs)
    named = [str(slot) for slot in slots.values() if not str(slot).startswith("<")]
    run.note(location, f"graph.if, joining {', '.join(named) or 'what is returned'}")
    for key, slot in slots.items():
        run.undo_log.assign(slot, _filled(after[key], results))
    for result, pair in zip(results, joiner.pairs, strict=True):
        link(run, result, pair.aliases)


def link(run: Run, result: Traced, aliases: Sequence[Array]) -> None:
    """Says of which other arrays a result shows the elements, if anything still holds these."""
    if not isinstance(result, Array):
        return
    for array in aliases:
        if array.owner:
            result.own(array.owner)
        elif run.undo_log.holds(lambda each, array=array: each is array):
            result.own("that of another variable on one way")
            result.shows(array)


def _filled(value: Any, results: Sequence[Traced]) -> Any:
    """A joined value with the results in their places."""
    if isinstance(value, _Position):
        return results[value.number]
    leaves, tree = flatten_exactly(value)
    if not any(isinstance(leaf, _Position) for leaf in leaves):
        return value
    return unflatten(tree, [_filled(leaf, results) for leaf in leaves])


def _insert(
    r: SourceRecording, test: SSAValue, regions: Sequence[Region], pairs: Sequence[_Pair]
) -> list[Traced]:
    """The operator; each of its results as what the program sees."""
    if not pairs and not any(map(acts, regions)):
        return []
    for position, way in enumerate(regions):
        with r.inside(way.block):
            yielded = [value_as(r, pair.values[position], pair.leaf_type) for pair in pairs]
            way.block.add_op(YieldOp.create(operands=yielded))
    blocks = [way.block for way in regions]
    names: list[str] = []

    def fresh() -> Iterator[str]:
        while True:
            names.append(r.fresh("size"))
            yield names[-1]

    new = fresh()
    lasts = [block.last_op for block in blocks]
    for column in zip(*(last.operands for last in lasts if last is not None), strict=True):
        join([type_of(value) for value in column], new, "a branch")
    b = r.builder()
    op = b.builder.insert(IfOp.of(test, blocks[0], blocks[1], names, b.location))
    return [wrap(r, result, pair.leaf_type) for result, pair in zip(op.results, pairs, strict=True)]


def choose(
    run: Run, condition: Number, branches: Sequence[Callable[[], Any]], location: Location
) -> Any:
    """The value of an expression that has two ways."""
    box: dict[str, Any] = {}
    slot = NameSlot(run.undo_log.make(box), "a value")

    def taking(way: Callable[[], Any]) -> Thunk:
        return lambda: run.undo_log.assign(slot, way())

    branch(run, condition, taking(branches[0]), taking(branches[1]), location)
    return box["a value"]


def _form(value: Any) -> str:
    """What a value is made of, in words."""
    return described(flatten_exactly(value)[1])
