"""The parser of StableHLO's text: weft's own, which passes over source locations."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import TypeAttribute
from xdsl.utils.mlir_lexer import MLIRTokenKind

from weft.dialects.context import TextParser, WeftContext
from weft.dialects.stablehlo import CHLO, QUANT, STABLEHLO

_LOCATIONS: Final = re.compile(r"^#loc\w* = loc\(.*\)$\n?", re.MULTILINE)
_DEPTHS: Final = {MLIRTokenKind.L_PAREN: 1, MLIRTokenKind.R_PAREN: -1}


_TENSOR: Final = re.compile(r"tensor<(?:\d+x)*[a-z]\w*>")
_TENSORS: Final[dict[str, TypeAttribute]] = {}
_MOST_TENSORS: Final = 4096


@cache
def _dialects() -> WeftContext:
    """A context with all that a text may have."""
    context = WeftContext()
    for dialect in (STABLEHLO, CHLO, QUANT):
        context.load_dialect(dialect)
    return context


class HloParser(TextParser):
    """A parser of a module's text."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(_dialects(), _LOCATIONS.sub("", text), name)

    def parse_optional_type(self) -> TypeAttribute | None:
        """As xDSL's, which takes tensors of numbers apart once: programs name few, many times."""
        found = _TENSOR.match(self._current_token.span.input.content, self.pos)
        if found is None:
            return super().parse_optional_type()
        kept = _TENSORS.get(found[0])
        if kept is not None:
            self._resume_from(found.end())
            return kept
        parsed = super().parse_optional_type()
        if parsed is not None:
            if len(_TENSORS) >= _MOST_TENSORS:
                _TENSORS.clear()
            _TENSORS[found[0]] = parsed
        return parsed

    def parse_optional_location(self) -> LocationAttr | None:
        """Passes over `loc(...)`, whose aliases stand behind the module."""
        if self.parse_optional_keyword("loc") is None:
            return None
        depth = 0
        while True:
            token = self._consume_token()
            depth += _DEPTHS.get(token.kind, 0)
            if depth == 0 or token.kind == MLIRTokenKind.EOF:
                return None
