"""Operands, results and regions of operations by name, several times as fast as by xDSL's own
descriptors, which find out at each access what they are of and where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from xdsl.ir import Operation, SSAValues
from xdsl.irdl.operations import (
    BaseAccessor,
    BeforeVariadicSingleAccessor,
    UniqueVariadicAccessor,
    VarIRConstruct,
)

Get = Callable[[Any], Any]

_item = tuple[Any, ...].__getitem__  # that of SSAValues looks at the kind of an index first


def quicken(operations: Iterable[type[Operation]]) -> None:
    """Has classes of operations find their fields faster, those aside that are of a rare kind."""
    for each in operations:
        for name, accessor in list(vars(each).items()):
            get = _getter(accessor) if isinstance(accessor, BaseAccessor) else None
            if get is not None:
                setattr(each, name, property(get))


def _getter(accessor: BaseAccessor) -> Get | None:
    """What gives the same as a descriptor of a single field, or of variadic operands."""
    if isinstance(accessor, BeforeVariadicSingleAccessor):
        single = _SINGLE.get(accessor.construct)
        return None if single is None else single(accessor.idx)
    if isinstance(accessor, UniqueVariadicAccessor) and accessor.construct is _OPERAND:
        return _operands(accessor.idx, accessor.idx + 1 - accessor.num_defs)
    return None


def _operand(position: int) -> Get:
    return lambda op: _item(op._operands, position)


def _operands(first: int, end: int) -> Get:
    own = slice(first, end or None)
    return lambda op: SSAValues(_item(op._operands, own))


def _result(position: int) -> Get:
    return lambda op: _item(op.results, position)


def _region(position: int) -> Get:
    return lambda op: op.regions[position]


_OPERAND: Final = VarIRConstruct.OPERAND
_SINGLE: Final[dict[VarIRConstruct, Callable[[int], Get]]] = {
    _OPERAND: _operand,
    VarIRConstruct.RESULT: _result,
    VarIRConstruct.REGION: _region,
}
