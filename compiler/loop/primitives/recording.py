"""What the primitives did to a kernel, as text: one line a call, which the pass of the same name
does again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import Signature, signature
from typing import Final, ParamSpec, TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.arg_spec import ArgSpec, ParameterListType
from xdsl.utils.hints import isa

from weft.compiler.loop.nest import value_block
from weft.compiler.loop.references import buffer_reference, loop_reference, operation_reference
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AllocOp, ForOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import LayoutAttr

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_LOOK: Final[ContextVar[Callable[[KernelOp], None] | None]] = ContextVar("look", default=None)

STEPS = "schedule"
"""The attribute of a kernel that holds its steps while they are recorded."""


def primitive(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Makes a rewrite a primitive: a kernel that records its schedule gets a line for each call
    that is legal. What a primitive does through others is one line.
    """
    parameters = signature(function)

    @wraps(function)
    def recorded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        kernel = _kernel_of(args[0])
        if kernel is None or not is_recorded(kernel):
            return function(*args, **kwargs)
        step = _step(step_name(function), parameters, kernel, args, kwargs)
        before = steps_of(kernel)
        del kernel.attributes[STEPS]
        done: tuple[str, ...] = ()
        try:
            result = function(*args, **kwargs)
            done = (step,)
        finally:
            record(kernel, (*before, *done))
        look = _LOOK.get()
        if look is not None:
            look(kernel)
        return result

    return recorded


@contextmanager
def looking(look: Callable[[KernelOp], None]) -> Generator[None]:
    """Around what schedules a kernel that records its schedule: `look` is shown the kernel behind
    each step.
    """
    token = _LOOK.set(look)
    try:
        yield
    finally:
        _LOOK.reset(token)


def step_name(function: Callable[..., object]) -> str:
    """What a primitive is called in the text of a schedule."""
    return function.__name__.replace("_", "-")


def record(kernel: KernelOp, steps: tuple[str, ...]) -> None:
    """From here on the kernel keeps what primitives do to it, after the steps that are given."""
    kernel.attributes[STEPS] = ArrayAttr([StringAttr(step) for step in steps])


def is_recorded(kernel: KernelOp) -> bool:
    """Whether the kernel keeps what primitives do to it."""
    return STEPS in kernel.attributes


def steps_of(kernel: KernelOp) -> tuple[str, ...]:
    """What was done to the kernel since recording started, as `tile{loop="i" size=6}`."""
    steps = kernel.attributes.get(STEPS)
    return tuple(step.data for step in steps) if isa(steps, ArrayAttr[StringAttr]) else ()


def stop_recording(kernel: KernelOp) -> tuple[str, ...]:
    """Takes the record off the kernel and returns it."""
    steps = steps_of(kernel)
    kernel.attributes.pop(STEPS, None)
    return steps


def _kernel_of(subject: object) -> KernelOp | None:
    if isinstance(subject, SSAValue):
        block = value_block(cast("SSAValue", subject))
        subject = None if block is None else block.parent_op()
    while type(subject) is not KernelOp and isinstance(subject, Operation):
        subject = subject.parent_op()
    return subject if isinstance(subject, KernelOp) else None


def _step(
    name: str,
    parameters: Signature,
    kernel: KernelOp,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> str:
    """A call as text, its subjects named as they are before it. Defaults are left out."""
    given: dict[str, ParameterListType] = {}
    for key, value in parameters.bind(*args, **kwargs).arguments.items():
        parameter = parameters.parameters[key]
        if value is parameter.default:
            continue
        given[key] = tuple(_written(kernel, each) for each in _values(value))
    return str(ArgSpec(name, given))


def _values(argument: object) -> Iterable[object]:
    return (
        cast("Iterable[object]", argument) if isinstance(argument, (tuple, list)) else (argument,)
    )


def _written(kernel: KernelOp, value: object) -> str | int:
    match value:
        case KernelOp():
            return ""
        case ForOp():
            return loop_reference(kernel, value)
        case AllocOp():
            return buffer_reference(kernel, value.result)
        case Operation():
            return operation_reference(kernel, value)
        case SSAValue():
            return buffer_reference(kernel, value)
        case LayoutAttr():
            return value.body()
        case Expr():
            return str(value) if value.constant is None else value.constant
        case str() | int():
            return value
        case None:
            return ""
        case _:
            raise TypeError(f"a primitive takes nothing of the kind of {value!r}")
