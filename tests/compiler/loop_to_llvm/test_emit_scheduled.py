"""Whole kernels, as lowered and as schedules leave them: compiled against interpreted."""

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.compiler.loop import kernels
from tests.compiler.loop.interpreter import dtype_of
from tests.compiler.loop_to_llvm.compiled_kernel import HOST, CompiledKernel
from weft.compiler.loop.schedules import schedule_kernel
from weft.compiler.program.memory.hoist_workspace import hoist_workspace
from weft.compiler.target import TARGETS
from weft.compiler.target.target import Target
from weft.dialects.expr import Symbol
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import buffer_type_of

SCHEDULED_FOR = [*(t for t in TARGETS if t.name in ("x86-64", "x86-64-v3")), HOST]
PATTERNS: dict[str, Callable[[], KernelOp]] = {
    "matmul": kernels.matmul,
    "large matmul": lambda: kernels.matmul(25, 70, 33),
    "vector": lambda: kernels.matmul(1, 37, 20),
    "pointwise": kernels.pointwise,
    "long pointwise": lambda: kernels.pointwise(3, 77),
    "row sum": kernels.row_sum,
    "long row sum": lambda: kernels.row_sum(5, 83),
    "softmax": kernels.softmax,
    "long softmax": lambda: kernels.softmax(4, 45),
    "convolution": kernels.convolution,
    "wide convolution": lambda: kernels.convolution(5, 35, 11),
    "gather": lambda: kernels.gather(21, 5),
    "prefix sum": kernels.prefix_sum,
    "scatter": kernels.scatter,
}


def check(kernel: KernelOp, scheduled: KernelOp, target: Target, **sizes: int) -> None:
    """Fails unless the compiled kernel makes what the interpreted one does."""
    expected = kernels.outcome(kernel, **sizes)
    hoist_workspace(ModuleOp([scheduled]))
    arrays = [np.ascontiguousarray(each) for each in kernels.arguments_of(kernel, **sizes)]
    for argument in scheduled.body.block.args[len(arrays) :]:
        kind = buffer_type_of(argument)
        size = kind.size.evaluate({Symbol(name): value for name, value in sizes.items()})
        arrays.append(np.full(size, 99, dtype_of(kind.element)))
    CompiledKernel(scheduled, target=target)(*arrays, sizes=sizes)
    for want, got in zip(expected, arrays, strict=False):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("name", PATTERNS)
def test_naive_kernels(name: str):
    make = PATTERNS[name]
    check(make(), make(), HOST)


@pytest.mark.parametrize("target", SCHEDULED_FOR, ids=lambda target: target.name)
@pytest.mark.parametrize("name", PATTERNS)
def test_scheduled_kernels(name: str, target: Target):
    scheduled = PATTERNS[name]()
    assert schedule_kernel(scheduled, target)
    check(PATTERNS[name](), scheduled, target)


SYMBOLIC: dict[str, Callable[[], KernelOp]] = {
    "matmul": lambda: kernels.matmul("n", "m", 5, ["n", "m"]),
    "pointwise": lambda: kernels.pointwise("n", "m", ["n", "m"]),
    "row sum": lambda: kernels.row_sum("n", "m", ["n", "m"]),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name: str):
    for n, m in ((0, 3), (1, 1), (7, 16), (13, 45)):
        scheduled = SYMBOLIC[name]()
        schedule_kernel(scheduled, HOST)
        check(SYMBOLIC[name](), scheduled, HOST, n=n, m=m)
