"""Fields of operations give what xDSL's descriptors give."""

import pytest
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    region_def,
    result_def,
    var_operand_def,
)
from xdsl.irdl.operations import BaseAccessor

from weft.dialects.fields import quicken


def definitions():
    """An operation with all kinds of fields, as xDSL defines it."""

    @irdl_op_definition
    class SomeOp(IRDLOperation):
        name = "test.some"
        first = operand_def()
        others = var_operand_def()
        last = operand_def()
        one = result_def()
        two = result_def()
        body = region_def()

    return SomeOp


@pytest.mark.parametrize("count", [2, 3, 5])
def test_quick_fields_give_what_slow_ones_give(count: int):
    bit = IntegerType(1)
    slow, quick = definitions(), definitions()
    quicken([quick])
    values = Block(arg_types=[bit] * count).args
    made = slow.create(operands=values, result_types=[bit, bit], regions=[Region()])
    same = quick.create(operands=values, result_types=[bit, bit], regions=[Region()])
    for name in ("first", "others", "last"):
        assert getattr(same, name) == getattr(made, name)
        assert type(getattr(same, name)) is type(getattr(made, name))
    assert [same.one, same.two] == list(same.results)
    assert same.body is same.regions[0]


def test_common_fields_are_quick():
    slow, quick = definitions(), definitions()
    quicken([quick])
    for name in ("first", "others", "one", "body"):
        own: object = vars(quick)[name]
        assert isinstance(own, BaseAccessor), "the parser of assembly formats asks for xDSL's"
        assert "__get__" in vars(own.__class__)
        assert own.__class__.__mro__[1] is vars(slow)[name].__class__
