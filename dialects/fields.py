"""Operations by quicker ways to the same: operands, results and regions by name, several times as
fast as by xDSL's own descriptors, which find out at each access what they are of and where it
stands; the walk over what is inside; hashes; texts; what is an instance of which class.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from io import StringIO
from types import GenericAlias
from typing import Any, Final

from xdsl import irdl
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, SSAValues, TypeAttribute
from xdsl.irdl import AttrConstraint
from xdsl.irdl.operations import (
    BaseAccessor,
    BeforeVariadicSingleAccessor,
    IRDLOperation,
    UniqueVariadicAccessor,
    VarIRConstruct,
)
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove
from xdsl.utils import hints

_item = tuple[Any, ...].__getitem__  # that of SSAValues looks at the kind of an index first


class _Operand(BeforeVariadicSingleAccessor):
    """Descriptors stay of xDSL's classes, which its parser of assembly formats asks them for."""

    def __get__(self, obj: Any, objtype: object = None) -> Any:
        return _item(obj._operands, self.idx)


class _Result(BeforeVariadicSingleAccessor):
    def __get__(self, obj: Any, objtype: object = None) -> Any:
        return _item(obj.results, self.idx)


class _Region(BeforeVariadicSingleAccessor):
    def __get__(self, obj: Any, objtype: object = None) -> Any:
        return obj.regions[self.idx]


class _Operands(UniqueVariadicAccessor):
    def __get__(self, obj: Any, objtype: object = None) -> Any:
        end = self.idx + 1 - self.num_defs  # from behind
        return SSAValues(_item(obj._operands, slice(self.idx, end or None)))


_HINTS: Final = (GenericAlias, type(SSAValue[Attribute]))
"""Of a class of attributes with parameters, as Python has them: no unions are among them."""

_SINGLE: Final[dict[VarIRConstruct, type[BeforeVariadicSingleAccessor]]] = {
    VarIRConstruct.OPERAND: _Operand,
    VarIRConstruct.RESULT: _Result,
    VarIRConstruct.REGION: _Region,
}


class _PlainClass(ABCMeta):
    """Of abstract classes that no others are registered with: their instances are told as those of
    any class, several times as fast.
    """

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def _tell_quickly(abstract: type[Any]) -> None:
    """Has instances of an abstract class, of those derived from it and of those to come be told
    quickly.
    """
    if type(abstract) is ABCMeta:
        abstract.__class__ = _PlainClass
    for each in type.__subclasses__(abstract):
        _tell_quickly(each)


class _TextPrinter(Printer):
    """Counts no columns within a line: nothing points at what an operation prints. Operations of a
    class with a format of its own, without a scope, and regions of a block without a label print
    as by xDSL's in fewer steps; a type is printed once.
    """

    def __init__(self, stream: StringIO):
        super().__init__(stream=stream)
        self._write = stream.write

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._write(text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        columns = (self._indent if indent is None else indent) * self.indent_num_spaces
        self._write("\n" + " " * columns)

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, TypeAttribute):
            self._write(_type_text(attribute))
        else:
            super().print_attribute(attribute)

    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        block = region.first_block
        if (
            block is None
            or block.next_block is not None
            or (print_entry_block_args and block.args)
            or (print_empty_block and block.is_empty)
            or not print_block_terminators
        ):
            super().print_region(
                region, print_entry_block_args, print_empty_block, print_block_terminators
            )
            return
        self._write("{")
        self._indent += 1
        for op in block.ops:
            self._print_new_line()
            self.print_op(op)
        self._indent -= 1
        self._print_new_line()
        self._write("}")

    def print_op(self, op: Operation) -> None:
        if not _is_plain(type(op)):
            super().print_op(op)
            return
        if op.results:
            self._print_results(op)
        self._write(op.name)
        op.print(self)


@lru_cache(maxsize=1 << 12)
def _type_text(attribute: TypeAttribute) -> str:
    """What a type prints as, wherever it does."""
    stream = StringIO()
    printer = _TextPrinter(stream)
    Printer.print_attribute(printer, attribute)
    return stream.getvalue()


