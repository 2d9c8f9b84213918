"""What may link a shared object: weft itself, or a linker of this computer."""

from typing import Final

WEFT: Final = "weft"
TOOLS: Final = ("ld", "cc", "ld.lld")
LINKERS: Final = (WEFT, *TOOLS)
