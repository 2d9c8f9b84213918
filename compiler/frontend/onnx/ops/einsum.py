"""ONNX Einsum: the ellipsis spelt out, more than two operands contracted one after the other."""

from __future__ import annotations

import string
from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.dialects.errors import ModelError
from weft.dialects.graph.core.builder import GraphBuilder


def import_einsum(node: OnnxNode) -> Sequence[SSAValue]:
    """The contraction that the equation names."""
    equation = node.text("equation", "").replace(" ", "")
    ranks = [len(node.shape(position)) for position in range(len(node.operands))]
    terms, result = spelt_out(equation, ranks)
    return [contract(node.b, node.present(), terms, result)]


def spelt_out(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, those that an ellipsis stands for too.

    Without `->` the result has the letters that occur once, in alphabetical order.
    """
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ModelError(f"requires an equation of {len(ranks)} operands, got {equation}")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    counts = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    for term, count in zip(terms, counts, strict=True):
        if count < 0 or (count and "..." not in term) or term.count(".") not in (0, 3):
            raise ModelError(f"requires an equation of the operands' ranks {ranks}, got {equation}")
    widest = max((c for t, c in zip(terms, counts, strict=True) if "..." in t), default=0)
    if widest > len(free):
        raise ModelError(f"requires at most 52 letters, got {equation}")
    shared = "".join(free[:widest])
    full = [
        term.replace("...", shared[widest - count :])
        for term, count in zip(terms, counts, strict=True)
    ]
    joined = "".join(terms)
    once = sorted(c for c in set(joined) - {"."} if joined.count(c) == 1)
    result = right.replace("...", shared) if arrow else shared + "".join(once)
    if not set(result) <= set("".join(full)) or len(set(result)) < len(result):
        raise ModelError(f"requires a result of the operands' letters, each once, got {equation}")
    return full, result


def contract(
    b: GraphBuilder, operands: Sequence[SSAValue], terms: Sequence[str], result: str
) -> SSAValue:
    """The contraction as a chain of those of at most two operands.

    What only one operand of several has, and the result has not, is summed before.
    """
    values, letters = list(operands), list(terms)
    for position, term in enumerate(letters if len(letters) > 1 else ()):
        others = result + "".join(other for at, other in enumerate(letters) if at != position)
        kept = "".join(dict.fromkeys(letter for letter in term if letter in others))
        if kept != term:
            values[position] = b.einsum(values[position], equation=f"{term}->{kept}")
            letters[position] = kept
    while len(values) > 2:
        needed = result + "".join(letters[2:])
        both = dict.fromkeys(letters[0] + letters[1])
        kept = "".join(letter for letter in both if letter in needed)
        values[:2] = [b.einsum(*values[:2], equation=f"{letters[0]},{letters[1]}->{kept}")]
        letters[:2] = [kept]
    return b.einsum(*values, equation=f"{','.join(letters)}->{result}")


IMPORTERS: dict[str, Importer] = {"Einsum": import_einsum}
