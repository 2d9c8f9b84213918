"""The text of a program of JAX -> graph, and what the plugin's native code has to know of it."""

from __future__ import annotations

import weft.dialects.definitions  # noqa: F401  # pyright: ignore[reportUnusedImport]

# Ahead of xDSL's dialects, which declare what it defines later.
# isort: split
import math
from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import ComplexType, IntegerAttr
from xdsl.dialects.func import FuncOp

from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.frontend.stablehlo.from_stablehlo import (
    import_stablehlo,
    main_function,
    read_stablehlo,
    returned_by,
)
from weft.compiler.frontend.stablehlo.types import Declared, held_as, is_complex, is_token
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.types import (
    BF16,
    BOOL,
    F4E2M1FN,
    F8E3M4,
    F8E4M3,
    F8E4M3B11FNUZ,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F16,
    F32,
    F64,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    UI2,
    UI4,
    UI8,
    UI16,
    UI32,
    UI64,
)  # fmt: skip
from weft.dialects.loop.scalar import width
from weft.dialects.weights import Array
from weft.jax_plugin.description import Description

_NUMBERS: dict[Any, int] = {
    BOOL: 1, I8: 2, I16: 3, I32: 4, I64: 5, UI8: 6, UI16: 7, UI32: 8, UI64: 9,
    F16: 10, F32: 11, F64: 12, BF16: 13, ComplexType(F32): 14, ComplexType(F64): 15,
    F8E5M2: 16, F8E4M3FN: 17, F8E4M3B11FNUZ: 18, F8E5M2FNUZ: 19, F8E4M3FNUZ: 20, I4: 21, UI4: 22,
    I2: 24, UI2: 25, F8E4M3: 26, F8E3M4: 27, F8E8M0FNU: 28, F4E2M1FN: 29,
}  # fmt: skip
"""How the API numbers element types."""


def import_program(
    text: str, arrays: Sequence[Array]
) -> tuple[ImportedModel, dict[str, str], Description]:
    """The graph, the outputs that take the memory of inputs, by names, and the description."""
    module = read_stablehlo(text, "program")
    name = "program" if module.sym_name is None else module.sym_name.data
    main = main_function(module, name)
    described = _described(name, main)
    donated = dict(_donations(main))
    imported = import_stablehlo(module, name, elided=arrays, interleaved=True)
    inputs, outputs = imported.input_names, imported.output_names
    pairs = {inputs[source]: outputs[target] for source, target in donated.items()}
    return imported, pairs, described


def _described(name: str, main: FuncOp) -> Description:
    results = [each.type for each in returned_by(main)]
    types = [held_as(each) for each in results]
    sizes = [
        _bytes(each, is_complex(written)) for each, written in zip(types, results, strict=True)
    ]
    dims = [list(each.static) for each in types]
    count = len(main.body.block.args)
    return Description(name, count, [_number(each) for each in results], dims, sizes)


def _donations(main: FuncOp) -> Iterator[tuple[int, int]]:
    """The inputs that JAX gives away, and the outputs that take their memory: those that it names,
    or the first of the same type.
    """
    inputs = [each.type for each in main.body.block.args]
    outputs = [each.type for each in returned_by(main)]
    attributes = [] if main.arg_attrs is None else [each.data for each in main.arg_attrs]
    said = [each.get("tf.aliasing_output") for each in attributes]
    taken = {each.value.data for each in said if isinstance(each, IntegerAttr)}
    for source, (each, target) in enumerate(zip(attributes, said, strict=True)):
        if isinstance(target, IntegerAttr):
            yield source, target.value.data
        elif "jax.buffer_donor" in each:
            free = (at for at, other in enumerate(outputs) if other == inputs[source])
            first = next((at for at in free if at not in taken), None)
            if first is not None:
                taken.add(first)
                yield source, first


def _number(written: Any) -> int:
    element = held_as(written).element if is_token(written) else written.element_type
    if element not in _NUMBERS:
        raise UnsupportedError(f"requires results of types that JAX's plugins have, got {element}")
    return _NUMBERS[element]


def _bytes(given: Declared, pairs: bool) -> int:
    size = max(8, width(given.element)) // 8
    return math.prod(given.static) * size * (2 if pairs else 1)
