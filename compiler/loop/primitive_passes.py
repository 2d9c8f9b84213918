"""One pass for each schedule primitive, for golden tests, for trying things out,
and for doing a recorded schedule again.

    weft-opt -p 'weft-tile{kernel=mm loop=i size=6},weft-reorder{kernel=mm order=io,k,ii}' mm.mlir

A pass has the parameters of its primitive. compiler/loop/references.py says how loops, buffers and
operations are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from inspect import Parameter, signature
from types import NoneType
from typing import Any, ClassVar, Final, get_args, get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from weft.compiler.loop.primitives import PRIMITIVES
from weft.compiler.loop.primitives.recording import step_name
from weft.compiler.loop.references import find_buffer, find_loop, find_operation
from weft.dialects.context import WeftContext
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr
from weft.dialects.expr_text import parse_expr
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import ExprsAttr, LayoutAttr, parse_layout_body


@dataclass(frozen=True)
class PrimitivePass(ModulePass):
    """Applies a primitive to the kernel of that name."""

    primitive: ClassVar[Callable[..., object]]
    kernel: str

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Finds the kernel and schedules it."""
        for function in op.ops:
            if isinstance(function, KernelOp) and function.sym_name.data == self.kernel:
                self.schedule(function)
                return
        raise IllegalSchedule(f"{self.name} requires a kernel of the module, got @{self.kernel}")

    def schedule(self, kernel: KernelOp) -> None:
        """Applies the primitive to a kernel. Raises IllegalSchedule."""
        hints = get_type_hints(self.primitive)
        args: list[object] = []
        kwargs: dict[str, object] = {}
        for key, parameter in signature(self.primitive).parameters.items():
            text = getattr(self, key)
            if (
                parameter.default is not Parameter.empty
                and text == _FIELDS[_type_of_hint(hints[key])][1]
            ):
                continue
            value = _read(kernel, _type_of_hint(hints[key]), text)
            if parameter.kind is Parameter.VAR_POSITIONAL:
                args += [_read(kernel, ForOp, each) for each in text]
            elif parameter.kind is Parameter.KEYWORD_ONLY:
                kwargs[key] = value
            else:
                args.append(value)
        self.primitive(*args, **kwargs)


_FIELDS: Final[Mapping[Any, tuple[Any, object]]] = {
    ForOp: (str, ""),
    ForOp | KernelOp: (str, ""),
    SSAValue: (str, ""),
    AllocOp: (str, ""),
    Operation: (str, ""),
    AccessOp: (str, ""),
    LoadOp: (str, ""),
    StoreOp: (str, ""),
    LayoutAttr: (str, ""),
    Expr | int: (str | int, ""),
    str: (str, ""),
    int: (int, 0),
    bool: (bool, False),
    Sequence[str]: (tuple[str, ...], ()),
}
"""The type that a parameter has in the text of a schedule, and what stands for its default."""


def _type_of_hint(hint: Any) -> Any:
    """A parameter's type, without the None that it may be instead."""
    left = [each for each in get_args(hint) if each is not NoneType]
    return left[0] if NoneType in get_args(hint) and len(left) == 1 else hint


def _read(kernel: KernelOp, expected: Any, text: Any) -> object:
    """The value of a parameter from its text."""
    if expected in (str, int, bool, Sequence[str]):
        return text
    if expected in (SSAValue, AllocOp):
        buffer = find_buffer(kernel, text)
        return buffer.owner if expected is AllocOp else buffer
    if expected is LayoutAttr and not text:
        return None
    if expected is LayoutAttr:
        subscripts, storage = parse_layout_body(Parser(WeftContext(), text, "<layout>"))
        return LayoutAttr(ExprsAttr(subscripts.data), ExprsAttr(storage.data))
    if expected == Expr | int:
        return parse_expr(Parser(WeftContext(), str(text), "<size>"))
    if expected == ForOp | KernelOp and not text:
        return kernel
    if expected in (ForOp, ForOp | KernelOp):
        return find_loop(kernel, text) if isinstance(text, str) else text
    op = find_operation(kernel, text)
    if not isinstance(op, expected):
        wanted = "load or store" if expected is AccessOp else expected.name
        raise IllegalSchedule(f"a schedule requires a {wanted} there, got {text} ({op.name})")
    return op


def _pass_of(function: Callable[..., object]) -> type[PrimitivePass]:
    """The pass of a primitive: a field for each of its parameters."""
    hints = get_type_hints(function)
    fields: list[Any] = []
    for key, parameter in signature(function).parameters.items():
        text_type, absent = _FIELDS[_type_of_hint(hints[key])]
        if parameter.kind is Parameter.VAR_POSITIONAL:
            text_type, absent = tuple[str, ...], ()
        optional = parameter.default is not Parameter.empty
        fields.append((key, text_type, absent) if optional else (key, text_type))
    name = f"weft-{step_name(function)}"
    namespace = {"name": name, "primitive": staticmethod(function), "__doc__": function.__doc__}
    title = "".join(part.title() for part in step_name(function).split("-"))
    made = make_dataclass(
        f"{title}Pass", fields, bases=(PrimitivePass,), namespace=namespace, frozen=True
    )
    made.__module__ = __name__
    return made


PRIMITIVE_PASSES: Final[tuple[type[PrimitivePass], ...]] = tuple(map(_pass_of, PRIMITIVES))
