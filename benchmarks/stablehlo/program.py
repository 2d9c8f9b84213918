"""A self-checking program of StableHLO's suites: its `main` computes values and hands them, and
what they should be, to custom calls `check.expect_*`.

The inputs, which functions of constants give or constants of `main`, become arguments, so that code
is compiled for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
    f64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

import weft
from benchmarks.stablehlo.oracle import expected, inputs_of
from benchmarks.stablehlo.pieces import program_text
from weft.compiler.frontend.stablehlo.from_stablehlo import import_stablehlo, read_stablehlo
from weft.compiler.frontend.stablehlo.types import constant_array, declared, is_complex, parts_of
from weft.dialects.graph.core.types import BF16, F16, F32

Array = NDArray[Any]
CLOSE: Final = "check.expect_close"
ULPS: Final = 3
ALMOST: Final = 1e-4
"""What `expect_almost_eq` allows, absolutely, as the reference interpreter has it."""


@dataclass(frozen=True)
class Check:
    """What is compared: outputs of the program by their positions."""

    name: str
    actual: int
    expected: int


@dataclass(frozen=True)
class Outcome:
    """How a file ended: `pass`, `nearer` (than what is expected, to the value in f64), `wrong`,
    `refused`, `error` or `skipped`.
    """

    outcome: str
    detail: str = ""


def run_file(path: Path) -> Outcome:
    """Compiles and runs a file."""
    try:
        text = program_text(path)
        if "interpreter." in text:
            return Outcome("skipped", "several processes, or the interpreter's own operators")
        module = read_stablehlo(text, path.name)
        if "check." not in text and (inputs := inputs_of(text)) is not None:
            return _against_oracle(module, text, path.name, inputs)
        module_f64 = module.clone()
        actual, checks = _run(module, path.name)
    except weft.UnsupportedError as error:
        return Outcome("refused", str(error)[:300])
    except Exception as error:
        return Outcome("error", f"{type(error).__name__}: {str(error)[:300]}")
    found = [_compare(check, actual) for check in checks]
    wrong = [each for each in found if each]
    if not checks:
        return Outcome("error", "no check")
    if not wrong:
        return Outcome("pass")

    def judge() -> list[Array]:
        widen(module_f64)
        return _run(module_f64, path.name)[0]

    return _nearer(judge, actual, checks) or Outcome("wrong", wrong[0])


def _against_oracle(module: ModuleOp, text: str, name: str, inputs: Sequence[Array]) -> Outcome:
    """A program that checks nothing, beside the reference interpreter."""
    wide = module.clone()
    found = list(weft.compile(import_stablehlo(module, name))(*inputs))
    try:
        wanted = expected(text)
    except Exception as error:
        return Outcome("no oracle", str(error)[:200])
    outputs = [array for pair in zip(found, wanted, strict=True) for array in pair]
    checks = [Check(CLOSE, at, at + 1) for at in range(0, len(outputs), 2)]
    wrong = [each for check in checks if (each := _compare(check, outputs))]
    if not wrong:
        return Outcome("pass")

    def judge() -> list[Array]:
        widen(wide)
        widened = [x.astype(np.float64) if _is_float(x) else x for x in inputs]
        exact = weft.compile(import_stablehlo(wide, name))(*widened)
        return [array for array in exact for _ in (0, 1)]

    return _nearer(judge, outputs, checks) or Outcome("wrong", wrong[0])


def _run(module: ModuleOp, name: str) -> tuple[list[Array], list[Check]]:
    """The outputs of the program, and what is compared of them."""
    values, checks = open_up(module)
    imported = import_stablehlo(module, name)
    executable = weft.compile(imported)
    return list(executable(*values)), checks


def open_up(module: ModuleOp) -> tuple[list[Array], list[Check]]:
    """Makes inputs arguments and what is checked outputs; returns the inputs' values."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    main = functions.get("main") or next(iter(functions.values()))
    block = main.body.block
    values: list[Array] = []
    outputs: list[SSAValue] = []
    checks: list[Check] = []
    position = 0
    for op in list(block.ops):
        if isinstance(op, CallOp) and not op.operands:
            constants = _constants(functions[op.callee.root_reference.data])
            for result, value in zip(op.results, constants or [], strict=False):
                argument = block.insert_arg(result.type, len(block.args))
                result.replace_all_uses_with(argument)
                values += _parts(value, result.type)
            if constants is not None:
                Rewriter.erase_op(op)
        elif op.name == "stablehlo.constant" and _is_input(op):
            written = op.results[0].type
            value = constant_array(op.properties["value"], declared(written))
            argument = block.insert_arg(written, len(block.args))
            values += _parts(value, written)
            op.results[0].replace_all_uses_with(argument)
            Rewriter.erase_op(op)
        elif op.name == "stablehlo.custom_call" and _target(op).startswith("check."):
            count = parts_of(op.operands[0].type)
            checks += [
                Check(_target(op), at, at + count) for at in range(position, position + count)
            ]
            position += 2 * count
            outputs += op.operands[:2]
            if op.results:
                op.results[0].replace_all_uses_with(op.operands[0])
            Rewriter.erase_op(op)
    last = block.last_op
    assert last is not None, "a function ends in a return"
    Rewriter.replace_op(last, ReturnOp(*outputs))
    main.update_function_type()
    return values, checks


def _is_input(constant: Operation) -> bool:
    """Whether a constant's elements may be any: not what is expected, nor sizes."""
    users = [use.operation for use in constant.results[0].uses]
    return not any("dynamic_" in user.name or _target(user).startswith("check.") for user in users)


