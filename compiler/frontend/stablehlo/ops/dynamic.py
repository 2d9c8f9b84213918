"""Operators whose shapes are operands, and what JAX asserts of sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import SSAValue

from weft.compiler.frontend.stablehlo.node import Node
from weft.compiler.frontend.stablehlo.ops.indexing import gathered
from weft.compiler.frontend.stablehlo.ops.movement import (
    boxed,
    broadcast,
    counted_along,
    padded,
)
from weft.compiler.frontend.stablehlo.ops.products import convolved
from weft.compiler.frontend.stablehlo.types import parts_of
from weft.dialects.errors import TypeInferenceError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph import AssertOp, BindSizesOp
from weft.dialects.graph.core.algebra import Term, shape_attr
from weft.dialects.graph.core.types import I64, INTEGERS


def constants(node: Node, term: Term) -> list[int]:
    """The elements of a vector, which are constants."""
    found = [size.constant for size in node.sizes(term)]
    known = [size for size in found if size is not None]
    if len(known) != len(found):
        raise UnsupportedError("requires constants, got numbers that only a call knows")
    return known


def dynamic_broadcast_in_dim(node: Node) -> Sequence[Term]:
    """`broadcast_in_dim` to dims that an operand lists."""
    x, sizes = node.operands
    dims = node.integers("broadcast_dimensions")
    return [broadcast(x, dims, node.declared_sizes(sizes))]


def dynamic_iota(node: Node) -> Sequence[Term]:
    """`0, 1, ...` along one dim of a shape that an operand lists."""
    return [counted_along(node, node.declared_sizes(node.only), node.integer("iota_dimension"))]


def dynamic_reshape(node: Node) -> Sequence[Term]:
    """The elements under dims that an operand lists, which have to hold as many."""
    x, sizes = node.operands
    shape = shape_attr(node.declared_sizes(sizes))
    try:
        return [x.of(node.b.reshape(x.value, shape=shape))]
    except TypeInferenceError:
        return [x.of(node.b.dynamic_reshape(x.value, shape=shape))]


def real_dynamic_slice(node: Node) -> Sequence[Term]:
    """A box whose bounds are operands; steps are constants."""
    x, starts, limits, strides = node.operands
    steps = constants(node, strides)
    firsts, ends = node.sizes(starts), node.sizes(limits)
    sizes = [
        (end - start).ceildiv(step) if dim is None else Expr.of(dim)
        for dim, start, end, step in zip(node.result.shape, firsts, ends, steps, strict=True)
    ]
    return [boxed(x, firsts, sizes, steps)]


def dynamic_pad(node: Node) -> Sequence[Term]:
    """`pad` with as many elements as operands say."""
    x, value, low, high, interior = node.operands
    return [padded(x, value, node.sizes(low), node.sizes(high), constants(node, interior))]


def dynamic_gather(node: Node) -> Sequence[Term]:
    """`gather` with slices of sizes that an operand lists."""
    x, indices, sizes = node.operands
    return gathered(node, x, indices, node.sizes(sizes))


def dynamic_conv(node: Node) -> Sequence[Term]:
    """`convolution` with padding that an operand lists."""
    pads = node.sizes(node.operands[2].reshape([2 * (len(node.only.shape) - 2)]))
    return convolved(node, list(zip(pads[::2], pads[1::2], strict=True)))


def get_dimension_size(node: Node) -> Sequence[Term]:
    """A dim as a scalar."""
    size = node.only.shape[node.integer("dimension")]
    found = node.b.dims(values=shape_attr([size]), scalar=UnitAttr())
    return [Term(node.b, found).cast(node.result.element)]


def shape_assertion(node: Node) -> Sequence[Term]:
    """What is required of sizes; the message names them by their position."""
    holds, *sizes = node.operands
    text = node.written.get("error_message")
    message = text.data if isinstance(text, StringAttr) else "a requirement on sizes"
    for position in range(len(sizes)):
        message = message.replace("{" + str(position) + "}", "{}")
    places = message.count("{}")
    values = [each.cast(I64).value for each in sizes]
    if places != len(values) or "{" in message.replace("{}", ""):
        message, values = message.replace("{", "(").replace("}", ")"), []
    node.b.builder.insert(AssertOp.of(holds.value, message, values, node.b.location))
    return []


def sized_arguments(
    main: FuncOp, functions: Mapping[str, FuncOp], arguments: Sequence[Term]
) -> list[Term]:
    """The arguments of `main`; integers of which shapes are made are sizes from there on."""
    found: list[Term] = []
    blocks = main.body.block.args
    written_for = [each for each in blocks for _ in range(parts_of(each.type))]
    for written, term in zip(written_for, arguments, strict=True):
        scalar = not term.shape and term.type.element in INTEGERS
        if not scalar or not _makes_shapes(written, functions):
            found.append(term)
            continue
        name = f"arg{written.index}_size"
        term.b.builder.insert(BindSizesOp.of(term.value, [name]))
        size = term.b.dims(values=shape_attr([Expr.of(name)]), scalar=UnitAttr())
        found.append(term.of(size).cast(term.type.element))
    return found


_PASSED_ON = frozenset(
    f"stablehlo.{name}"
    for name in (
        "convert",
        "reshape",
        "concatenate",
        "add",
        "multiply",
        "subtract",
        "broadcast_in_dim",
    )
)


def _makes_shapes(value: SSAValue, functions: Mapping[str, FuncOp]) -> bool:
    """Whether a number reaches an operand that lists a shape."""
    waiting, seen = [value], {value}
    while waiting:
        for use in waiting.pop().uses:
            op = use.operation
            after: Sequence[SSAValue] = ()
            if op.name in DYNAMIC_SHAPES and use.index > 0 or op.name == "stablehlo.dynamic_iota":
                return True
            if op.name in _PASSED_ON:
                after = op.results
            elif isinstance(op, CallOp):
                function = functions.get(op.callee.root_reference.data)
                after = () if function is None else [function.body.block.args[use.index]]
            new = [each for each in after if each not in seen]
            seen.update(new)
            waiting += new
    return False


DYNAMIC = {
    "dynamic_broadcast_in_dim": dynamic_broadcast_in_dim,
    "dynamic_conv": dynamic_conv,
    "dynamic_gather": dynamic_gather,
    "dynamic_iota": dynamic_iota,
    "dynamic_pad": dynamic_pad,
    "dynamic_reshape": dynamic_reshape,
    "get_dimension_size": get_dimension_size,
    "real_dynamic_slice": real_dynamic_slice,
}
"""By the name in StableHLO."""

DYNAMIC_SHAPES = frozenset(f"stablehlo.{name}" for name in DYNAMIC)
"""Operators whose operands behind the first list a shape."""
