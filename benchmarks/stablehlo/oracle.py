"""What jaxlib's reference interpreter, or XLA's CPU where that one ends, gives for programs with
sizes that vary and nothing to check themselves by: sizes are 5, other inputs are drawn.
"""

from __future__ import annotations

import multiprocessing
import re
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from weft.compiler.frontend.stablehlo.text import HloParser
from weft.compiler.frontend.stablehlo.types import constant_array, declared

Array = NDArray[Any]
Evaluate = Callable[[str], list[Array]]
"""A function from a program to the results of its `main`."""

SIZE: Final = 5
LONGEST: Final = 30.0
"""The seconds that the interpreter may take."""
_MAIN: Final = re.compile(
    r"(func\.func public @main\()((?:%arg\d+: tensor<i64>(?:, |(?=\))))+)(.*\{)\n"
)
_ARGUMENT: Final = re.compile(r"%arg\d+: tensor<((?:[^<>]|<[^>]*>)*)>")
_TYPE: Final = re.compile(r"((?:[\d?]+x)*)(.*)")
_DTYPES: Final = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64,
    "complex<f32>": np.complex64, "complex<f64>": np.complex128,
}  # fmt: skip


def inputs_of(text: str) -> list[Array] | None:
    """Arrays for the arguments of `main`, the sizes first, complex ones in two parts; None for a
    program of another form.
    """
    found = _MAIN.search(text)
    if found is None:
        return None
    sizes = [np.asarray(SIZE) for _ in _ARGUMENT.findall(found[2])]
    return [*sizes, *in_parts(drawn(text))]


def in_parts(arrays: Sequence[Array]) -> list[Array]:
    """Arrays of which complex ones are their real parts, then the imaginary ones."""
    pairs = [[x.real, x.imag] if x.dtype.kind == "c" else [x] for x in arrays]
    return [part for parts in pairs for part in parts]


def drawn(text: str) -> list[Array]:
    """Arrays for the arguments behind the sizes; a text gives the same ones each time."""
    found = _MAIN.search(text)
    assert found is not None, "a program of sizes has a main function"
    generator = np.random.default_rng(zlib.crc32(text.encode()))
    arguments = found[3].split("->")[0]
    return [_array(generator, written) for written in _ARGUMENT.findall(arguments)]


def _array(generator: np.random.Generator, written: str) -> Array:
    found = _TYPE.fullmatch(written)
    assert found is not None, "any text is dims and what follows"
    shape = [SIZE if dim == "?" else int(dim) for dim in found[1].split("x")[:-1]]
    dtype = np.dtype(_DTYPES[found[2]])
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return generator.integers(0, 3, shape).astype(dtype)
    if dtype.kind == "c":
        parts = generator.standard_normal((2, *shape))
        return (parts[0] + 1j * parts[1]).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def expected(text: str) -> list[Array]:
    """The results of `main` for those arrays, in parts. Raises RuntimeError where none are."""
    found = _in_process(_interpreted, text)
    if isinstance(found, str):
        found = _in_process(_by_xla, text)
    if isinstance(found, str):
        raise RuntimeError(f"XLA requires a program that it knows, got: {found}")
    return found


def _in_process(evaluate: Evaluate, text: str) -> list[Array] | str:
    """The results, or what is wrong, by a process, which ends at what an evaluator lacks."""
    import_module("jax._src.interpreters.mlir")  # once, and not in each process
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_send, args=(sender, evaluate, text))
    process.start()
    sender.close()
    try:
        found = receiver.recv() if receiver.poll(LONGEST) else "it took too long"
    except EOFError:
        found = "it ended"
    process.kill()
    process.join()
    return found


def _send(sender: Connection, evaluate: Evaluate, text: str) -> None:
    """Sends the results, or what is wrong."""
    try:
        sender.send(in_parts(evaluate(text)))
    except Exception as error:
        sender.send(str(error))


@contextmanager
def _refined(text: str) -> Generator[tuple[Any, list[str]]]:
    """The module for these sizes, and the types of its arguments, in a context of jaxlib's."""
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir.dialects import stablehlo

    dialect: Any = stablehlo
    found = _MAIN.search(text)
    assert found is not None, "a program of sizes has a main function"
    names = re.findall(r"%arg\d+", found[2])
    lines = "".join(f"{n} = stablehlo.constant dense<{SIZE}> : tensor<i64>\n" for n in names)
    fixed = _MAIN.sub(lambda match: f"{match[1]}{match[3]}\n{lines}", text)
    written = _ARGUMENT.findall(found[3].split("->")[0])
    types = [f"tensor<{each.replace('?', str(SIZE))}>" for each in written]
    refine = f"stablehlo-refine-arguments{{types={','.join(types)}}}," if types else ""
    legalise = "chlo-legalize-to-stablehlo," if "chlo." in text else ""
    steps = f"{refine}stablehlo-refine-shapes,{legalise}inline,symbol-dce,stablehlo-refine-shapes"
    with jax_mlir.make_ir_context(), ir.Location.unknown():
        dialect.register_stablehlo_passes()
        module = ir.Module.parse(fixed)
        pipeline = f"builtin.module({steps},canonicalize)"
        passmanager.PassManager.parse(pipeline).run(module.operation)
        yield module, types


def _interpreted(text: str) -> list[Array]:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    dialect: Any = stablehlo
    with _refined(text) as (module, types):
        values = [
            ir.Attribute.parse(f'dense<"0x{array.tobytes().hex()}"> : {kind}')
            for array, kind in zip(drawn(text), types, strict=True)
        ]
        return [_array_of(str(each)) for each in dialect.eval_module(module, values)]


def _by_xla(text: str) -> list[Array]:
    jax, compiler = import_module("jax"), import_module("jax._src.compiler")
    jax.config.update("jax_enable_x64", True)
    client: Any = import_module("jax._src.lib").xla_client
    device = jax.devices("cpu")[0]
    with _refined(text) as (module, _):
        options, devices = compiler.get_compile_options(1, 1), client.DeviceList((device,))
        program = compiler.backend_compile_and_load(device.client, module, devices, options, [])
        results = program.execute_sharded([jax.device_put(x, device) for x in drawn(text)])
        return [np.asarray(x[0]) for x in results.disassemble_into_single_device_arrays()]


def _array_of(text: str) -> Array:
    """The elements of an attribute as MLIR prints it."""
    attribute = HloParser(text, "result").parse_attribute()
    assert isinstance(attribute, DenseIntOrFPElementsAttr), "results are dense"
    return constant_array(attribute, declared(attribute.type)).copy()
