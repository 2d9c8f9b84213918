"""A function of JAX -> graph. JAX is imported when a function is lowered, never before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct

from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.frontend.stablehlo.from_stablehlo import import_stablehlo, read_stablehlo
from weft.compiler.frontend.stablehlo.jaxlib_text import read_bytecode, text_of
from weft.compiler.frontend.stablehlo.platform import PLATFORM
from weft.dialects.errors import UnsupportedError


class Lowered(Struct, frozen=True):
    """The graph of a function, and how its arguments and results are arranged in pytrees."""

    imported: ImportedModel
    arguments: Any
    results: Any
    dtypes: Sequence[Any]
    result_dtypes: Sequence[Any]


def lower_function(function: Callable[..., Any], examples: Sequence[Any], name: str) -> Lowered:
    """The graph of a function for arguments like these: arrays, numbers and `jax.ShapeDtypeStruct`,
    in pytrees, complex arrays as pairs along a last dim. Sizes may be symbolic, as
    `jax.export.symbolic_args_specs` makes them.

    Raises UnsupportedError where JAX is not installed.
    """
    try:
        jax: Any = import_module("jax")
        export: Any = import_module("jax.export")
    except ImportError as problem:
        raise UnsupportedError(
            "from_jax requires JAX (pip install 'weft[jax]'), got none"
        ) from problem
    leaves, structure = jax.tree.flatten(tuple(examples))
    staged: Any = function if hasattr(function, "lower") else jax.jit(function)
    if any(not isinstance(dim, int) for leaf in leaves for dim in getattr(leaf, "shape", ())):
        exported: Any = export.export(staged, platforms=("cpu",))(*examples)
        text, arrays = read_bytecode(exported.mlir_module_serialized, name)
        results: Any = exported.out_tree
        avals = exported.in_avals, exported.out_avals
    else:
        staged = jax.jit(function, keep_unused=True)
        traced: Any = staged.trace(*examples)
        lowered: Any = traced.lower(lowering_platforms=(PLATFORM,))
        text, arrays = text_of(lowered.compiler_ir("stablehlo"))
        results = jax.tree.structure(lowered.out_info)
        avals = jax.tree.leaves(lowered.in_avals), jax.tree.leaves(lowered.out_info)
    module = read_stablehlo(text, name)
    imported = import_stablehlo(module, name, elided=arrays, interleaved=True)
    given, returned = ([each.dtype for each in every] for every in avals)
    return Lowered(imported, structure, results, given, returned)
