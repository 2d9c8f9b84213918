"""Every rewrite, on random instances of the expression that it looks for."""

from random import Random
from zlib import crc32

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from tests.compiler.graph.rewrite_instances import Instance, instance, operators
from weft.compiler.graph.simplify.rewrite import apply_rewrites
from weft.compiler.graph.simplify.rewrites import REWRITES
from weft.dialects.errors import WeftError
from weft.dialects.graph import ConstantOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.core.types import F32, tensor, type_of
from weft.dialects.graph.ops.arithmetic import DivOp
from weft.dialects.graph.ops.exponential import PowOp
from weft.dialects.graph.ops.pool import MaxPoolOp
from weft.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMinOp
from weft.dialects.weights import WeightStore

ENOUGH = 12
"""Instances that a rewrite is applied to."""

MOST = 2000
"""Instances that are drawn for that."""

ANY_ZERO = {ReduceMaxOp, ReduceMinOp, MaxPoolOp}
"""What gives either zero where +0 and -0 are the extremes."""


def _evaluated(found: Instance, *, wide: bool = False) -> np.ndarray:
    """The result, with `wide` computed in f64 and rounded once."""
    result = type_of(found.block.last_op.operands[0])
    with np.errstate(all="ignore"):
        array = evaluate_block(found.block, found.arrays, weights=found.weights, wide=wide)[0]
        return array.astype(numpy_dtype(result.element))


def _rewritten(found: Instance, rewrites, *, strict: bool = False) -> list[str]:
    applied = apply_rewrites(found.block.parent_op(), found.weights, rewrites, strict=strict)
    found.module.verify()
    return applied


def _drawn(rewrite):
    """Instances without end, and what they compute; what does not go together is drawn anew: sizes
    of two names that have to be equal, and windows that are wider than what they are over.
    """
    random = Random(crc32(rewrite.name.encode()))
    is_power = PowOp in rewrite.before.classes
    for _ in range(MOST):
        try:
            found = instance(rewrite, random)
            before = _evaluated(found, wide=is_power)
        except (WeftError, ValueError, IndexError):
            continue
        yield found, before


def _require_same(after, before, rewrite, *, exact: bool):
    assert (after.dtype, after.shape) == (before.dtype, before.shape)
    if after.dtype.kind in "biu":
        assert after.tolist() == before.tolist()
        return
    after, wanted = after.astype(np.float64), before.astype(np.float64)
    if not exact:
        close = float(ml_dtypes.finfo(before.dtype).eps) * 32
        np.testing.assert_allclose(after, wanted, rtol=close, atol=close * 4)
        return
    np.testing.assert_array_equal(after, wanted)
    if ANY_ZERO.isdisjoint(
        op_class for each in operators(rewrite.before) for op_class in each.classes
    ):
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(after)[numbers], np.signbit(wanted)[numbers])


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda rewrite: rewrite.name)
def test_a_rewrite_means_the_same(rewrite):
    """NumPy's powers of f32 are off by a rounding, and wrong for -inf: those are of f64."""
    is_power, applied = PowOp in rewrite.before.classes, 0
    for found, before in _drawn(rewrite):
        if _rewritten(found, [rewrite]):
            applied += 1
            _require_same(_evaluated(found), before, rewrite, exact=rewrite.exact)
        _rewritten(found, REWRITES)
        _require_same(_evaluated(found, wide=is_power), before, rewrite, exact=False)
        if applied == ENOUGH:
            return
    pytest.fail(f"{rewrite.name} was applied to {applied} of {MOST} instances")


@pytest.mark.parametrize(
    "rewrite", [each for each in REWRITES if not each.exact], ids=lambda rewrite: rewrite.name
)
def test_what_rounds_otherwise_is_left_out_under_strict_fp(rewrite):
    for found, before in _drawn(rewrite):
        if before.dtype.kind not in "biu":
            assert not _rewritten(found, [rewrite], strict=True)
            if _rewritten(found, [rewrite]):
                return
    pytest.fail(f"{rewrite.name} was applied to none of {MOST} instances")


@pytest.mark.parametrize("replaceable", [True, False])
def test_elements_that_may_be_replaced_decide_nothing(replaceable):
    """Two is a power of two, and what a caller may hand over in its place need not be."""
    store, vector = WeightStore(replaceable=replaceable), tensor([4], F32)
    block = Block(arg_types=[vector])
    divisor = ConstantOp.given("w", np.full(4, 2, np.float32), store)
    quotient = DivOp.of(block.args[0], divisor.result)
    block.add_ops([divisor, quotient, ReturnOp(quotient.result)])
    function = FuncOp("main", ([vector], [vector]), Region(block))
    assert apply_rewrites(function, store) == ([] if replaceable else ["x / 2 ** n"])
