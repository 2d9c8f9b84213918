"""Numbers of the run-time ABI (docs/abi.md)."""

from enum import IntEnum
from typing import Final

ABI_VERSION: Final = 1
WORKSPACE_ALIGNMENT: Final = 64
MOST_THREADS: Final = 1024
THREADS_VARIABLE: Final = "WEFT_NUM_THREADS"

IMAGE_SIZE: Final = "image_size"
IMAGE_PIXELS: Final = "image_pixels"
"""Functions of the host that decode images; the pixels' name goes on with a dot and a format."""


class Status(IntEnum):
    """The results of `m_run` and its like."""

    OK = 0
    BAD_CALL = 1
    NULL_POINTER = 2
    BAD_DIMS = 3
    BAD_WORKSPACE = 4
    OUT_OF_MEMORY = 5
    BAD_VALUE = 6
    BAD_WEIGHTS = 7
    BAD_TENSOR = 8
    BAD_RESULT = 9
    CANCELLED = 10
    LOST_RANK = 11


class SpanNumber(IntEnum):
    """Numbers of spans that are not of kernels: a whole call, what its program does between
    kernels, waiting for other threads, and what it does together with other ranks: that number for
    the first one, and those below it for the next.
    """

    CALL = -1
    OTHER = -2
    WAIT = -3
    RANKS = -16
