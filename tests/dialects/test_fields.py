"""Fields of operations give what xDSL's descriptors give."""

import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerType, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    OpDef,
    operand_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
)
from xdsl.irdl.operations import BaseAccessor, get_accessors_from_op_def
from xdsl.utils.hints import isa

from weft.dialects.context import parse_module
from weft.dialects.fields import quicken, text_of


def as_xdsl_defines(operation: type[IRDLOperation]):
    """A class of operations with the fields that xDSL gives it, at once."""
    for name, member in get_accessors_from_op_def(OpDef.from_pyrdl(operation), None).items():
        setattr(operation, name, member)
    return operation


def definitions():
    """An operation with all kinds of fields, as xDSL defines it."""

    class SomeOp(IRDLOperation):
        name = "test.some"
        first = operand_def()
        others = var_operand_def()
        last = operand_def()
        one = result_def()
        two = result_def()
        body = region_def()

    return as_xdsl_defines(SomeOp)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_quick_fields_give_what_slow_ones_give(count: int):
    bit = IntegerType(1)
    slow, quick = definitions(), definitions()
    quicken(quick)
    values = Block(arg_types=[bit] * count).args
    made = slow.create(operands=values, result_types=[bit, bit], regions=[Region()])
    same = quick.create(operands=values, result_types=[bit, bit], regions=[Region()])
    for name in ("first", "others", "last"):
        assert getattr(same, name) == getattr(made, name)
        assert type(getattr(same, name)) is type(getattr(made, name))
    assert [same.one, same.two] == list(same.results)
    assert same.body is same.regions[0]


def test_instances_are_told_as_those_of_any_class():
    class Bit(TypeAttribute):
        name = "test.bit"

    some, other = definitions(), definitions()
    made = some.create(
        operands=Block(arg_types=[IntegerType(1)] * 2).args,
        result_types=[IntegerType(1)] * 2,
        regions=[Region()],
    )
    kinds: list[type] = [some, Operation, IntegerType, Bit, TypeAttribute]
    assert all(type(kind).__instancecheck__ is type.__instancecheck__ for kind in kinds)
    assert [isinstance(made, kind) for kind in (some, Operation, other, Bit)] == [1, 1, 0, 0]
    assert [isinstance(IntegerType(1), kind) for kind in (IntegerType, Attribute, Bit)] == [1, 1, 0]
    assert issubclass(Bit, Attribute)


def test_common_fields_are_quick():
    slow, quick = definitions(), definitions()
    quicken(quick)
    for name in ("first", "others", "one", "body"):
        own: object = vars(quick)[name]
        assert isinstance(own, BaseAccessor), "the parser of assembly formats asks for xDSL's"
        assert "__get__" in vars(own.__class__)
        assert own.__class__.__mro__[1] is vars(slow)[name].__class__


def nested():
    """Operations in regions of operations, three deep, and their root."""
    bit = IntegerType(1)
    kind = definitions()
    quicken(kind)

    def one(*inside: Block):
        values = Block(arg_types=[bit] * 2).args
        regions = [Region(list(inside))]
        return kind.create(operands=values, result_types=[bit, bit], regions=regions)

    return one(Block([one(Block([one(), one()])), one()]), Block([one()]))


def test_the_quick_walk_is_the_slow_one():
    root = nested()
    for options in ({}, {"reverse": True}, {"region_first": True}):
        assert list(root.walk(**options)) == list(Operation.walk(root, **options))
    assert len(list(root.walk())) == 6


def test_what_a_walk_has_come_to_may_be_erased():
    root = nested()
    leaves = [op for op in root.walk() if not op.regions[0].blocks]
    for op in root.walk():
        if op in leaves:
            op.detach()
    assert len(list(root.walk())) == 2


def test_operations_and_values_are_told_apart_by_identity():
    one, other = nested(), nested()
    for hashed in (*(each for root in (one, other) for each in root.walk()), *one.results):
        assert hash(hashed) == object.__hash__(hashed)
    assert len({one, other, one}) == 2


def test_defaults_are_filled_in_where_there_are_some():
    class DefaultOp(IRDLOperation):
        name = "test.default"
        width = prop_def(IntegerType, default_value=IntegerType(8))

    quicken(as_xdsl_defines(DefaultOp))
    assert DefaultOp.create().width == IntegerType(8)
    assert DefaultOp.create(properties={"width": IntegerType(1)}).width == IntegerType(1)


KERNEL = """
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) attributes {t = "c\\nd"} {
  %two = arith.constant 2.0 : f32
  loop.for %i = 0 to n {
    %a = loop.load %x[%i] : !loop.buffer<[n], f32>
    %b = arith.mulf %a, %two : f32
    loop.store %b, %y[%i] : !loop.buffer<[n], f32>
  }
}"""


def test_the_quick_text_is_the_slow_one():
    (kernel,) = parse_module(KERNEL, "<test>").ops
    assert str(kernel) == text_of(kernel) == Operation.__str__(kernel)
    assert "loop.store" in str(kernel)


def test_types_are_told_by_their_parameters():
    names, numbers = ArrayAttr([StringAttr("a")]), ArrayAttr([IntAttr(1)])
    for _ in range(2):
        assert isa(names, ArrayAttr[StringAttr])
        assert not isa(numbers, ArrayAttr[StringAttr])
        assert isa(numbers, ArrayAttr[IntAttr])
        assert not isa(names, ArrayAttr[IntAttr])
