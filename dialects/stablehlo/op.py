"""`HloOp`: an operator of StableHLO or CHLO, read in the pretty form and in the generic one, and
printed in the generic one.
"""

from __future__ import annotations

from typing import Self

from xdsl.ir import Attribute, Operation
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.traits import IsTerminator

from weft.dialects.stablehlo.pretty import Parts, read_parts


class HloOp(Operation):
    """An operator with whatever attributes it was written with."""

    traits = traits_def()

    @property
    def written(self) -> dict[str, Attribute]:
        """The attributes by name, whichever dictionary they are in."""
        return self.attributes | self.properties

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parts: Parts = read_parts(cls.name, parser)
        return cls.create(
            operands=parts.operands,
            result_types=parts.result_types,
            properties=parts.properties,
            attributes=parts.attributes,
            regions=parts.regions,
        )


def define(name: str) -> type[HloOp]:
    """The class of the operator of that name."""
    title = "".join(part.capitalize() for part in name.split(".")[1].split("_"))
    traits = traits_def(IsTerminator()) if name == "stablehlo.return" else traits_def()
    return type(f"{title}Op", (HloOp,), {"name": name, "traits": traits})
