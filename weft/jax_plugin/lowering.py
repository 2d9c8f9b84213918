"""What JAX lowers for the platform `weft` in a way of its own: decompositions, which it has no
operators for, become programs of those that it has, that of nonsymmetric matrices a callback, and
the rounds of its random bits, some 200 operators, a custom call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

from weft.compiler.frontend.stablehlo.platform import PLATFORM, THREEFRY
from weft.jax_plugin.callbacks import type_of
from weft.jax_plugin.decompositions import batched, eig, eigh, geqrf, householder_product, svd

_HOMES_OF_THREEFRY: Final = ("jax._src.random.threefry2x32", "jax._src.prng")


def register_rules() -> None:
    """Tells JAX of the rules."""
    linalg: Any = import_module("jax._src.lax.linalg")
    ann: Any = import_module("jax._src.lax.ann")
    _register(linalg.geqrf_p, batched(geqrf, 2))
    _register(linalg.householder_product_p, batched(householder_product, 2), several=False)
    _register(linalg.eig_p, _eig, cacheable=False)
    _register(linalg.eigh_p, _eigh)
    _register(linalg.svd_p, _svd)
    mlir: Any = import_module("jax._src.interpreters.mlir")
    mlir.register_lowering(_threefry_primitive(), _threefry, platform=PLATFORM)
    _register(ann.approx_top_k_p, partial(_top_k, ann.approx_top_k_p))


def _threefry_primitive() -> Any:
    """The operator as JAX has it: `jax.extend` names it in all versions, and imports Pallas, which
    takes a tenth of a second, but JAX's own modules are there already.
    """
    homes = (sys.modules.get(name) for name in _HOMES_OF_THREEFRY)
    found = next((each for each in homes if hasattr(each, "threefry2x32_p")), None)
    return (found or import_module("jax.extend.random")).threefry2x32_p


def _register(
    primitive: Any, function: Callable[..., Any], *, several: bool = True, cacheable: bool = True
) -> None:
    mlir: Any = import_module("jax._src.interpreters.mlir")
    rule = mlir.lower_fun(function, multiple_results=several)
    mlir.register_lowering(primitive, rule, platform=PLATFORM, cacheable=cacheable)


def _threefry(ctx: Any, *operands: Any) -> Sequence[Any]:
    """A call of the operator that weft has."""
    mlir: Any = import_module("jax._src.interpreters.mlir")
    types = [type_of(mlir, each) for each in ctx.avals_out]
    return mlir.custom_call(THREEFRY, result_types=types, operands=operands).results


def _eig(
    a: Any, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, **_: Any
) -> Any:
    """Computed by SciPy in a callback."""
    jax: Any = import_module("jax")
    dtype = jax.numpy.promote_types(a.dtype, "complex64")
    sides = {"left": compute_left_eigenvectors, "right": compute_right_eigenvectors}
    shapes = [a.shape[:-1], *[a.shape] * sum(sides.values())]
    types = [jax.ShapeDtypeStruct(each, dtype) for each in shapes]
    return jax.pure_callback(partial(eig, **sides), types, a)


def _eigh(a: Any, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, **_: Any) -> Any:
    options = {"lower": lower, "sort": sort_eigenvalues, "subset": subset_by_index}
    return batched(partial(eigh, **options), 2)(a)


def _svd(a: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, **_: Any) -> Any:
    options = {"full": full_matrices, "vectors": compute_uv, "subset": subset_by_index}
    return batched(partial(svd, **options), 2)(a)


def _top_k(
    primitive: Any, a: Any, *, reduction_dimension: int, is_max_k: bool, **others: Any
) -> Any:
    """The greatest or least elements, all of them: approximate ones may be exact."""
    jax: Any = import_module("jax")
    given = {"reduction_dimension": reduction_dimension, "is_max_k": is_max_k, **others}
    shaped = jax.eval_shape(partial(primitive.bind, **given), a)
    count = shaped[0].shape[reduction_dimension]
    last = jax.numpy.moveaxis(a, reduction_dimension, -1)
    values, places = jax.lax.top_k(last if is_max_k else -last, count)
    found = (values if is_max_k else -values, places)
    return [jax.numpy.moveaxis(each, -1, reduction_dimension) for each in found]
