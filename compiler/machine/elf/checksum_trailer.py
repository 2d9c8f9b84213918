"""The last bytes of a shared object: a digest of the file, but for the weights, whose digest is in
a section of its own.

Loaders and linkers do not look there, and `strip` cuts it off.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

TRAILER_SIZE: Final = 40
WEIGHTS_SECTION: Final = ".weights"
DIGEST_SECTION: Final = ".weft.digest"
"""The section that holds the SHA-256 of the section of weights."""

_MAGIC: Final = b"weftseal"


def checksum_trailer(parts: Iterable[bytes | bytearray]) -> bytes:
    """What follows the end of a file of these parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return _MAGIC + digest.digest()


def is_trailer(content: bytes) -> bool:
    """Whether these bytes are a trailer, of whatever file."""
    return len(content) == TRAILER_SIZE and content.startswith(_MAGIC)
