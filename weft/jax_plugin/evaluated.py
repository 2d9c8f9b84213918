"""The first calls of small programs, without code: graph -> what the plugin's native code calls.

An operator of `jax.numpy` is a program of its own, and most of these are called a few times with
few elements. Where the definitions of a graph's operators (`reference`) give the very bits that
code gives, calls are evaluated, and the program is compiled once it has been called often.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Final

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.graph.bound_sizes import graph_function
from weft.dialects.graph import ConstantOp, ExpandOp, ReshapeOp, TransposeOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.core.types import BOOL, F32, F64, INTEGERS, type_of
from weft.dialects.graph.ops.arithmetic import AbsOp, AddOp, DivOp, MulOp, NegOp, SubOp
from weft.dialects.graph.ops.cast import BitcastOp, CastOp
from weft.dialects.graph.ops.comparison import (
    BitShiftOp,
    BitwiseNotOp,
    BitwiseOp,
    ComparisonOp,
    FloatTestOp,
    LogicalNotOp,
    LogicalOp,
    WhereOp,
)
from weft.dialects.graph.ops.exponential import SqrtOp
from weft.dialects.graph.ops.extremum import ExtremumOp
from weft.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMinOp, ReduceSumOp
from weft.dialects.graph.ops.search import ArgExtremumOp
from weft.dialects.graph.ops.sort import ArgsortOp
from weft.dialects.graph.regions.effects import EffectOp
from weft.dialects.graph.reindexing.gather import GatherElementsOp, GatherOp
from weft.dialects.graph.reindexing.generate import RangeOp
from weft.dialects.graph.reindexing.pad import PadOp
from weft.dialects.graph.reindexing.scatter import ScatterOp
from weft.dialects.graph.reindexing.slicing import ConcatOp, SliceOp
from weft.dialects.weights import Array

CALLS: Final = 64
"""Calls that are evaluated: all of them take about as long as compiling the program does."""

most_bytes = 1 << 18
"""Bytes of all tensors above which code pays from the first call on; 0 in suites that test code."""

_FLOATS: Final = (F32, F64)
_WHOLE: Final = (BOOL, *INTEGERS)

_MOVED: Final = (
    ConcatOp, ConstantOp, ExpandOp, GatherOp, GatherElementsOp, PadOp, ReshapeOp, SliceOp,
    TransposeOp, WhereOp, BitcastOp, NegOp, AbsOp, ComparisonOp, FloatTestOp, ArgExtremumOp,
    ArgsortOp, ExtremumOp, ReduceMaxOp, ReduceMinOp,
)  # fmt: skip
"""What has one result for any elements: nothing is rounded."""

_COUNTED: Final = (
    AddOp, SubOp, MulOp, BitShiftOp, BitwiseNotOp, LogicalNotOp, BitwiseOp, LogicalOp, RangeOp,
    ReduceSumOp, ScatterOp,
)  # fmt: skip
"""What has one result for integers."""

_ROUNDED: Final = (AddOp, SubOp, DivOp, SqrtOp, ScatterOp)
"""What rounds in one way. Compiling joins products with what reads them, and constants."""

_RUN: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_FAILED: Final = -(1 << 31)
"""A status that code has not."""


def is_exact(imported: ImportedModel) -> bool:
    """Whether the definitions of a program's operators give the bits that code gives (NaNs have any
    payload), on few elements.
    """
    block = graph_function(imported.module).body.block
    *ops, last = block.ops
    if any(isinstance(op, EffectOp) for op in ops):
        return False
    values = [*block.args, *(each for op in ops for each in op.results)]
    shapes = [type_of(each).static_shape for each in values]
    if any(each is None or 0 in each for each in shapes):
        return False
    if sum(map(_bytes, values)) > most_bytes:
        return False
    rounded = [op for op in _needed(ops, last) if not _is_whole(op)]
    if len(rounded) == 1:
        return _is_float(rounded[0], (MulOp, *_ROUNDED))
    varying = set[SSAValue](block.args)
    for op in ops:
        varying.update(op.results if varying.intersection(op.operands) else ())
    return all(_is_float(op, _ROUNDED) and varying.issuperset(op.operands) for op in rounded)


def _needed(ops: Sequence[Operation], last: Operation) -> Iterator[Operation]:
    """The operators that the results are made of."""
    found = {each.owner for each in last.operands}
    for op in reversed(ops):
        if op in found:
            found.update(each.owner for each in op.operands)
            yield op


def _is_whole(op: Operation) -> bool:
    """Whether an operator rounds nothing."""
    elements = [type_of(each).element for each in (*op.operands, *op.results)]
    if isinstance(op, CastOp):
        return _converts(*elements)
    kinds = (*_WHOLE, *_FLOATS) if isinstance(op, _MOVED) else _WHOLE
    return isinstance(op, (*_MOVED, *_COUNTED)) and all(each in kinds for each in elements)


def _converts(source: Attribute, target: Attribute) -> bool:
    """Whether all numbers of a type are converted in one way, as floats to integers are not."""
    return (target in _FLOATS and source in (*_WHOLE, *_FLOATS)) or (
        target in _WHOLE and source in _WHOLE
    )


def _is_float(op: Operation, classes: tuple[type[Operation], ...]) -> bool:
    """Whether an operator is one of those, of floats; extrema of updates know no sign of zero."""
    extremum = isinstance(op, ScatterOp) and op.reduction.data in ("max", "min")
    return isinstance(op, classes) and type_of(op.results[0]).element in _FLOATS and not extremum


def _bytes(value: SSAValue) -> int:
    return numpy_dtype(type_of(value).element).itemsize * prod(_shape(value))


def _shape(value: SSAValue) -> tuple[int, ...]:
    shape = type_of(value).static_shape
    assert shape is not None, "programs of JAX's plugins have constant sizes"
    return shape


class Evaluated:
    """A program of constant sizes that has no code. After CALLS calls, `often` is called once."""

    donated: tuple[tuple[int, int], ...] = ()

    def __init__(self, imported: ImportedModel, often: Callable[[], None]) -> None:
        self._block = graph_function(imported.module).body.block
        self._weights = imported.weights
        self._often = often
        self._calls = 0
        self._error: BaseException | None = None
        self._run: Any = _RUN(self._called)

    def native_call(self) -> tuple[int, int, int]:
        """No context, the address of what evaluates a call, and no workspace."""
        return 0, ctypes.cast(self._run, ctypes.c_void_p).value or 0, 0

    def fail(self, status: int) -> None:
        """Raises what the last call ended with, if that was an error."""
        if status == _FAILED and self._error is not None:
            raise self._error

    def _called(self, context: int, call: int) -> int:
        try:
            self._evaluate(*(ctypes.c_void_p * 3).from_address(call)[1:])
            self._calls += 1
            if self._calls == CALLS:
                self._often()
        except BaseException as error:  # nothing may be raised into native code
            self._error = error
            return _FAILED
        return 0

    def _evaluate(self, inputs: int, outputs: int) -> None:
        last = self._block.last_op
        assert last is not None, "a function of a graph returns"
        arrays = evaluate_block(
            self._block, _views(self._block.args, inputs), weights=self._weights
        )
        for view, array in zip(_views(last.operands, outputs), arrays, strict=True):
            view[...] = array


def _views(values: Sequence[SSAValue], addresses: int) -> list[Array]:
    """Arrays of the memory that a table of addresses says."""
    table = (ctypes.c_void_p * len(values)).from_address(addresses)
    return [_view(value, table[at]) for at, value in enumerate(values)]


def _view(value: SSAValue, address: int) -> Array:
    memory: Any = (ctypes.c_char * _bytes(value)).from_address(address)
    return np.ndarray(_shape(value), numpy_dtype(type_of(value).element), memory)
