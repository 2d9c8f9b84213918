"""What a loop of the graph carries from round to round: its body is read until that repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from xdsl.ir import Block, SSAValue

from weft.dialects.errors import SourceError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import TensorType, tensor
from weft.source.leaves import LeafType, common, is_leaf, leaf_type_of, same, shown, value_as, wrap
from weft.source.recording import SourceRecording
from weft.source.run import VALUE, Run
from weft.source.statements.branches import Key, Region, Thunk, link, region
from weft.source.syntax import Location
from weft.source.undo_log import MISSING, Change, ListSlot, NameSlot, Slot
from weft.source.values import Array, Spread, Undefined, is_scalar
from weft.tracing.traced import Traced
from weft.trees import Structure, described, flatten_exactly, unflatten


class Leaf(Struct):
    """A leaf of a slot: its value in front of the loop; its kind where rounds change it."""

    initial: Any
    leaf_type: LeafType | None = None
    aliases: list[Array] = field(default_factory=list[Array])
    """Arrays that it may be behind the loop."""


class LoopCarried(Struct):
    """A slot that the loop changes."""

    slot: Slot
    tree: Structure
    leaves: list[Leaf]

    @property
    def what(self) -> str:
        """What errors call it."""
        return "what is returned" if str(self.slot) == VALUE else str(self.slot)


class Rows(Struct):
    """A list that each round appends to: how many elements there are before the loop, and what a
    round adds.
    """

    slot: ListSlot
    before: list[Any]
    added: list[Any] = field(default_factory=list[Any])


class State(Struct):
    """The slots that a loop carries, as far as they are known."""

    run: Run
    location: Location
    kept: set[str]
    """Names that have a value behind the loop, since a round surely runs, though none before it."""
    carried: dict[Key, LoopCarried] = field(default_factory=dict[Key, LoopCarried])
    rows: dict[Key, Rows] = field(default_factory=dict[Key, Rows])
    lost: dict[Key, Slot] = field(default_factory=dict[Key, Slot])
    """Names that only rounds define."""
    errors: dict[Key, SourceError] = field(default_factory=dict[Key, SourceError])
    """Why names have no one value in all rounds."""
    sizes: list[str] = field(default_factory=list[str])

    @property
    def recording(self) -> SourceRecording:
        return self.run.recording

    def varying(self) -> list[tuple[LoopCarried, Leaf, LeafType]]:
        """The leaves that are values of the graph."""
        return [
            (each, leaf, leaf.leaf_type)
            for each in self.carried.values()
            for leaf in each.leaves
            if leaf.leaf_type is not None
        ]

    def block(self) -> Block:
        """A block with an argument for each of them."""
        return Block(arg_types=[each.type for _, _, each in self.varying()])

    def enter(self, block: Block) -> None:
        """Slots hold what a round starts with."""
        arguments = iter(block.args)
        for each in self.carried.values():
            values = [
                leaf.initial
                if leaf.leaf_type is None
                else wrap(self.recording, next(arguments), leaf.leaf_type, "one carried by a loop")
                for leaf in each.leaves
            ]
            self.run.undo_log.assign(each.slot, unflatten(each.tree, values))
        for key, error in self.errors.items():
            self.run.undo_log.assign(self.lost[key], Undefined(str(self.lost[key]), error))
        for rows in self.rows.values():
            self.run.undo_log.assign(rows.slot, [*rows.before, Spread(None)])

    def read(self, body: Thunk) -> Region:
        """Reads the body until what it carries repeats."""
        notes = dict(self.run.notes)
        for _ in range(64):
            self.run.notes = dict(notes)
            block = self.block()

            def round_(block: Block = block) -> None:
                self.enter(block)
                body()

            found = region(self.run, block, round_)
            if not self.widen(found):
                return found
        raise self.location.refuse("a loop requires types that repeat", "ever other ones")

    def widen(self, found: Region) -> bool:
        """Takes in what a round changed; whether that was more than what was known."""
        news = False
        for key, change in found.changes.items():
            try:
                news |= self._taken_in(key, change, found)
            except SourceError as error:
                if not isinstance(change.slot, NameSlot) or not change.slot.variable:
                    raise
                self.carried.pop(key, None)
                self.lost[key], self.errors[key] = change.slot, error
                news = True
        return news

    def _taken_in(self, key: Key, change: Change, found: Region) -> bool:
        """Takes in one change."""
        slot = change.slot
        if key in self.errors:
            return False
        if key in self.carried:
            return self._widened(self.carried[key], change.after, found)
        if key in self.rows:
            self._appended(self.rows[key], change.after)
            return False
        if isinstance(slot, ListSlot) and len(change.after) > len(change.before):
            self._require_appending(slot, change.before, change.after)
            self.rows[key] = Rows(slot, list(change.before))
            return True
        if self._is_lost(slot, change):
            self.lost[key] = slot
            return False
        return self._add(key, change, found)

    def _is_lost(self, slot: Slot, change: Change) -> bool:
        """Whether only rounds define the slot; what is returned has a flag beside it."""
        if change.before is not MISSING:
            return isinstance(change.before, Undefined)
        if isinstance(change.after, Undefined) or not isinstance(slot, NameSlot):
            return True
        if str(slot) == VALUE:
            return False
        leaves, _ = flatten_exactly(change.after)
        return str(slot) not in self.kept or not all(map(is_leaf, leaves))

    def _add(self, key: Key, change: Change, found: Region) -> bool:
        slot = change.slot
        if change.before is MISSING:
            leaves, tree = flatten_exactly(found.expanded(change.after))
            leaves = [found.content(leaf) for leaf in leaves]
            entries = [
                Leaf(MISSING, leaf_type_of(leaf)) if is_leaf(leaf) else Leaf(leaf)
                for leaf in leaves
            ]
            self.carried[key] = LoopCarried(
                slot, tree, [self._grounded(entry) for entry in entries]
            )
            return True
        leaves, tree = flatten_exactly(change.before)
        entry = LoopCarried(slot, tree, [Leaf(leaf) for leaf in leaves])
        if self._widened(entry, change.after, found):
            self.carried[key] = entry
            return True
        return False

    def _grounded(self, leaf: Leaf) -> Leaf:
        """A leaf without a value in front of the loop starts with no elements where only the loop
        knows how many there are.
        """
        if leaf.leaf_type is not None:
            leaf.leaf_type = LeafType(self._named(leaf.leaf_type.type), leaf.leaf_type.number)
        return leaf

    def _named(self, tensor_type: TensorType) -> TensorType:
        """The type with a name for each dim that is no number."""
        dims = [dim if dim.constant is not None else self._size() for dim in tensor_type.shape]
        return tensor(dims, tensor_type.element)

    def _size(self) -> Expr:
        self.sizes.append(self.recording.fresh("size"))
        return Expr.of(self.sizes[-1])

    def _widened(self, entry: LoopCarried, after: Any, found: Region) -> bool:
        if isinstance(after, Undefined):
            raise self.location.refuse(
                f"{entry.what} requires a value on every way", after.reason, "assign it before"
            )
        leaves, tree = flatten_exactly(found.expanded(after))
        if tree != entry.tree:
            rule = f"{entry.what} requires one form in every round"
            got = f"{described(entry.tree)} and {described(tree)}"
            raise self.location.refuse(rule, got, self._advice(entry))
        news = False
        for leaf, value in zip(entry.leaves, leaves, strict=True):
            news |= self._leaf(entry, leaf, value, found)
        return news

    def _leaf(self, entry: LoopCarried, leaf: Leaf, raw: Any, found: Region) -> bool:
        value = found.content(raw)
        if leaf.leaf_type is None and (raw is leaf.initial or _unchanged(leaf.initial, value)):
            return False
        leaf.aliases = [each for each in (leaf.initial, raw) if found.shows_outer(each)]
        if not (is_leaf(leaf.initial) and is_leaf(value)):
            rule = f"{entry.what} requires a tensor or number, or one value in every round"
            got = f"{shown(leaf.initial)} and {shown(value)}"
            raise self.location.refuse(rule, got, self._advice(entry))
        old = leaf_type_of(leaf.initial) if leaf.leaf_type is None else leaf.leaf_type
        new = common([old, leaf_type_of(value)], self.location, entry.what)
        if new.number is None:
            pairs = zip(new.type.shape, leaf_type_of(value).type.shape, strict=True)
            dims = [
                dim if dim == other or str(dim) in self.sizes else self._size()
                for dim, other in pairs
            ]
            new = LeafType(tensor(dims, new.type.element))
        changed = new != leaf.leaf_type
        leaf.leaf_type = new
        return changed

    def _advice(self, entry: LoopCarried) -> str:
        return f"give {entry.what} its form before the loop, or loop over something known"

    def _require_appending(self, slot: ListSlot, before: list[Any], after: list[Any]) -> None:
        kept = all(map(same, before, after))
        if not kept or not all(map(is_leaf, after[len(before) :])):
            rule = "a list in a loop of the graph requires tensors that are appended"
            got = "other changes of its length"
            raise self.location.refuse(rule, got, "keep an array and a count, or loop over a range")

    def _appended(self, rows: Rows, after: list[Any]) -> None:
        start = len(rows.before) + 1
        self._require_appending(rows.slot, rows.before, after[: start - 1] + after[start:])
        rows.added = after[start:]
        if len(after) < start or not isinstance(after[start - 1], Spread) or not rows.added:
            rule = "a list in a loop of the graph requires as many new elements in every round"
            raise self.location.refuse(rule, len(rows.added), "keep an array and a count")

    def initial_values(self) -> list[SSAValue]:
        """What the loop starts from."""
        r = self.recording
        return [value_as(r, leaf.initial, each) for _, leaf, each in self.varying()]

    def results_of(self, found: Region) -> list[SSAValue]:
        """What the body hands on: carried values, then new elements of lists."""
        r = self.recording
        values: list[SSAValue] = []
        for entry in self.carried.values():
            leaves, _ = flatten_exactly(found.expanded(found.after(entry.slot)))
            values += [
                value_as(r, found.content(value), leaf.leaf_type)
                for leaf, value in zip(entry.leaves, leaves, strict=True)
                if leaf.leaf_type is not None
            ]
        return values + [
            value_as(r, value, leaf_type_of(value))
            for rows in self.rows.values()
            for value in rows.added
        ]

    def leave(self, results: Sequence[SSAValue]) -> None:
        """Slots hold what the loop leaves in them."""
        remaining = iter(results)
        undo_log = self.run.undo_log
        linked: list[tuple[Traced, list[Array]]] = []
        for entry in self.carried.values():
            values: list[Any] = []
            for leaf in entry.leaves:
                if leaf.leaf_type is None:
                    values.append(leaf.initial)
                    continue
                values.append(wrap(self.recording, next(remaining), leaf.leaf_type))
                linked.append((values[-1], leaf.aliases))
            undo_log.assign(entry.slot, unflatten(entry.tree, values))
        for result, aliases in linked:
            link(self.run, result, aliases)
        for rows in self.rows.values():
            stacks = [self.recording.array(next(remaining)) for _ in rows.added]
            if len(stacks) > 1:
                rule = "a list in a loop of the graph requires one new element in every round"
                raise self.location.refuse(rule, len(stacks), "append to a list each")
            undo_log.assign(rows.slot, [*rows.before, Spread(stacks[0])])
        for key, slot in self.lost.items():
            if isinstance(slot, NameSlot):
                got = f"{slot}, which the loop of line {self.location.line} may leave without one"
                undo_log.assign(slot, Undefined(got, self.errors.get(key)))


def _unchanged(before: Any, after: Any) -> bool:
    """Whether a round left a value as it is; arrays that are changed in place are others."""
    return same(before, after) and is_scalar(before)
