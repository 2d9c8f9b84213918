"""Sizes of a signature at run time: expressions over the symbols, `batch * seq`,
`(n floordiv 2)`, `max(3, n)`. They are read by the grammar of `dialects/expr_text.py` and become
steps on a stack; nothing evaluates their text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from weft.dialects.errors import ArtifactError
from weft.dialects.steps import Step

Size = Callable[[Mapping[str, int]], int]

Program = Sequence[tuple[Step, int]]
"""Steps with their operands: a number, or the place of a symbol; 0 for others."""

_Named = tuple[Step, int | str]
"""A step whose operand is still the symbol's name."""

_TOKEN: Final = re.compile(r"\s*(?P<word>(?P<number>[0-9]{1,19})|(?:max|min)\(|\w+|\S)")
_BINARY: Final[Mapping[str, tuple[int, Step]]] = {
    "+": (1, Step.ADD),
    "-": (1, Step.SUB),
    "*": (2, Step.MUL),
    "floordiv": (2, Step.FLOORDIV),
    "mod": (2, Step.MOD),
}
"""How closely an operator binds, and its step."""
_UNARY: Final = 3
_BRACKETS: Final[Mapping[str, Step | None]] = {"(": None, "max(": Step.MAX, "min(": Step.MIN}
_WORDS: Final = ("floordiv", "mod", "max", "min")

_COMPUTE: Final[Mapping[Step, Callable[[int, int], int]]] = {
    Step.ADD: int.__add__,
    Step.SUB: int.__sub__,
    Step.MUL: int.__mul__,
    Step.MIN: min,
    Step.MAX: max,
    Step.FLOORDIV: int.__floordiv__,
    Step.MOD: int.__mod__,
}


def size_of(dim: int | str) -> Size:
    """The dim as a function of the symbols' values, which raises KeyError where one is missing.
    Raises ArtifactError for text that is no such expression.
    """
    if isinstance(dim, int):
        return lambda _: dim
    if _is_symbol(dim):
        return lambda symbols: symbols[dim]
    steps = _Reader(dim).steps()
    return lambda symbols: _evaluate(steps, symbols)


def program_of(dim: str, symbols: Sequence[str]) -> Program:
    """The same function as steps on a stack, whose only value at the end it gives.
    Raises ArtifactError for text that is no such expression, and for other symbols.
    """
    steps = _Reader(dim).steps()
    unknown = [name for _, name in steps if isinstance(name, str) and name not in symbols]
    if unknown:
        rule = f"signature requires dims of the symbols {', '.join(symbols)}"
        raise ArtifactError(f"{rule}, got {unknown[0]}")
    placed = (
        (step, symbols.index(operand) if isinstance(operand, str) else operand)
        for step, operand in steps
    )
    return [*placed, (Step.END, 0)]


def depth_of(program: Program) -> int:
    """How many values are on the stack at most."""
    change = (1 if step in (Step.NUMBER, Step.SYMBOL) else -1 for step, _ in program)
    return max(accumulate(change), default=0)


def _is_symbol(dim: str) -> bool:
    return dim.isidentifier() and dim not in _WORDS


def _evaluate(steps: Sequence[_Named], symbols: Mapping[str, int]) -> int:
    stack: list[int] = []
    for step, operand in steps:
        if isinstance(operand, str):
            stack.append(symbols[operand])
        elif step is Step.NUMBER:
            stack.append(operand)
        else:
            last = stack.pop()
            stack[-1] = _COMPUTE[step](stack[-1], last)
    return stack[0]


class _Waiting(Struct):
    """An operator whose right operand is not whole yet, or an open bracket, whose step joins the
    operands of `max` or `min`; `joins` once there are two.
    """

    binding: int
    step: Step | None
    joins: bool = True


class _Reader:
    """One expression -> steps, by precedence and without recursion, however deep it nests."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[_Named] = []
        self.waiting: list[_Waiting] = []

    def steps(self) -> Sequence[_Named]:
        """The whole expression. Raises ArtifactError for any other text."""
        is_whole = False
        for match in _TOKEN.finditer(self.text):
            is_whole = (self._go_on if is_whole else self._begin)(match["word"], match["number"])
        self._join(1)
        if self.waiting or not is_whole:
            raise self._refusal()
        return self.found

    def _begin(self, word: str, number: str | None) -> bool:
        """Takes what an operand may begin with; returns whether it is whole."""
        if number is not None:
            self.found.append((Step.NUMBER, int(number)))
        elif word == "-":
            self.found.append((Step.NUMBER, 0))
            self.waiting.append(_Waiting(_UNARY, Step.SUB))
        elif word in _BRACKETS:
            self.waiting.append(_Waiting(0, _BRACKETS[word], joins=False))
        elif _is_symbol(word):
            self.found.append((Step.SYMBOL, word))
        else:
            raise self._refusal()
        return number is not None or _is_symbol(word)

    def _go_on(self, word: str, number: str | None) -> bool:
        """Takes what may follow an operand; returns whether an operand is whole then."""
        if number is None and word in _BINARY:
            binding, step = _BINARY[word]
            self._join(binding)
            self.waiting.append(_Waiting(binding, step))
            return False
        self._join(1)
        bracket = self.waiting[-1] if self.waiting else None
        if bracket is None or (word != ")" and (word != "," or bracket.step is None)):
            raise self._refusal()
        self._join_operands(bracket)
        if word == ")":
            self.waiting.pop()
        return word == ")"

    def _join(self, binding: int) -> None:
        """Ends the operators that bind at least so closely."""
        while self.waiting and self.waiting[-1].binding >= binding:
            self._join_operands(self.waiting.pop())

    def _join_operands(self, waiting: _Waiting) -> None:
        if waiting.joins and waiting.step is not None:
            self.found.append((waiting.step, 0))
        waiting.joins = True

    def _refusal(self) -> ArtifactError:
        return ArtifactError(f"signature requires integer expressions as dims, got {self.text}")