@cache
def _is_plain(operation: type[Operation]) -> bool:
    """Whether operations of a class print by a format of their own, and in the scope around."""
    own = operation.print is not Operation.print and not issubclass(operation, UnregisteredOp)
    return own and not operation.get_traits_of_type(IsolatedFromAbove)


def text_of(op: Operation) -> str:
    """What an operation prints as."""
    stream = StringIO()
    _TextPrinter(stream).print_op(op)
    return stream.getvalue()


def tell_quickly() -> None:
    """Has attributes, operations and values told by class, without a call of Python's, and
    operations and values hashed by identity as objects are.
    """
    for abstract in (Attribute, Block, Operation, Region, SSAValue):
        _tell_quickly(abstract)
    for hashed in (SSAValue, Block, IRDLOperation):
        hashed.__hash__ = object.__hash__


def quicken(operation: type[Operation]) -> None:
    """Has a class of operations find its fields faster, those aside that are of a rare kind, walk
    through its regions, and look for no defaults where none are.
    """
    operation.walk = _walk
    if issubclass(operation, IRDLOperation) and not _has_defaults(operation):
        operation.__post_init__ = _nothing
    for name, accessor in list(vars(operation).items()):
        quick = _faster(accessor) if isinstance(accessor, BaseAccessor) else None
        if quick is not None:
            setattr(operation, name, quick)


def _once_for_each(constraint_of: Callable[..., AttrConstraint]) -> Any:
    """xDSL's constraint of a type, made once for what `isa` asks most: `ArrayAttr[StringAttr]`,
    `DenseArrayBase[IntegerType]`.
    """
    kept = cache(constraint_of)

    def constraint(hint: Any, **options: Any) -> AttrConstraint:
        return (
            kept(hint) if type(hint) in _HINTS and not options else constraint_of(hint, **options)
        )

    return constraint


irdl.irdl_to_attr_constraint = _once_for_each(irdl.irdl_to_attr_constraint)


def _but_for_none(isa: Callable[[Any, Any], bool]) -> Any:
    """xDSL's `isa`, which finds out what a hint is before it looks at what is mostly None: whether
    an attribute that is not there is an `ArrayAttr[StringAttr]`.
    """

    def of_hint(arg: Any, hint: Any) -> bool:
        return (arg is not None or type(hint) not in _HINTS) and isa(arg, hint)

    return of_hint


hints.isa = _but_for_none(hints.isa)


def _has_defaults(operation: type[IRDLOperation]) -> bool:
    """Whether properties or attributes that nobody gives have values, which are looked for each
    time that an operation is made.
    """
    definition = operation.get_irdl_definition()
    fields = (*definition.properties.values(), *definition.attributes.values())
    return any(each.default_value is not None for each in fields)


def _nothing(self: Operation) -> None:
    """What is left to do behind `__init__`."""


def _walk(
    self: Operation, *, reverse: bool = False, region_first: bool = False
) -> Iterator[Operation]:
    """What `Operation.walk` gives, without a generator for each operation that has no region."""
    if reverse or region_first:
        yield from Operation.walk(self, reverse=reverse, region_first=region_first)
        return
    yield self
    for region in self.regions:
        for block in region.blocks:
            op = block.first_op
            while op is not None:
                following = op.next_op
                if op.regions:
                    yield from op.walk()
                else:
                    yield op
                op = following


def _faster(accessor: BaseAccessor) -> BaseAccessor | None:
    """A descriptor that gives the same, of a single field or of variadic operands."""
    construct = accessor.construct
    if isinstance(accessor, BeforeVariadicSingleAccessor) and construct in _SINGLE:
        return _SINGLE[construct](construct, accessor.idx)
    if isinstance(accessor, UniqueVariadicAccessor) and construct is VarIRConstruct.OPERAND:
        return _Operands(construct, accessor.idx, accessor.num_defs)
    return None