def _parts(value: Array, written: Attribute) -> list[Array]:
    """The real and the imaginary parts of complex numbers; other arrays, whole: constants of one
    element many times have it once.
    """
    if not is_complex(written):
        return [np.broadcast_to(value, declared(written).static).copy()]
    return [value[..., part].copy() for part in (0, 1)]


def _target(op: Operation) -> str:
    return str(op.properties.get("call_target_name")).strip('"')


def _constants(function: FuncOp) -> list[Array] | None:
    """The values of a function that is made of constants alone."""
    *ops, last = function.body.block.ops
    if any(op.name != "stablehlo.constant" for op in ops):
        return None
    found = {op.results[0]: op.properties["value"] for op in ops}
    return [constant_array(found[each], declared(each.type)) for each in last.operands]


def _compare(check: Check, outputs: Sequence[Array]) -> str:
    """What is wrong, in words, if anything."""
    actual, expected = outputs[check.actual], outputs[check.expected]
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{actual.dtype}{actual.shape} for {expected.dtype}{expected.shape}"
    bad = ~_agree(check.name, actual, expected)
    if not bad.any():
        return ""
    first = tuple(int(each[0]) for each in np.nonzero(np.atleast_1d(bad)))
    got, wanted = np.atleast_1d(actual)[first], np.atleast_1d(expected)[first]
    ulps = ulps_between(actual, expected).max() if _is_float(actual) else ""
    return f"{int(bad.sum())} of {bad.size}: {got} for {wanted}, most ulps {ulps}"


def _is_float(array: Array) -> bool:
    return array.dtype != np.bool_ and "int" not in array.dtype.name


def _agree(name: str, actual: Array, expected: Array) -> NDArray[np.bool_]:
    if not _is_float(actual):
        return np.asarray(actual == expected)
    both_nan = np.isnan(actual) & np.isnan(expected)
    if name == CLOSE:
        return both_nan | (ulps_between(actual, expected) <= ULPS)
    if name == "check.expect_almost_eq":
        with np.errstate(all="ignore"):
            wide, wanted = (x.astype(np.float64) for x in (actual, expected))
            return both_nan | (wide == wanted) | (np.abs(wide - wanted) <= ALMOST)
    return both_nan | np.asarray(actual == expected)


def ulps_between(actual: Array, expected: Array) -> Array:
    """How many numbers of the type lie between two, a large number where one is NaN."""
    ordinals = [_ordinal(each) for each in (actual, expected)]
    distance = np.abs(ordinals[0] - ordinals[1]).astype(np.float64)
    return np.where(np.isnan(actual) | np.isnan(expected), np.inf, distance)


def _ordinal(array: Array) -> Array:
    """Floats by their order, as Python's integers: the distance of two of 64 bits may need 65."""
    width = array.dtype.itemsize * 8
    bits = np.ascontiguousarray(array).view(f"i{width // 8}").reshape(array.shape).astype(object)
    return np.where(bits < 0, -(bits + (1 << (width - 1))), bits)


def _nearer(
    judge: Callable[[], list[Array]], actual: Sequence[Array], checks: Sequence[Check]
) -> Outcome | None:
    """Whether what differs is as near to the value in f64 as what is expected, or nearer."""
    if any(check.name == "check.expect_eq" for check in checks):
        return None
    try:
        exact = judge()
    except Exception:
        return None  # a program of bits has no meaning in another type
    for check in checks:
        ours, theirs = actual[check.actual], actual[check.expected]
        if ours.dtype == np.float64:
            return None  # the judge would be ourselves
        if not _near(check.name, ours, theirs, exact[check.actual]):
            return None
    return Outcome("nearer")


def _near(name: str, ours: Array, theirs: Array, exact_value: Array) -> bool:
    """Whether the elements that differ are as near to the exact value, by the root of the mean
    square of their errors. An exact value that is far from what is expected is no judge.
    """
    differ = ~_agree(name, ours, theirs)
    if not differ.any():
        return True
    with np.errstate(all="ignore"):
        our_errors, errors = (
            np.abs(each[differ].astype(np.float64) - exact_value[differ]) for each in (ours, theirs)
        )
        scale = np.abs(exact_value).max()
    close = errors.max() <= 1e-3 * scale
    return bool(close and np.mean(our_errors**2) <= np.mean(errors**2))


def widen(module: ModuleOp) -> None:
    """Makes floats f64 everywhere."""
    for op in module.walk():
        blocks = [block for region in op.regions for block in region.blocks]
        for value in [*op.results, *(argument for block in blocks for argument in block.args)]:
            wide = _widened(value.type)
            if wide != value.type:
                Rewriter.replace_value_with_new_type(value, wide)
        constant = op.properties.get("value")
        if isinstance(constant, DenseIntOrFPElementsAttr):
            op.properties["value"] = _widened_constant(constant)
    for op in module.walk():
        if isinstance(op, FuncOp):
            op.update_function_type()


def _widened(written: Any) -> Any:
    if isinstance(written, TensorType) and written.element_type in (F32, F16, BF16):
        return TensorType(f64, written.get_shape())
    if isinstance(written, TensorType) and written.element_type == ComplexType(F32):
        return TensorType(ComplexType(f64), written.get_shape())
    return written


def _widened_constant(constant: DenseIntOrFPElementsAttr) -> DenseIntOrFPElementsAttr:
    wide = _widened(constant.type)
    if wide == constant.type:
        return constant
    values = constant_array(constant, declared(constant.type)).astype(np.float64)
    return DenseIntOrFPElementsAttr(wide, BytesAttr(values.tobytes()))
