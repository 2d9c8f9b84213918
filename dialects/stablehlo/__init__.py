"""The dialects `stablehlo` and `chlo` as frameworks write them: every operator is read and printed;
what it means is the importer's (`compiler/frontend/stablehlo`).
"""

from weft.dialects.definitions import Dialect
from weft.dialects.stablehlo.attributes import ATTRIBUTES, CHLO_ATTRIBUTES
from weft.dialects.stablehlo.names import CHLO_NAMES, STABLEHLO_NAMES
from weft.dialects.stablehlo.op import define
from weft.dialects.stablehlo.quantized import QUANT

__all__ = ["CHLO", "QUANT", "STABLEHLO"]

STABLEHLO = Dialect(
    "stablehlo", [define(f"stablehlo.{name}") for name in STABLEHLO_NAMES], ATTRIBUTES
)
CHLO = Dialect("chlo", [define(f"chlo.{name}") for name in CHLO_NAMES], CHLO_ATTRIBUTES)
