"""The parser of StableHLO's text: weft's own, which passes over source locations."""

from __future__ import annotations

import re
from typing import Final

from xdsl.dialects.builtin import LocationAttr
from xdsl.utils.mlir_lexer import MLIRTokenKind

from weft.dialects.context import TextParser, WeftContext
from weft.dialects.stablehlo import CHLO, QUANT, STABLEHLO

_LOCATIONS: Final = re.compile(r"^#loc\w* = loc\(.*\)$\n?", re.MULTILINE)
_DEPTHS: Final = {MLIRTokenKind.L_PAREN: 1, MLIRTokenKind.R_PAREN: -1}


class HloParser(TextParser):
    """A parser of a module's text."""

    def __init__(self, text: str, name: str) -> None:
        context = WeftContext()
        for dialect in (STABLEHLO, CHLO, QUANT):
            context.load_dialect(dialect)
        super().__init__(context, _LOCATIONS.sub("", text), name)

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
