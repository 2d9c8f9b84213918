"""The version of weft, which artifacts and the cache name too; it imports nothing."""

from typing import Final

VERSION: Final = "0.1.0"
