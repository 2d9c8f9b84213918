"""`WeftContext`: xDSL's context plus the weight store that the IR's keys refer to."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any, Final, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    Builtin,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    ModuleOp,
    RankedStructure,
    TensorType,
)
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math
from xdsl.ir import Attribute
from xdsl.irdl import AttrConstraint, base
from xdsl.parser import AttrParser, Parser
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRTokenKind, StringLiteral

from weft.dialects.graph import GRAPH
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.loop import LOOP
from weft.dialects.weights import WeightStore

DIALECTS = (Builtin, Func, Arith, Math, GRAPH, LOOP)
"""Every dialect that weft's IR is made of."""


Refusals = dict[tuple[str, str], list[str]]
"""Why operators did not become one kernel, by the name of a value and that of what is computed of
it.
"""


class WeftContext(Context):
    """What passes see beside the module: the dialects, the bytes of the weights, notes of what
    they had to leave, and refusals, where somebody asks for them.
    """

    def __init__(self, weights: WeightStore | None = None):
        super().__init__(**vars(_loaded().clone()))
        self.weights = WeightStore() if weights is None else weights
        self.notes: list[str] = []
        self.refusals: Refusals | None = None


@cache
def _types_of_literals() -> AttrConstraint[RankedStructure[Any]]:
    return base(RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType])


@cache
def _loaded() -> Context:
    """A context with every dialect; loading them takes longer than parsing most kernels."""
    context = Context()
    for dialect in DIALECTS:
        context.load_dialect(dialect)
    return context


MANY: Final = 4096
"""As many elements of a dense literal that are one are not written out."""

_LISTS: Final = (MLIRTokenKind.L_SQUARE, MLIRTokenKind.GREATER, MLIRTokenKind.STRING_LIT)


class TextParser(Parser):
    """xDSL's parser, which reads every text back that its printer writes: the printer writes what
    is no ASCII as escaped bytes, which xDSL takes for bytes. Bits of floats in dense literals,
    which xDSL takes for numbers, are read as MLIR has them. One element that stands for very many
    stays one: xDSL would write out as many as there are.
    """

    class _TensorLiteralElement(Parser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
        def to_type(
            self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType
        ) -> Any:
            text = self.span.text
            if isinstance(type, AnyFloat) and "0x" in text.lower():
                return _number(text, type)
            if isinstance(type, ComplexType) and isinstance(type.element_type, AnyFloat):
                parts = text.strip("()").split(",")
                return tuple(_number(part.strip(), type.element_type) for part in parts)
            return super().to_type(parser, type)

    def _parse_optional_complex(self) -> tuple[Any, Span] | None:
        """A pair of numbers, of which one may be written as bits."""
        token = self._parse_optional_token(MLIRTokenKind.L_PAREN)
        if token is None:
            return None
        real, _ = self._parse_bool_int_or_float()
        self.parse_punctuation(",")
        imaginary, _ = self._parse_bool_int_or_float()
        end = self._parse_token(MLIRTokenKind.R_PAREN, "`)` expected")
        return (real, imaginary), Span(token.span.start, end.span.end, token.span.input)

    def _parse_dense_literal_type(self) -> RankedStructure[Any]:
        """As xDSL's, whose constraint is made anew for each literal."""
        type = self.expect(self.parse_optional_type, "a type expected")
        if not _types_of_literals().verifies(type):
            self.raise_error("a tensor of integers, floats or complex numbers expected")
        if DYNAMIC_INDEX in type.get_shape():
            self.raise_error("a static shape expected")
        return type

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[Any] | None
    ) -> DenseIntOrFPElementsAttr:
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        if self._current_token.kind in _LISTS:
            self._resume_from(start)
            return super().parse_dense_int_or_fp_elements_attr(type)
        elements, _ = self._parse_tensor_literal()
        self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()
        count = prod(type.get_shape())
        one: TensorType[Any] = TensorType(type.element_type, [1])
        values = [each.to_type(self, type.element_type) for each in elements]
        written = cast("Any", DenseIntOrFPElementsAttr).from_list(one, values).data.data
        return DenseIntOrFPElementsAttr(type, BytesAttr(written * (count if count < MANY else 1)))

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        try:
            return super().parse_module(allow_implicit_module)
        except RecursionError:
            self.raise_error("fewer regions inside each other expected")

    def parse_optional_str_literal(self) -> str | None:
        token = self._parse_optional_token(MLIRTokenKind.BYTES_LIT)
        if token is None:
            return super().parse_optional_str_literal()
        return StringLiteral.from_span(token.span).bytes_contents.decode()


def _number(text: str, element: Attribute) -> float:
    """A number of a dense literal: hexadecimal digits of a float are its bits."""
    if not text.lower().startswith("0x") or not isinstance(element, AnyFloat):
        return float(text)
    dtype = numpy_dtype(element)
    return float(np.array(int(text, 16), f"u{dtype.itemsize}").view(dtype))


def parse_module(text: str, name: str) -> ModuleOp:
    """The module of a text of weft's dialects; errors call it by the name."""
    return TextParser(WeftContext(), text, name).parse_module()


def weights_of(ctx: Context) -> WeightStore:
    """The weight store of a context; an empty one where the context is
    xDSL's own, as under `weft-opt`.
    """
    return ctx.weights if isinstance(ctx, WeftContext) else WeightStore()


def note(ctx: Context, text: str) -> None:
    """Tells whoever runs a pass what it had to leave, in words; xDSL's own context keeps none."""
    if isinstance(ctx, WeftContext):
        ctx.notes.append(text)
