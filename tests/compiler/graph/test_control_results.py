"""Programs of the golden tests of branches and loops compute the same when results are dropped."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from weft.compiler.graph.simplify.cse_dce import CseDcePass
from weft.compiler.graph.simplify.fold_constants import FoldConstantsPass
from weft.dialects.context import WeftContext
from weft.dialects.graph import ControlOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.core.types import BOOL, TensorType, type_of

LIT = Path(__file__).parents[3] / "lit" / "graph"
CASES = [
    (name, case)
    for name in ("drop-results", "fold-control")
    for case in (LIT / f"{name}.mlir").read_text().split("// -----")
]


def _array(tensor_type: TensorType, holds: bool):
    shape = tuple(dim.constant or 3 for dim in tensor_type.shape)
    if tensor_type.element == BOOL:
        return np.full(shape, holds)
    numbers = np.linspace(-2, 3, np.prod(shape, dtype=int)).reshape(shape)
    return numbers.astype(numpy_dtype(tensor_type.element))


def _results(function: FuncOp, holds: bool):
    block = function.body.block
    return evaluate_block(block, [_array(type_of(each), holds) for each in block.args])


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize(("name", "case"), CASES)
def test_programs_mean_the_same(name: str, case: str, holds: bool):
    context = WeftContext()
    module = Parser(context, case).parse_module()
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    if holds or "graph.assert" not in case:
        before, text = _results(function, holds), str(module)
        for each in (FoldConstantsPass(), CseDcePass()):
            each.apply(context, module)
        module.verify()
        assert str(module) != text or "@other_conditions" in case or "@needed" in case
        assert any(isinstance(op, ControlOp) for op in module.walk())
        for one, other in zip(_results(function, holds), before, strict=True):
            np.testing.assert_array_equal(one, other)
