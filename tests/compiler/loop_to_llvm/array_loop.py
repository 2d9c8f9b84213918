"""Loops over whole arrays around one LLVM expression, compiled for this machine or for another."""

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import binding, ir

binding.initialize_all_targets()
binding.initialize_all_asmprinters()

INDEX = ir.IntType(64)
HOST_FEATURES = binding.get_host_cpu_features()
Expression = Callable[[ir.IRBuilder, list[ir.Value]], ir.Value]


def shaped(element: ir.Type, lanes: int) -> ir.Type:
    """`lanes` elements, or the element itself where `lanes` is 0."""
    return ir.VectorType(element, lanes) if lanes else element


def add_loop(
    module: ir.Module,
    name: str,
    operands: Sequence[ir.Type],
    result: ir.Type,
    lanes: int,
    expression: Expression,
) -> None:
    """Define `void name(operand arrays..., result array, i64 count)`, of whole vectors only."""
    pointers = [t.as_pointer() for t in (*operands, result)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*pointers, INDEX]), name)
    entry, body, done = (function.append_basic_block(n) for n in ("entry", "body", "done"))
    builder = ir.IRBuilder(entry)
    builder.branch(body)
    builder.position_at_end(body)
    index = builder.phi(INDEX)
    index.add_incoming(INDEX(0), entry)

    def place(array: ir.Value, element: ir.Type) -> ir.Value:
        pointer = builder.gep(array, [index])
        return builder.bitcast(pointer, shaped(element, lanes).as_pointer())

    loaded = [
        builder.load(place(array, element), align=1)
        for array, element in zip(function.args, operands, strict=False)
    ]
    value = expression(builder, loaded)
    builder.store(value, place(function.args[len(operands)], result), align=1)
    following = builder.add(index, INDEX(max(lanes, 1)))
    index.add_incoming(following, builder.block)
    more = builder.icmp_unsigned("<", following, function.args[-1])
    builder.cbranch(more, body, done)
    builder.position_at_end(done)
    builder.ret_void()


def target_machine(triple: str, cpu: str, features: str) -> binding.TargetMachine:
    return binding.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default"
    )


def optimised(module: ir.Module, machine: binding.TargetMachine) -> binding.ModuleRef:
    module.triple = machine.triple
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    builder = binding.create_pass_builder(machine, binding.PipelineTuningOptions(speed_level=1))
    builder.getModulePassManager().run(parsed, builder)
    return parsed


@dataclass
class ArrayFunction:
    """A compiled loop; the engine owns its code."""

    engine: Any
    entry: Any
    result: np.dtype
    lanes: int

    def __call__(self, *operands: np.ndarray) -> np.ndarray:
        count = len(operands[0])
        padded = [np.append(x, np.ones(-count % max(self.lanes, 1), x.dtype)) for x in operands]
        out = np.empty(len(padded[0]), self.result)
        self.entry(*(x.ctypes.data for x in (*padded, out)), len(out))
        return out[:count]


def compiled_here(module: ir.Module, name: str, result: Any, lanes: int) -> ArrayFunction:
    """The loop `name` of the module, compiled for this machine."""
    machine = target_machine(
        binding.get_process_triple(), binding.get_host_cpu_name(), HOST_FEATURES.flatten()
    )
    arity = len(module.globals[name].args)
    engine = binding.create_mcjit_compiler(optimised(module, machine), machine)
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity - 1), ctypes.c_int64)
    entry = signature(engine.get_function_address(name))
    return ArrayFunction(engine, entry, np.dtype(result), lanes)


def undefined_symbols(module: ir.Module, triple: str, cpu: str, features: str) -> set[str]:
    """What the ELF object of the module for a target needs from elsewhere."""
    machine = target_machine(triple, cpu, features)
    elf = machine.emit_object(optimised(module, machine))
    sections = {s.name(): s.data() for s in binding.ObjectFileRef.from_data(elf).sections()}
    names = sections[b".strtab"]
    found: set[str] = set()
    for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", sections[b".symtab"]):
        if name and not section:
            found.add(names[name : names.index(b"\0", name)].decode())
    return found
