"""Operations are defined at their first use, as xDSL defines them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.dialects.test import Test
from xdsl.ir import Attribute, Block
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def, traits_def
from xdsl.irdl.operations import BaseAccessor
from xdsl.parser import Parser
from xdsl.traits import IsTerminator, NoTerminator, Pure
from xdsl.utils.exceptions import ParseError, VerifyException

from weft.dialects.context import DIALECTS
from weft.dialects.definitions import irdl_op_definition
from weft.dialects.fields import text_of
from weft.dialects.stablehlo import CHLO, QUANT, STABLEHLO


def declared() -> type[IRDLOperation]:
    """An operation that nobody has used yet."""

    @irdl_op_definition
    class SomeOp(IRDLOperation):
        name = "test.some"
        first = operand_def(IntegerType(1))
        one = result_def(IntegerType(1))
        width = prop_def(StringAttr)

        def verify_(self) -> None:
            if self.width.data == "none":
                raise VerifyException("test.some requires a width, got none")

    return SomeOp


def made(operation: type[IRDLOperation], width: str = "one", *, of: Attribute | None = None):
    values = Block(arg_types=[of or IntegerType(1)]).args
    return operation.create(
        operands=values,
        result_types=[IntegerType(1)],
        properties={"width": StringAttr(width)},
    )


def test_a_class_has_its_fields_when_an_operation_is_made():
    operation = declared()
    assert not isinstance(vars(operation)["first"], BaseAccessor)
    op = made(operation)
    assert isinstance(vars(operation)["first"], BaseAccessor)
    assert (op.first, op.one, op.width.data) == (op.operands[0], op.results[0], "one")


def test_a_definition_is_made_once():
    operation = declared()
    definition = operation.get_irdl_definition()
    assert definition is operation.get_irdl_definition()
    assert [name for name, _ in definition.operands] == ["first"]
    assert definition.traits is operation.traits


def test_threads_that_define_a_class_at_once_have_one_definition():
    operation, together = declared(), Barrier(4)

    def define(_: int):
        together.wait()
        return operation.get_irdl_definition(), made(operation).first

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(define, range(4)))
    assert len({id(definition) for definition, _ in found}) == 1


def test_the_definition_and_the_class_verify():
    made(declared()).verify()
    with pytest.raises(VerifyException, match="i8"):
        made(declared(), of=IntegerType(8)).verify()
    with pytest.raises(VerifyException, match="requires a width"):
        made(declared(), "none").verify()


def test_traits_are_those_of_a_class_and_of_what_it_is_derived_from():
    class Base(IRDLOperation):
        traits = traits_def(Pure())

    @irdl_op_definition
    class OwnOp(Base):
        name = "test.own"
        traits = traits_def(IsTerminator())

    @irdl_op_definition
    class PlainOp(IRDLOperation):
        name = "test.plain"

    assert {type(each) for each in OwnOp.traits} == {Pure, IsTerminator}
    assert not PlainOp.has_trait(Pure)
    OwnOp.traits.add_trait(NoTerminator())
    assert OwnOp.get_irdl_definition().traits is OwnOp.traits
    assert {type(each) for each in OwnOp.traits} == {Pure, IsTerminator, NoTerminator}


@pytest.mark.parametrize(
    "dialect", [*DIALECTS, STABLEHLO, CHLO, QUANT], ids=lambda dialect: dialect.name
)
def test_every_operation_can_be_defined(dialect):
    for operation in dialect.operations:
        if issubclass(operation, IRDLOperation):
            assert operation.get_irdl_definition().name == operation.name


def formatted(text: str) -> type[IRDLOperation]:
    """An operation that is parsed and printed as an assembly format says."""

    @irdl_op_definition
    class FormattedOp(IRDLOperation):
        name = "test.formatted"
        first = operand_def(IntegerType(1))
        one = result_def(IntegerType(1))
        assembly_format = text

    return FormattedOp


def test_formats_are_read_when_an_operation_is_printed_or_parsed():
    operation = formatted("$first `of` `it` attr-dict")
    value = Block(arg_types=[IntegerType(1)]).args[0]
    made = operation.create(operands=[value], result_types=[IntegerType(1)])
    assert text_of(made) == "%0 = test.formatted %1 of it"
    context = Context()
    context.load_op(operation)
    context.load_dialect(Test)
    text = '%x = "test.op"() : () -> i1\n%y = test.formatted %x of it'
    *_, read = Parser(context, text).parse_module().ops
    assert isinstance(read, operation)
    assert read.operands[0].name_hint == "x"


def test_a_format_with_an_error_is_refused_at_its_first_use():
    made = formatted("$nothing").create(
        operands=Block(arg_types=[IntegerType(1)]).args, result_types=[IntegerType(1)]
    )
    for _ in range(2):
        with pytest.raises(ParseError, match="nothing"):
            text_of(made)
