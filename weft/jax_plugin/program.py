"""Programs of JAX, compiled: portable artifacts of StableHLO become what the plugin's native code
calls.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import ComplexType, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from weft.compilation import compile_cached, options_of
from weft.compiler.frontend.stablehlo.from_stablehlo import (
    import_stablehlo,
    main_function,
    read_stablehlo,
    returned_by,
)
from weft.compiler.frontend.stablehlo.jaxlib_text import read_bytecode
from weft.compiler.frontend.stablehlo.types import Declared, held_as, is_complex, is_token
from weft.compiler.machine.artifact.cache import default_cache
from weft.compiler.machine.pjrt.declarations import OBJECTS
from weft.compiler.machine.python.executable import Executable
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
from weft.jax_plugin.options import device_counts

_NUMBERS: dict[Any, int] = {
    BOOL: 1, I8: 2, I16: 3, I32: 4, I64: 5, UI8: 6, UI16: 7, UI32: 8, UI64: 9,
    F16: 10, F32: 11, F64: 12, BF16: 13, ComplexType(F32): 14, ComplexType(F64): 15,
    F8E5M2: 16, F8E4M3FN: 17, F8E4M3B11FNUZ: 18, F8E5M2FNUZ: 19, F8E4M3FNUZ: 20, I4: 21, UI4: 22,
    I2: 24, UI2: 25, F8E4M3: 26, F8E3M4: 27, F8E8M0FNU: 28, F4E2M1FN: 29,
}  # fmt: skip
"""How the API numbers element types."""


class Program:
    """A compiled program, and its structure in native code."""

    def __init__(self, name: str, main: FuncOp, executable: Executable) -> None:
        self._executable = executable
        self._held: list[Any] = []
        self.structure: Any = OBJECTS["Executable"].structure()
        self.address = ctypes.addressof(self.structure)
        owner, results = self.structure, [each.type for each in returned_by(main)]
        types = [held_as(each) for each in results]
        numbers = [_number(each) for each in results]
        owner.references, owner.one, owner.itself = 1, 1, self.address
        self._set_text("name", name)
        self._set_text("fingerprint", f"{name} {id(self)}")
        owner.num_inputs, owner.num_outputs = len(main.body.block.args), len(results)
        self._set_memories("input", owner.num_inputs)
        self._set_memories("output", owner.num_outputs)
        self._set("output_types", ctypes.c_int32, numbers)
        self._set("output_dims", ctypes.c_int64, [dim for each in types for dim in each.static])
        self._set("output_ranks", ctypes.c_int64, [len(each.shape) for each in types])
        sizes = [
            _bytes(each, is_complex(written)) for each, written in zip(types, results, strict=True)
        ]
        self._set("output_sizes", ctypes.c_int64, sizes)
        donors = {target: source for source, target in executable.donated}
        self._set("donors", ctypes.c_int64, [donors.get(at, -1) for at in range(len(results))])
        self._set("logical_ids", ctypes.c_int32, [0, 0])
        native = executable.native_call()
        owner.context, owner.run, owner.workspace_size = native

    def fail(self, status: int) -> None:
        """Raises what a call failed with."""
        self._executable.fail(status)

    def close(self) -> None:
        """Gives back what the structure refers to."""
        libc: Any = ctypes.CDLL(None)
        libc.free(ctypes.c_void_p(self.structure.workspace))
        self.structure.workspace = None

    def _set(self, member: str, c_type: Any, values: Sequence[int]) -> None:
        array = (c_type * max(1, len(values)))(*values)
        self._held.append(array)
        setattr(self.structure, member, ctypes.addressof(array))

    def _set_text(self, member: str, text: str) -> None:
        data = text.encode()
        buffer = ctypes.create_string_buffer(data)
        self._held.append(buffer)
        setattr(self.structure, member, ctypes.addressof(buffer))
        setattr(self.structure, f"{member}_size", len(data))

    def _set_memories(self, what: str, count: int) -> None:
        name = ctypes.create_string_buffer(b"device")
        self._held.append(name)
        self._set(f"{what}_kinds", ctypes.c_void_p, [ctypes.addressof(name)] * count)
        self._set(f"{what}_kind_sizes", ctypes.c_size_t, [len("device")] * count)


def compile_program(code: bytes, options: bytes) -> Program:
    """Compiles a portable artifact with JAX's serialised options."""
    counts = device_counts(options)
    if counts != (1, 1):
        rule = "a program requires one device"
        raise UnsupportedError(f"{rule}, got {counts[0]} replicas of {counts[1]} partitions")
    text, arrays = read_bytecode(code, "program")
    module = read_stablehlo(text, "program")
    name = _name_of(module)
    main = main_function(module, name)
    donated = dict(_donations(main))
    imported = import_stablehlo(module, name, elided=arrays, interleaved=True)
    inputs, outputs = imported.input_names, imported.output_names
    pairs = {inputs[source]: outputs[target] for source, target in donated.items()}
    compiled = compile_cached(
        imported, options_of(imported, donate=pairs), default_cache(os.environ)
    )
    return Program(name, main, compiled.executable())


def _name_of(module: ModuleOp) -> str:
    return "program" if module.sym_name is None else module.sym_name.data


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
