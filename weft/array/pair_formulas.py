"""Formulas of complex numbers on the parts that arrays have: those of front ends
(`compiler/frontend/stablehlo/ops/complex_functions.py`, `compiler/frontend/fourier.py`), on tensors
of a graph in the making. On tensors with values each is one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr

_EXACT: Final = ("product",)
"""Formulas that are computed in the precision of their operands."""


def _terms(parts: Sequence[Any]) -> list[Any]:
    from weft.dialects.graph.core.algebra import Term

    b = parts[0].recording.builder()
    return [Term(b, each.value) for each in parts]


def _tensors(like: Any, terms: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(like.recording.array(each.value) for each in terms)


def formula(*parts: Any, name: str) -> tuple[Any, ...]:
    """The real and the imaginary part of a function of pairs; in f64, rounded once."""
    import weft.compiler.frontend.stablehlo.ops.complex_functions as complex_functions
    from weft.dialects.graph.core.types import F64

    terms = _terms(parts)
    element = terms[0].type.element
    work = element if name in _EXACT else F64
    wide = [each.cast(work) for each in terms]
    pairs = [complex_functions.Pair(*wide[at : at + 2]) for at in range(0, len(wide), 2)]
    found = getattr(complex_functions, name)(*pairs)
    return _tensors(parts[0], [found.real.cast(element), found.imag.cast(element)])


def magnitudes(real: Any, imag: Any) -> Any:
    """The distances from 0."""
    from weft.compiler.frontend.stablehlo.ops.complex_functions import Pair, magnitude

    return _tensors(real, [magnitude(Pair(*_terms((real, imag))))])[0]


def lexicographic(a: Any, b: Any, c: Any, d: Any, name: str) -> Any:
    """How `a + bi` stands to `c + di`: by the real parts, then by the imaginary ones."""
    if name.startswith("greater"):
        a, b, c, d, name = c, d, a, b, name.replace("greater", "less")
    return (a < c) | ((a == c) & (b.op(name, b, d)))


def order_of(real: Any, imag: Any, axis: int, **attributes: Any) -> Any:
    """The order by the imaginary parts, then, so that equal ones keep it, by the real ones."""
    behind = imag.op("argsort", imag, axis=axis, **attributes)
    ordered = real.op("gather_elements", real, behind, axis=axis)
    order = real.op("argsort", ordered, axis=axis, **attributes)
    return behind.op("gather_elements", behind, order, axis=axis)


def transformed(
    *parts: Any, axis: int, size: Any, inverse: bool, half: bool, exact: bool
) -> tuple[Any, ...]:
    """A Fourier transform of `size` elements along an axis, not scaled: of reals where one part is
    given, the frequencies up to the middle one with `half`. An inverse one with `half` gives
    reals, divided by `size`. With `exact` the size of the axis has to be a number.
    """
    from weft.compiler.frontend.fourier import Transform, resized
    from weft.dialects.graph.core.algebra import Term

    terms, wanted = _terms(parts), Expr.of(size)
    rank = len(terms[0].shape)
    if exact and terms[0].shape[axis].constant is None:
        raise UnsupportedError("a Fourier transform requires a size that is known")
    recording, b = parts[0].recording, terms[0].b
    transform = Transform(
        lambda table: Term(b, recording.constant(table).value), terms[0].type.element,
        1 if inverse else -1,
    )  # fmt: skip
    if inverse and half:
        order = [*(at for at in range(rank) if at != axis), axis]
        found = transform.real_inverse([each.transpose(order) for each in terms], wanted)
        return _tensors(parts[0], [found.transpose([order.index(at) for at in range(rank)])])
    kept = wanted // 2 + 1 if half else wanted
    found = transform([resized(each, axis, wanted) for each in terms], kept, axis)
    return _tensors(parts[0], list(found))
