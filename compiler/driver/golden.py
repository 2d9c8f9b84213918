"""An imported graph -> the golden inputs and outputs of an artifact's self-test.

Outputs are what the operators' references give in float64, rounded to some bits more than the
tolerance tells apart: what NumPy does differently on another machine is not seen in them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from weft.compiler.driver.options import Options
from weft.compiler.driver.report import Report
from weft.compiler.graph.bound_sizes import graph_function, input_sizes
from weft.compiler.graph.differentiate.differentiate import DifferentiatePass
from weft.compiler.loop_to_llvm.data import ALIGNMENT
from weft.compiler.loop_to_llvm.runtime.self_test import Golden, GoldenTensor
from weft.dialects.context import WeftContext
from weft.dialects.errors import OptionError, WeftError
from weft.dialects.expr import Expr, Symbol
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.core.types import FLOATS, TensorType, type_of
from weft.dialects.weights import Array, WeightStore

MOST_BYTES: Final = 64 << 20
"""Of all golden inputs and outputs together."""

_BATCH: Final = 2
_CANDIDATES: Final = (8, 2, 32, 64, 224)
"""Values that are tried for sizes without bounds, in this order."""
_FINEST, _FINE, _COARSEST = 1e-9, 1e-4, 0.25
"""Tolerances of float64, of float32, and of floats of a few bits."""
_SPARE_BITS: Final = 5
_INDICES: Final = 2
"""Integers below this are valid in nearly every table."""


class GoldenRun(Struct, frozen=True):
    """Inputs and outputs in the order of a call, for these sizes; `tolerance` is a share of the
    largest magnitude in a floating-point output. `given` says whether somebody chose the inputs.
    """

    sizes: Mapping[str, int]
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    tolerance: float
    given: bool

    def content(self) -> bytes:
        """All elements, each tensor on a cache line."""
        arrays = [*self.inputs, *self.outputs]
        return b"".join(array.tobytes().ljust(_room(array), b"\0") for array in arrays)

    def layout(self, symbols: Sequence[str]) -> Golden:
        """Where the tensors are in the content, for sizes in this order."""
        arrays = [*self.inputs, *self.outputs]
        ends = np.cumsum([0, *map(_room, arrays)]).tolist()
        tensors = [
            GoldenTensor(start, array.dtype.name, array.shape, self._margin(array))
            for start, array in zip(ends, arrays, strict=False)
        ]
        count = len(self.inputs)
        sizes = tuple(self.sizes[name] for name in symbols)
        return Golden(sizes, tensors[:count], tensors[count:])

    def _margin(self, array: Array) -> float:
        """How far an element of an output may be off."""
        if not _is_float(array.dtype):
            return 0.0
        wide = np.abs(array.astype(np.float64))
        scale = float(wide[np.isfinite(wide)].max(initial=0.0))
        return self.tolerance * (scale or 1.0)

    def identity(self) -> dict[str, object]:
        """What the metadata say of it."""
        content = self.content()
        return {
            "inputs": "given" if self.given else "seeded",
            "sizes": dict(self.sizes),
            "tolerance": self.tolerance,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }


def golden_run(
    module: ModuleOp, weights: WeightStore, options: Options, report: Report
) -> GoldenRun | None:
    """The golden inputs and outputs of the module's graph function, which is not changed; None
    where the options do not ask for them. The time goes into the report.

    Raises OptionError for given inputs that do not fit, for a model that weft's own inputs do not
    suit, and for tensors of more than MOST_BYTES.
    """
    if options.artifact.self_test is None:
        return None
    with report.stage("self-test"):
        whole = module.clone()
        if options.gradients:
            gradients = DifferentiatePass(inputs=options.gradients)
            gradients.apply(WeftContext(weights), whole)
        return _golden_run(whole, weights, options, options.artifact.self_test.arrays)


def _golden_run(
    module: ModuleOp, weights: WeightStore, options: Options, given: Mapping[str, Array] | None
) -> GoldenRun:
    function = graph_function(module)
    tolerance = _tolerance(module)
    refused: Exception | None = None
    for inputs, sizes in _attempts(module, function, options, given):
        try:
            results = evaluate_block(function.body.block, inputs, sizes, weights, wide=True)
        except (WeftError, ArithmeticError, LookupError, ValueError) as error:
            refused = error
            continue
        if given is None and any(array.size == 0 for array in results):
            continue
        outputs = _rounded(function, results, tolerance)
        run = GoldenRun(sizes, inputs, outputs, tolerance, given is not None)
        size = sum(map(_room, [*inputs, *outputs]))
        if size > MOST_BYTES:
            rule = f"at most {MOST_BYTES} bytes of inputs and outputs"
            raise OptionError(f"self-test requires {rule}, got {size}; give it smaller ones")
        return run
    got = f"{refused}" if refused else "outputs without elements"
    raise OptionError(f"self-test requires inputs that the model can take, got {got}; give it some")


def _attempts(
    module: ModuleOp, function: FuncOp, options: Options, given: Mapping[str, Array] | None
) -> Iterator[tuple[list[Array], dict[str, int]]]:
    """Inputs with their sizes: the given ones, or such as the model may take."""
    arguments = function.body.block.args
    tensor_types = [type_of(argument) for argument in arguments]
    names = _input_names(function)
    if given is not None:
        yield _given(given, names, tensor_types)
        return
    for sizes in _sizes(input_sizes(module), tensor_types, options):
        shapes = [[_extent(dim, sizes) for dim in each.shape] for each in tensor_types]
        yield (
            [
                _made_up(number, shape, numpy_dtype(each.element))
                for number, (shape, each) in enumerate(zip(shapes, tensor_types, strict=True))
            ],
            sizes,
        )


def _input_names(function: FuncOp) -> list[str]:
    names = function.attributes.get("input_names")
    if isa(names, ArrayAttr[StringAttr]):
        return [name.data for name in names]
    arguments = function.body.block.args
    return [argument.name_hint or f"v{n}" for n, argument in enumerate(arguments)]


def _extent(dim: Expr, sizes: Mapping[str, int]) -> int:
    return dim.evaluate({Symbol(name): size for name, size in sizes.items()})


def _given(
    arrays: Mapping[str, Array], names: Sequence[str], tensor_types: Sequence[TensorType]
) -> tuple[list[Array], dict[str, int]]:
    """The arrays of a user in the order of the inputs, with the sizes of their shapes."""
    if set(arrays) != set(names):
        rule = f"self-test requires arrays named {', '.join(names)}"
        raise OptionError(f"{rule}, got {', '.join(arrays) or 'none'}")
    ordered = [np.ascontiguousarray(arrays[name]).reshape(arrays[name].shape) for name in names]
    sizes: dict[str, int] = {}
    for array, tensor_type in zip(ordered, tensor_types, strict=True):
        for dim, extent in zip(tensor_type.shape, array.shape, strict=False):
            if str(dim).isidentifier():
                sizes.setdefault(str(dim), extent)
    for name, array, tensor_type in zip(names, ordered, tensor_types, strict=True):
        dtype = numpy_dtype(tensor_type.element)
        shape = tuple(_extent(dim, sizes) for dim in tensor_type.shape)
        if array.dtype != dtype or array.shape != shape:
            dims = ", ".join(map(str, tensor_type.shape))
            got = f"{array.dtype} {array.shape}"
            raise OptionError(f"self-test requires {dtype} ({dims}) for input '{name}', got {got}")
    return ordered, sizes


def _sizes(
    names: Sequence[str], tensor_types: Sequence[TensorType], options: Options
) -> Iterator[dict[str, int]]:
    """Values of the named sizes: of the first bucket, within bounds, two for a batch."""
    fixed = options.buckets.combinations()[0] if options.buckets.sizes else {}
    bounds = {each.name: (each.least, each.most) for each in options.bounds}
    batches = {str(each.shape[0]) for each in tensor_types if len(each.shape) > 1}
    tried: list[dict[str, int]] = []
    for alike in (False, True):
        for candidate in _CANDIDATES:
            sizes: dict[str, int] = {}
            for name in names:
                wanted = _BATCH if name in batches and not alike else candidate
                low, high = bounds.get(name, (1, wanted))
                sizes[name] = fixed.get(name, min(max(wanted, low), high))
            if sizes not in tried:
                tried.append(sizes)
                yield sizes


def _made_up(number: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """The same elements everywhere: floats from -2 to 2 in steps that narrow types hold, either
    truth, integers of any size, but 0 and 1 where they may be places in a table.
    """
    count = math.prod(shape)
    mixed = np.arange(count, dtype=np.uint64) + np.uint64((number + 1) << 40)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    words = (mixed ^ (mixed >> np.uint64(31))).reshape(shape)
    if dtype == np.bool_:
        return (words & np.uint64(1)).astype(dtype)
    if dtype == np.dtype(ml_dtypes.float8_e8m0fnu):  # powers of two alone
        return np.exp2((words & np.uint64(3)).astype(np.float32)).astype(dtype)
    if _is_float(dtype):
        return (((words & np.uint64(255)).astype(np.float64) - 128) / 64).astype(dtype)
    below = _INDICES if dtype.itemsize >= 4 else int(ml_dtypes.iinfo(dtype).max) + 1
    return (words % np.uint64(below)).astype(dtype)


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype != np.bool_ and "int" not in dtype.name


def _tolerance(module: ModuleOp) -> float:
    """The share of an output's scale by which two computations may differ, of the coarsest values
    in the graph.
    """
    steps = [0.0]
    for op in module.walk():
        if isinstance(op, GraphOp):
            floats = any(map(_is_float_value, op.operands))
            steps += [_step(value, floats) for value in op.results]
    coarsest = max(steps)
    if 0 < coarsest <= np.finfo(np.float64).eps:
        return _FINEST
    return _FINE if coarsest <= np.finfo(np.float32).eps else min(8 * coarsest, _COARSEST)


def _is_float_value(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and value.type.element in FLOATS


def _step(value: SSAValue, of_floats: bool) -> float:
    """How far two neighbouring values may lie apart, next to 1; a byte made of floats has 256."""
    if not isinstance(value.type, TensorType):
        return 0.0
    dtype = numpy_dtype(value.type.element)
    if _is_float(dtype):
        finfo: Any = ml_dtypes.finfo
        return float(finfo(dtype).eps)
    quantized = of_floats and dtype != np.bool_ and dtype.itemsize == 1
    return 2.0**-8 if quantized else 0.0


def _rounded(function: FuncOp, results: Sequence[Array], tolerance: float) -> list[Array]:
    """The results in the model's own types, floats to the bits that count."""
    bits = math.ceil(-math.log2(tolerance)) + _SPARE_BITS
    outputs: list[Array] = []
    returned = function.get_return_op()
    assert returned is not None, "a graph function returns its outputs"
    for value, array in zip(returned.operands, results, strict=True):
        dtype = numpy_dtype(type_of(value).element)
        if _is_float(dtype):
            fraction, exponent = np.frexp(array.astype(np.float64))
            array = np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits)
        with np.errstate(all="ignore"):
            outputs.append(np.ascontiguousarray(array.astype(dtype)).reshape(array.shape))
    return outputs


def _room(array: Array) -> int:
    return -(-array.nbytes // ALIGNMENT) * ALIGNMENT
