"""Runs a program on terms: what each operation reads is the term of how that came to be.

Loops run a few iterations, branches run both ways. Where a size decides how often, it is a sample.
A program that passes have rewritten runs beside the one that was lowered: where both read the same
terms, every byte that is read was written by the definition that is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NoReturn

from msgspec import Struct
from xdsl.dialects.builtin import NameLoc, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.validation.outcome import Outcome
from weft.compiler.validation.storage import Storage, is_input
from weft.compiler.validation.terms import Path, Terms
from weft.compiler.validation.tracked import Tracked
from weft.dialects.errors import PlanError
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.loop.arithmetic import IndexOp
from weft.dialects.loop.communication import CommunicationOp, MessageOp, RecvOp, WaitOp, is_sum
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.dispatch import CallProgramOp
from weft.dialects.loop.dynamic import (
    BindSymbolOp,
    CopyOp,
    CurrentViewOp,
    ReallocOp,
    RequireEqualOp,
    SubviewOp,
    TransferOwnershipOp,
)
from weft.dialects.loop.effects import AssertOp, HostCallOp, NativeCallOp, PollOp, PrintOp
from weft.dialects.loop.extents import RequireExtentsOp
from weft.dialects.loop.ops import AllocOp, ConditionOp, ForOp, IfOp, LoadOp, StoreOp, WhileOp
from weft.dialects.loop.program import (
    STANDS_FOR,
    CallOp,
    ProgramOp,
    ViewOp,
    WeightOp,
    origin_of,
    size_ranges,
)

MOST_ITERATIONS: Final = 5
"""Of a loop; enough for two buffers in turn to be swapped, swapped back and left either way."""


class Access(Struct, frozen=True):
    """A buffer, or rows of it, as a value of the program reaches it. `moves` is how often its
    growable block had moved when the value was made.
    """

    root: SSAValue
    path: Path = ()
    moves: int = 0
    viewed: bool = False

    def overlaps(self, other: Access) -> bool:
        """Whether two parts of one buffer share elements."""
        return all(a == b for a, b in zip(self.path, other.path, strict=False))


class _Changes(Struct, frozen=True):
    """What a way of a branch changes: contents of buffers, whether their borders are filled, and
    how often blocks have moved.
    """

    contents: Mapping[SSAValue, int]
    borders: Mapping[SSAValue, bool]
    moves: Mapping[object, int]


class Execution:
    """One run of a program, in which unknown integers are `sample`."""

    def __init__(self, program: ProgramOp, terms: Terms, storage: Storage, sample: int):
        self.program = program
        self.terms = terms
        self.storage = storage
        self.sample = sample
        self.outcome = Outcome()
        self.contents: Tracked[SSAValue, int] = Tracked()
        self.borders: Tracked[SSAValue, bool] = Tracked()
        self.moves: Tracked[object, int] = Tracked()
        self._summed: dict[int, int] = {}  # what was there where sums take their operands' places
        self.accesses: dict[SSAValue, Access] = {}
        self.scalars: dict[SSAValue, int] = {}
        self.sizes: Tracked[str, int] = Tracked()
        ranges = size_ranges(program)
        for name in program.symbol_names:
            low, high = ranges.get(Symbol(name), (None, None))
            self.sizes[name] = min(max(sample, low or 0), sample if high is None else high)

    def run(self) -> Outcome:
        """Runs the program once. Raises PlanError where it does what no program may."""
        arguments = self.program.body.block.args
        for number, argument in enumerate(arguments):
            self.accesses[argument] = Access(argument)
            if number < self.program.inputs.data:
                self.contents[argument] = self.terms.of("input", number)
                self.storage.add(argument)
        self._block(self.program.body.block)
        outputs = arguments[self.program.inputs.data :]
        self.outcome.outputs = [self._content(output) for output in outputs]
        return self.outcome

    def _block(self, block: Block) -> None:
        self.sizes.begin()
        for op in block.ops:
            self._operation(op)
        self.sizes.restore(self.sizes.end())

    def _operation(self, op: Operation) -> None:
        match op:
            case CallOp():
                self.call(op)
            case AllocOp():
                self._allocate(op)
            case ViewOp():
                self._view(op)
            case WeightOp():
                self._define(op.result, self.terms.of("weight", op.key.data))
            case ForOp():
                self._for(op)
            case WhileOp():
                self._while(op)
            case IfOp():
                self._branch(op)
            case ConcurrentOp():
                self.concurrent(op)
            case _:
                self._small(op)

    def _small(self, op: Operation) -> None:
        match op:
            case CopyOp():
                self._copy(op)
            case CommunicationOp() | MessageOp():
                self._communicate(op)
            case SubviewOp():
                source = self.access(op.source)
                path = (*source.path, self._number(op.value))
                self.accesses[op.result] = Access(source.root, path, source.moves, True)
            case BindSymbolOp():
                self.sizes[op.size.data] = max(0, self._number(op.value))
            case CurrentViewOp():
                root = self._root(op.source)
                self.accesses[op.result] = Access(root, (), self._moves(root))
            case ReallocOp():
                self._realloc(op)
            case TransferOwnershipOp():
                self.contents[op.output] = self.read(op.source)
                self.lose(self._root(op.source))
            case CallProgramOp():
                self._run_program(op)
            case RequireEqualOp() | RequireExtentsOp() | PollOp():
                pass  # they touch no buffer
            case _:
                self._scalar(op)

    # Scalars and effects ----------------------------------------------------------------------

    def _scalar(self, op: Operation) -> None:
        match op:
            case IndexOp():
                self.scalars[op.result] = self.terms.of("integer", self._number(op.value))
            case LoadOp():
                self.scalars[op.result] = self.terms.read(self.read(op.buffer), self._index(op))
            case StoreOp():
                target = self.access(op.buffer)
                path = (*target.path, *self._index(op))
                value = self.scalars[op.value]
                self.write(op, Access(target.root, path, target.moves), value)
            case PrintOp():
                self._note(op, op.text.data, *(self.read(each) for each in op.values))
            case HostCallOp() | NativeCallOp():
                name = op.text if isinstance(op, HostCallOp) else op.function
                self._note(op, name.data, *(self.read(each) for each in op.sources))
                for number, each in enumerate(op.targets):
                    self.write(op, self.access(each), self.outcome.answer(self.terms, number))
            case AssertOp() | ConditionOp():
                self._note(op, *(self.scalars[each] for each in op.operands))
            case _:
                self._compute(op)

    def _index(self, op: LoadOp | StoreOp) -> Path:
        return tuple(self._number(each) for each in op.index)

    def _note(self, op: Operation, *parts: str | int) -> None:
        self.outcome.effects.append(self.terms.of(op.name, *parts))

    def _compute(self, op: Operation) -> None:
        """A scalar operation: its term is its name, attributes and operands."""
        if op.regions or any(each not in self.scalars for each in op.operands):
            raise PlanError(f"memory plan requires operations of known effect, got {op.name}")
        properties = tuple(sorted((key, str(each)) for key, each in op.properties.items()))
        operands = [self.scalars[each] for each in op.operands]
        for number, result in enumerate(op.results):
            self.scalars[result] = self.terms.of(op.name, properties, number, *operands)

    def _number(self, expr: Expr) -> int:
        """The value of an expression, with the sample for integers that are not known."""
        if expr.constant is not None:
            return expr.constant
        return expr.evaluate({atom: self._atom(atom) for atom in expr.atoms()})

    def _atom(self, atom: Atom) -> int:
        if isinstance(atom, Symbol):
            return self.sizes[atom.name]
        assert isinstance(atom, SSAValue), "sizes of programs are over symbols and values"
        constant = self.terms.integer(self.scalars[atom])
        return self.sample if constant is None else constant

    # Buffers ----------------------------------------------------------------------------------

    def _allocate(self, op: AllocOp) -> None:
        root = op.result
        if root in self.contents:  # in an iteration before
            self.storage.remove(root)
            self.borders.discard(root)
        self.contents[root] = self.terms.undefined
        moves = self._reserve(root) if op.scope.data == "growable" else 0
        self.accesses[root] = Access(root, (), moves)

    def _reserve(self, root: SSAValue) -> int:
        """Lets the block of a growable buffer move: what else it held is lost."""
        for other in self.storage.sharing(root):
            self.lose(other)
        block = self.storage.block(root)
        self.moves[block] = self.moves.get(block, 0) + 1
        return self.moves[block]

    def _moves(self, root: SSAValue) -> int:
        return self.moves.get(self.storage.block(root), 0)

    def _realloc(self, op: ReallocOp) -> None:
        root = self._root(op.source)
        moves = self._reserve(root)
        if op.keep is None:
            self.storage.remove(root)
            self.contents[root] = self.terms.undefined
        self.accesses[op.result] = Access(root, (), moves)

    def _view(self, op: ViewOp) -> None:
        source = self.access(op.source)
        self.accesses[op.result] = Access(source.root, source.path, source.moves, True)
        key = op.attributes.get(STANDS_FOR)
        if isinstance(key, StringAttr):
            self._define(op.result, self.terms.of("weight", key.data))

    def _define(self, value: SSAValue, content: int) -> None:
        self.accesses[value] = Access(value)
        self.contents[value] = content

    def _root(self, value: SSAValue) -> SSAValue:
        return self.accesses[value].root

    def access(self, value: SSAValue) -> Access:
        """What a value reaches. Raises PlanError where its memory has moved since."""
        access = self.accesses[value]
        if access.moves != self._moves(access.root):
            name = access.root.name_hint or "?"
            raise PlanError(f"memory plan requires views of memory where it is, got one of %{name}")
        return access

    def _content(self, root: SSAValue) -> int:
        return self.contents.get(root, self.terms.undefined)

    def read(self, value: SSAValue) -> int:
        """The term of what a value reaches."""
        access = self.access(value)
        if not access.viewed and self.borders.get(access.root) is False:
            return self.terms.lost
        return self.terms.read(self._content(access.root), access.path)

    def write(self, op: Operation, access: Access, value: int) -> None:
        """Notes that an operation has written; what lay there is lost."""
        root = access.root
        if is_input(root, self.program) or isinstance(root.owner, WeightOp):
            self.refuse(op, "to write its own buffers alone", "an input or a weight")
        for other in self.storage.add(root):
            self.lose(other)
        self.contents[root] = self.terms.write(self._content(root), access.path, value)

    def lose(self, root: SSAValue) -> None:
        """Notes that a buffer was overwritten, where it held anything."""
        self.storage.remove(root)
        if self._content(root) != self.terms.undefined:
            self.contents[root] = self.terms.lost
        if root in self.borders:
            self.borders[root] = False

    def _copy(self, op: CopyOp) -> None:
        source, target = self.access(op.source), self.access(op.target)
        content = self.read(op.source)
        if self.meet(source, target) and not self.is_same_element(source, target):
            self.refuse(op, "buffers that lie apart", "two that share bytes")
        self.write(op, target, content)

    def _communicate(self, op: CommunicationOp | MessageOp) -> None:
        """Buffers are a collective's until it ends: what they hold then shows what came."""
        buffers = list(map(self.access, op.operands))
        count = 2 if isinstance(op, WaitOp) else 0 if isinstance(op, RecvOp) else 1
        held = list(map(self.read, op.operands[:count]))
        if len(buffers) > 1 and self.meet(*buffers):
            if not is_sum(op) or not self.is_same_element(*buffers):
                self.refuse(op, "buffers that lie apart", "two that share bytes")
            if not isinstance(op, WaitOp):
                self._summed[op.number.value.data] = held[0]
            held[0] = self._summed[op.number.value.data]
        self._note(op, str(op.properties), *held)
        if isinstance(op, CommunicationOp | RecvOp):
            self.write(op, buffers[-1], self.outcome.effects[-1])

    def meet(self, one: Access, other: Access) -> bool:
        """Whether two accesses may share a byte."""
        if one.root is other.root:
            return one.overlaps(other)
        return self.storage.may_overlap(one.root, other.root)

    def is_same_element(self, one: Access, other: Access) -> bool:
        """Whether two accesses are of the same bytes, in the same order."""
        return one.path == other.path and self.storage.same_bytes(one.root, other.root)

    def refuse(self, op: Operation, rule: str, got: str) -> NoReturn:
        """Raises PlanError about an operation of the program."""
        what = f"call of @{op.kernel}" if isinstance(op, CallOp) else op.name
        node = f" for {op.location.desc.data!r}" if isinstance(op.location, NameLoc) else ""
        raise PlanError(f"{what}{node} requires {rule}, got {got}")

    # Calls ------------------------------------------------------------------------------------

    def call(self, op: CallOp) -> None:
        """Runs a call of a kernel."""
        raise NotImplementedError

    def run_call(self, op: CallOp, read: Mapping[int, int], written: Mapping[int, Access]) -> int:
        """Notes a call that reads terms and gives results, both by argument; its term."""
        sizes = tuple(self._number(each) for each in op.sizes.data)
        node = self.terms.of("call", origin_of(op), sizes, tuple(sorted(read.items())))
        for position, access in written.items():
            self.write(op, access, self.terms.of("result", node, position))
        return node

    def _run_program(self, op: CallProgramOp) -> None:
        """Another program: it reads its inputs and writes its outputs and its workspace."""
        count = op.inputs.data
        read = [self.read(each) for each in op.arguments[:count]]
        node = self.terms.of("run", op.program, *read)
        written = [self.access(each) for each in (*op.arguments[count:], op.workspace)]
        others = [self.access(each) for each in op.arguments[:count]]
        for number, access in enumerate(written):
            if any(self.meet(access, each) for each in (*others, *written[number + 1 :])):
                self.refuse(op, "buffers that lie apart", "two that share bytes")
            self.write(op, access, self.terms.of("result", node, number))
        self.outcome.calls.add(node)

    # Control flow -----------------------------------------------------------------------------

    def _for(self, op: ForOp) -> None:
        for index in self._indices(op):
            self.scalars[op.index] = self.terms.of("integer", index)
            self._block(op.body.block)

    def _indices(self, op: ForOp) -> Iterator[int]:
        """The iterations that stand for all. Those of a loop that was unrolled count as several of
        the one that it was, so that both stop at the same state.
        """
        lower, step = self._number(op.lower), op.step.data
        count = max(0, -((lower - self._number(op.upper)) // step))
        copies = _copies(op.body.block)
        total = count * copies
        kept = total if total <= MOST_ITERATIONS else MOST_ITERATIONS - 1 + total % 2
        for number in range(kept // copies):
            last = total > MOST_ITERATIONS and number == MOST_ITERATIONS - 1
            yield lower + (count - 1 if last else number) * step

    def _while(self, op: WhileOp) -> None:
        for _ in range(self.sample):
            self._block(op.condition.block)
            self._block(op.body.block)
        self._block(op.condition.block)

    def _branch(self, op: IfOp) -> None:
        condition = self.scalars[op.condition]
        self.outcome.effects.append(self.terms.of(op.name, condition))
        self._join(condition, self._taken_back(op.then.block), self._taken_back(op.otherwise.block))

    def _taken_back(self, block: Block) -> _Changes:
        """What a block changes, which is undone."""
        for state in (self.contents, self.borders, self.moves):
            state.begin()
        self._block(block)
        contents, borders, moves = self.contents.end(), self.borders.end(), self.moves.end()
        changes = _Changes(
            {root: self._content(root) for root in contents},
            {root: self.borders.get(root, True) for root in borders},
            {number: self.moves.get(number, 0) for number in moves},
        )
        self._set_contents(contents)
        self.borders.restore(borders)
        self.moves.restore(moves)
        return changes

    def _set_contents(self, contents: Mapping[SSAValue, int | None]) -> None:
        """Gives buffers other contents; None for those that are not allocated."""
        before = {root for root in contents if self._holds(root)}
        self.contents.restore(contents)
        for root in before:
            if not self._holds(root):
                self.storage.remove(root)
        for root in contents:
            if root not in before and self._holds(root):
                for other in self.storage.add(root):
                    self.lose(other)

    def _holds(self, root: SSAValue) -> bool:
        """Whether a buffer holds something."""
        return self._content(root) not in (self.terms.undefined, self.terms.lost)

    def _join(self, condition: int, then: _Changes, otherwise: _Changes) -> None:
        """Joins what memory holds behind the two ways of a branch, neither of which shows yet."""
        joined: dict[SSAValue, int | None] = {}
        for root in {**then.contents, **otherwise.contents}:
            ways = (each.contents.get(root, self._content(root)) for each in (then, otherwise))
            joined[root] = self.terms.either(condition, *ways)
        self._set_contents(joined)
        for root in {**then.borders, **otherwise.borders}:
            before = self.borders.get(root, True)
            self.borders[root] = all(each.borders.get(root, before) for each in (then, otherwise))
        for number in {**then.moves, **otherwise.moves}:
            count = self.moves.get(number, 0)
            one, other = (each.moves.get(number, count) for each in (then, otherwise))
            self.moves[number] = one if one == other else max(one, other) + 1

    def concurrent(self, op: ConcurrentOp) -> None:
        """Runs branches in any order."""
        for branch in op.branches:
            self._block(branch.block)


def _copies(block: Block) -> int:
    """How many iterations of the loop that was lowered one of this block stands for."""
    numbers = [origin_of(op) for op in block.ops if isinstance(op, CallOp)]
    return max((numbers.count(each) for each in set(numbers) if each is not None), default=1)
