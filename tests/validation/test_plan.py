"""The proof of memory plans on whole compilations."""

import numpy as np
import pytest
from onnx.parser import parse_model
from xdsl.parser import Parser

import weft
import weft.numpy as wnp
from tests.validation.mutants import plan, program_of
from tests.validation.subjects import SUBJECTS
from weft.array_api import linalg
from weft.compiler.program.memory import in_place
from weft.compiler.program.memory.in_place import InPlace
from weft.compiler.validation.plan import note_meaning
from weft.dialects.context import WeftContext
from weft.dialects.errors import PlanError
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.ops import AllocOp, ForOp, IfOp, WhileOp
from weft.dialects.loop.program import FILLS_BORDER, CallOp, KernelOp, ProgramOp, origin_of

MATRIX = np.array([[3.0, 1.0], [1.0, 2.0]], np.float32)
VECTOR = np.array([[1.0], [2.0]], np.float32)


def claims_of_before(kernel):
    """What W1 claimed: the stores in blocks without a load did not count."""
    arguments = list(kernel.body.block.args)
    loads = {a: [u.operation for u in a.uses if u.operation.name == "loop.load"] for a in arguments}
    stores = {
        a: [u.operation for u in a.uses if u.operation.name == "loop.store"] for a in arguments
    }
    return [
        InPlace(one.index, other.index)
        for one in arguments
        for other in arguments
        if one.type == other.type and loads[one] and stores[other] and not loads[other]
        and not stores[one]
        and all(
            any(s.parent is load.parent and s.index == load.index for s in stores[other])
            for load in loads[one]
        )
    ]  # fmt: skip


@pytest.fixture
def claiming_as_before(monkeypatch, own_kernels):
    """Kernels claim what they claimed before, in this process, which compiles all of them."""
    monkeypatch.setattr("weft.compiler.program.kernel_summary.in_place_arguments", claims_of_before)
    for started in ("can_fork", "can_start"):
        monkeypatch.setattr(f"weft.compiler.driver.compile_kernels.{started}", lambda: False)


@pytest.mark.usefixtures("claiming_as_before")
def test_w1_is_refused_where_it_is_put_back():
    """W1: with the claims of before, nothing is emitted."""
    loss = weft.grad(lambda s, b: (linalg._eliminated(s, b)[0] ** 2).sum())
    with pytest.raises(PlanError, match="requires every element of argument"):
        weft.trace(loss, MATRIX, VECTOR)


@pytest.mark.usefixtures("claiming_as_before")
def test_w2_is_refused_where_it_is_put_back():
    """W2: with the claims of before, nothing is emitted."""

    def loss(x):
        step = lambda s, k: (s - wnp.take(s, k, 0)[None, :] * s, None)  # noqa: E731
        return (weft.scan(step, x, wnp.arange(2))[0] ** 2).sum()

    with pytest.raises(PlanError, match="requires every element of argument"):
        weft.trace(weft.grad(loss), MATRIX, naive=True)


def test_w1_is_refused_by_the_plan_where_kernels_are_not_compiled(monkeypatch):
    """The proof of the plan looks at kernels itself where nothing is noted on them."""
    text = """
    loop.kernel @fill(%x: T, %y: T) {
      %zero = arith.constant 0.0 : f32
      loop.for %i = 0 to 16 { loop.store %zero, %y[%i] : T }
      loop.for %j = 0 to 16 {
        %v = loop.load %x[%j] : T
        loop.store %v, %y[%j] : T
      }
    }
    loop.program @main(%x: T, %y: T) inputs 1 {
      %a = loop.alloc workspace at 0 : T
      loop.call @fill(%x, %a) : T, T
      %b = loop.alloc workspace at 0 : T
      loop.call @fill(%a, %b) : T, T
      loop.call @fill(%b, %y) : T, T
    }
    """
    module = Parser(WeftContext(), text.replace("T", "!loop.buffer<[16], f32>")).parse_module()
    kernel, program = module.ops
    assert isinstance(kernel, KernelOp)
    assert isinstance(program, ProgramOp)
    kernels = {"fill": kernel}
    meaning = note_meaning(program, kernels)
    with pytest.raises(PlanError, match="arguments 0 and 1 in memory that they share"):
        meaning.prove(program, kernels)
    assert in_place.in_place_arguments(kernel) == []


@pytest.fixture(scope="module")
def planned():
    """The subjects of mutation by name."""
    names = ("turning", "searching", "choosing", "finding", "images", "branching")
    return {each.name: plan(each) for each in SUBJECTS if each.name in names}


def test_subjects_have_all_that_plans_are_about(planned):
    ops = {name: list(program_of(each.module).walk()) for name, each in planned.items()}
    kinds = {name: {type(op) for op in found} for name, found in ops.items()}
    assert ForOp in kinds["turning"]
    assert WhileOp in kinds["searching"]
    assert IfOp in kinds["choosing"]
    assert ConcurrentOp in kinds["branching"]
    assert any(FILLS_BORDER in op.attributes for op in ops["images"])
    scopes = {op.scope.data for op in ops["finding"] if isinstance(op, AllocOp)}
    assert "growable" in scopes


def test_a_loop_that_goes_from_one_buffer_to_the_other_is_proved(planned):
    """Each call of an iteration stands twice in the loop, and once behind it."""
    calls = [op for op in program_of(planned["turning"].module).walk() if isinstance(op, CallOp)]
    numbers = [origin_of(call) for call in calls]
    assert any(numbers.count(number) == 3 for number in numbers)


@pytest.mark.parametrize(
    "text",
    [
        "(float[n,4,10,8] x, float[4,4,k,1] w) => (y) { a = Softmax(x) b = Conv(a, w) "
        "c = Softmax(b) y = Conv(c, w) }",
        "(float[n,4,10,h] x, float[4,4,k,1] w) => (y, z) { a = Softmax(x) b = Conv(a, w) "
        "y = Softmax(b) z = Softmax(a) }",
    ],
)
def test_buffers_that_shrink_as_a_window_grows_are_in_order(text):
    """At most sizes that one may think of, a buffer here would have fewer than 0 elements."""
    model = parse_model(f'<ir_version: 8, opset_import: ["" : 17]> model {text}')
    weft.compile(model, cache=False)
