"""The text of a module, as llvmlite prints it, whose instructions of the frequent kinds are printed
in a third of its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from llvmlite import ir


def module_text(module: ir.Module) -> str:
    """What `str(module)` is to LLVM."""
    lines = [
        f'; ModuleID = "{module.name}"',
        f'target triple = "{module.triple}"',
        f'target datalayout = "{module.data_layout}"',
        *(each.get_declaration() for each in module.get_identified_types().values()),
    ]
    for each in module.globals.values():
        lines += _function(each) if isinstance(each, ir.Function) else [str(each)]
    for name, node in module.namedmetadata.items():
        nodes = ", ".join(each.get_reference() for each in node.operands)
        lines.append(f"!{name} = !{{ {nodes} }}")
    lines += map(str, module.metadata)
    return "\n".join(lines)


def take_apart(module: ir.Module) -> None:
    """Lets go of a module's instructions, which refer to each other: the interpreter would keep
    them until it looks for cycles.
    """
    for function in module.functions:
        for block in function.blocks:
            for each in block.instructions:
                vars(each).clear()
            block.instructions.clear()
            block.parent = None
        function.blocks.clear()
        function.parent = None
    module.globals.clear()


def _function(function: ir.Function) -> Iterator[str]:
    head: list[str] = []
    function.descr_prototype(head)
    yield "".join(head)
    if not function.blocks:
        return
    yield "{"
    for block in function.blocks:
        name = block.name
        yield f"{name}:" if name.replace(".", "").isidentifier() else f'"{name}":'
        for each in block.instructions:
            text = PRINTERS.get(type(each))
            plain = text is not None and not each.metadata and not each.flags
            yield text(each) if text is not None and plain else str(each)
    yield "}"


def _operation(each: Any) -> str:
    operands = ", ".join([operand.get_reference() for operand in each.operands])
    return f"{each.get_reference()} = {each.opname} {each.type} {operands}"


def _load(each: Any) -> str:
    aligned = "" if each.align is None else f", align {each.align}"
    return f"{each.get_reference()} = load {each.type}, {_typed(each.operands[0])}{aligned}"


def _store(each: Any) -> str:
    value, pointer = each.operands
    aligned = "" if each.align is None else f", align {each.align}"
    return f"store {_typed(value)}, {_typed(pointer)}{aligned}"


def _address(each: Any) -> str:
    name = "getelementptr inbounds" if each.inbounds else "getelementptr"
    operands = ", ".join(map(_typed, each.indices))
    said = f"{name} {each.source_etype}, {_typed(each.pointer)}, {operands}"
    return f"{each.get_reference()} = {said}"


def _shuffle(each: Any) -> str:
    return f"{each.get_reference()} = shufflevector {', '.join(map(_typed, each.operands))}"


def _call(each: Any) -> str:
    callee, *operands = each.operands
    marks = each.cconv or each.tail or each.attributes or each.fastmath or each.arg_attributes
    if marks or callee.function_type.var_arg:
        return str(each)
    result = callee.function_type.return_type
    said = f"call {result} {callee.get_reference()}({', '.join(map(_typed, operands))})"
    return said if isinstance(result, ir.VoidType) else f"{each.get_reference()} = {said}"


def _typed(value: Any) -> str:
    return f"{value.type} {value.get_reference()}"


PRINTERS: Final[dict[type, Callable[[Any], str]]] = {
    ir.Instruction: _operation,
    ir.LoadInstr: _load,
    ir.StoreInstr: _store,
    ir.GEPInstr: _address,
    ir.ShuffleVector: _shuffle,
    ir.CallInstr: _call,
}
"""By the kind of an instruction without flags and metadata."""
