"""`WeftContext`: xDSL's context plus the weight store that the IR's keys refer to."""

from __future__ import annotations

from functools import cache

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math
from xdsl.parser import Parser
from xdsl.utils.mlir_lexer import MLIRTokenKind, StringLiteral

from weft.dialects.graph import GRAPH
from weft.dialects.loop import LOOP
from weft.dialects.weights import WeightStore

DIALECTS = (Builtin, Func, Arith, Math, GRAPH, LOOP)
"""Every dialect that weft's IR is made of."""


class WeftContext(Context):
    """What passes see beside the module: the dialects, the bytes of the weights, and notes of what
    they had to leave.
    """

    def __init__(self, weights: WeightStore | None = None):
        super().__init__(**vars(_loaded().clone()))
        self.weights = WeightStore() if weights is None else weights
        self.notes: list[str] = []


@cache
def _loaded() -> Context:
    """A context with every dialect; loading them takes longer than parsing most kernels."""
    context = Context()
    for dialect in DIALECTS:
        context.load_dialect(dialect)
    return context


class TextParser(Parser):
    """xDSL's parser, which reads every text back that its printer writes: the printer writes what
    is no ASCII as escaped bytes, which xDSL takes for bytes.
    """

    def parse_optional_str_literal(self) -> str | None:
        token = self._parse_optional_token(MLIRTokenKind.BYTES_LIT)
        if token is None:
            return super().parse_optional_str_literal()
        return StringLiteral.from_span(token.span).bytes_contents.decode()


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
