"""Names that JAX's platform and the front end share; importing them imports nothing else."""

PLATFORM = "weft"
"""The platform that functions are lowered for: one of no vendor's libraries."""

THREEFRY = "weft.threefry"
"""The target of custom calls that are Threefry-2x32: two words of a key, two of counts."""

HOST_CALL = "weft.host_call"
"""The target of custom calls that are functions of Python."""
