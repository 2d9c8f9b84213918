"""A process that reads numbers of harnesses, runs each on both platforms, and writes the outcome:
`pass`, `wrong`, `refused` (weft says what it lacks), `error`, or `not on cpu`.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import numpy as np

TOLERANCES: Final = {2: 2e-3, 4: 1e-5, 8: 1e-12}
"""Of floats by their bytes, as a part of the greatest element; bfloat16 has a fourth."""
BFLOAT16: Final = 1.6e-2


def harnesses() -> list[Any]:
    """The harnesses of the installed JAX, in its order."""
    from jax._src.internal_test_util import test_harnesses

    return list(test_harnesses.all_harnesses)


def outcome_of(harness: Any) -> dict[str, str]:
    """What comes of a harness."""
    import jax

    with jax.default_device(jax.devices("cpu")[0]):
        try:
            expected = run(harness)
        except Exception as error:
            return {"outcome": "not on cpu", "detail": shown(error)}
    try:
        found = run(harness)
    except Exception as error:
        refused = isinstance(error, NotImplementedError) or "UNIMPLEMENTED" in str(error)
        return {"outcome": "refused" if refused else "error", "detail": shown(error)}
    for one, other in zip(defined(harness, found), defined(harness, expected), strict=True):
        if difference := differs(one, other):
            return {"outcome": "wrong", "detail": difference}
    return {"outcome": "pass"}


def defined(harness: Any, results: list[Any]) -> list[Any]:
    """What an operator's definition says of its results: not the phases of vectors, what completes
    a basis, the other half of a factor, or the order of equal elements.
    """
    if harness.group_name == "eigh":
        vectors, values = results
        return [np.abs(vectors), values]
    if harness.group_name == "svd" and len(results) == 3:
        values, left, right = results
        count = values.shape[-1]
        return [values, np.abs(left[..., :count]), np.abs(right[..., :count, :])]
    if harness.group_name == "approx_top_k":
        return results[:1]
    if harness.group_name == "cholesky":
        return [np.tril(each) for each in results]
    if harness.group_name == "sort" and "isstable_False" in harness.fullname:
        return [np.sort(each, axis=None) for each in results]
    return results


def run(harness: Any) -> list[Any]:
    """The leaves of what a harness returns, as arrays of NumPy."""
    import jax

    result = jax.jit(harness.dyn_fun)(*harness.dyn_args_maker(np.random.RandomState(0)))
    leaves = jax.tree.leaves(result)
    keys = [jax.dtypes.issubdtype(each.dtype, jax.dtypes.prng_key) for each in leaves]
    pairs = zip(leaves, keys, strict=True)
    return [np.asarray(jax.random.key_data(each) if key else each) for each, key in pairs]


def shown(error: Exception) -> str:
    """The start of an error, without where it was raised."""
    return f"{type(error).__name__}: {error}"[:300].replace("\n", " ")


def differs(found: Any, expected: Any) -> str:
    """In words how two arrays differ, if they do."""
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return f"{found.dtype}{found.shape} for {expected.dtype}{expected.shape}"
    if found.dtype.kind not in "fcV" or found.size == 0:
        count = int((found != expected).sum())
        return f"{count} of {found.size} differ" if count else ""
    element = np.dtype(found.real.dtype)
    tolerance = BFLOAT16 if element.name == "bfloat16" else TOLERANCES.get(element.itemsize, 0.1)
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    ours, theirs = found.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        finite = np.isfinite(theirs)
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        scale = np.abs(theirs[finite]).max(initial=0)
        close = np.abs(ours - theirs) <= tolerance * scale
    bad = ~(same | (finite & close))
    if not bad.any():
        return ""
    return f"{int(bad.sum())} of {bad.size}: {found[bad][0]} for {expected[bad][0]}"


def main() -> None:
    """Runs what is asked for, until there is no more."""
    every = harnesses()
    print(len(every), flush=True)
    for line in sys.stdin:
        harness = every[int(line)]
        print(json.dumps({"harness": harness.fullname} | outcome_of(harness)), flush=True)


if __name__ == "__main__":
    main()
