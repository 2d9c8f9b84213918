"""What is verified of a module that was verified before: all that changed, and what looks at it."""

from collections.abc import Callable
from typing import ClassVar

import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from weft.compiler.driver.verify_changes import ChangeVerifier
from weft.dialects.context import parse_module
from weft.dialects.graph import CallOp, YieldOp
from weft.dialects.graph.core.types import tensor
from weft.dialects.graph.ops.activation import ReluOp
from weft.dialects.graph.ops.arithmetic import AddOp

TEXT = """
func.func @main(%x: T) -> T {
  %y = graph.call @twice(%x) : (T) -> T
  %z = graph.fused(%a = %y) : (T) -> T {
    %b = graph.relu %a : (T) -> T
    graph.yield %b : T
  }
  func.return %z : T
}
func.func private @twice(%x: T) -> T {
  %y = graph.add %x, %x : (T, T) -> T
  func.return %y : T
}
""".replace("T", "!graph.tensor<[4], f32>")
OTHER = tensor((5,), f32)


def first(module: ModuleOp, wanted: type[Operation]) -> Operation:
    return next(op for op in module.walk() if isinstance(op, wanted))


def function(module: ModuleOp, name: str) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == name)


def erase(op: Operation) -> None:
    op.detach()
    op.erase(safe_erase=False)


def retype_result(op: Operation) -> None:
    Rewriter.replace_value_with_new_type(op.results[0], OTHER)


def take_another_size(module: ModuleOp) -> None:
    """@twice is right by itself then, and its call, in which nothing changed, is wrong."""
    twice = function(module, "twice")
    for value in (twice.body.block.args[0], first(module, AddOp).results[0]):
        Rewriter.replace_value_with_new_type(value, OTHER)
    twice.properties["function_type"] = FunctionType.from_lists([OTHER], [OTHER])


def promise_another_result(module: ModuleOp) -> None:
    main = function(module, "main")
    inputs = main.function_type.inputs.data
    main.properties["function_type"] = FunctionType.from_lists(inputs, [OTHER])


def drop_property(module: ModuleOp) -> None:
    del first(module, CallOp).properties["callee"]


def put_wrong_property(module: ModuleOp) -> None:
    first(module, CallOp).properties["callee"] = StringAttr("twice")


def empty(module: ModuleOp) -> None:
    for op in reversed(list(function(module, "main").body.block.ops)):
        erase(op)


DAMAGES: dict[str, Callable[[ModuleOp], None]] = {
    "no terminator": lambda module: erase(first(module, ReturnOp)),
    "no yield": lambda module: erase(first(module, YieldOp)),
    "an empty body": empty,
    "an erased function": lambda module: erase(function(module, "twice")),
    "an erased operand": lambda module: erase(first(module, CallOp)),
    "another type of a result": lambda module: retype_result(first(module, ReluOp)),
    "another type of an operand": lambda module: retype_result(first(module, CallOp)),
    "a property less": drop_property,
    "a property of another kind": put_wrong_property,
    "a call of what takes other sizes": take_another_size,
    "a return of what is not promised": promise_another_result,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_found_in_a_module_that_was_verified(damage: Callable[[ModuleOp], None]):
    module, verifier = parse_module(TEXT, "text"), ChangeVerifier()
    verifier.verify(module)
    damage(module)
    with pytest.raises((VerifyException, ValueError)):
        module.verify()
    with pytest.raises((VerifyException, ValueError)):
        verifier.verify(module)


def test_damage_is_found_again_after_a_refusal():
    module, verifier = parse_module(TEXT, "text"), ChangeVerifier()
    drop_property(module)
    for _ in range(2):
        with pytest.raises(VerifyException):
            verifier.verify(module)


@irdl_op_definition
class CountedOp(IRDLOperation):
    """Counts how often it is verified."""

    name = "test.counted"
    VERIFIED: ClassVar[list[Operation]] = []

    def verify_(self) -> None:
        self.VERIFIED.append(self)


def test_what_did_not_change_is_not_verified_again():
    changing, still = CountedOp(), CountedOp()
    module, verifier = ModuleOp([changing, still]), ChangeVerifier()
    verifier.verify(module)
    verifier.verify(module)
    changing.attributes["note"] = StringAttr("changed")
    verifier.verify(module)
    assert [changing, still, changing] == CountedOp.VERIFIED
